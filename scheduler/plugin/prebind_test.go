package plugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// reserve schedules a pod up to Reserve.
func reserve(t *testing.T, p *Plugin, pod *v1.Pod, node string) fwk.CycleState {
	t.Helper()
	cs := cycle(t, p, pod)
	fits(t, filter(t, p, cs, node))
	fits(t, p.Reserve(t.Context(), cs, pod, node))
	return cs
}

// admitted returns the pod after its kubelet has processed it.
func admitted(p *v1.Pod, node string) *v1.Pod { return kubetest.Admitted(p, node) }

func TestReserveDecidesOnWhatIsThereNow(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 1))
	a, b := cpus("a", 10), cpus("b", 10)
	csA, csB := cycle(t, p, a), cycle(t, p, b)
	fits(t, filter(t, p, csA, "n"))
	fits(t, filter(t, p, csB, "n"))
	fits(t, p.Reserve(t.Context(), csA, a, "n"))
	const why = `cannot align container "c" (wants 10 cpu; node has 6 free)`
	says(t, p.Reserve(t.Context(), csB, b, "n"), fwk.Unschedulable, why)
	says(t, filter(t, p, cycle(t, p, b), "n"), fwk.Unschedulable, why)
	p.Unreserve(t.Context(), csB, b, "n")
	p.Unreserve(t.Context(), csA, a, "n")
	reserve(t, p, b, "n")
}

// A pod that holds nothing of the node has no turn to wait for. kube-scheduler 1.34 calls PreBind for it, and every
// release does if it belongs to a gang.
func TestAPodThatHoldsNothingIsBound(t *testing.T) {
	p := newPlugin(t, refuse)
	l := layout(t, "n", two, place.SingleNUMA, 1)
	l.Rules.MemoryManagerPolicy = "None"
	p.Feed.Layout(l)
	pod := podOf("p", "cpu=4500m memory=1Gi")
	cs := reserve(t, p, pod, "n")
	if p.Book.Booked("n", string(pod.UID)) {
		t.Fatal("the pod holds something")
	}
	fits(t, p.PreBind(t.Context(), cs, pod, "n"))
}

func TestPodsOfOneShapeDoNotWait(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("held", 12), "16-27")))
	a, b, other := cpus("a", 8), cpus("b", 8), cpus("other", 4) // if that came first, b would be refused
	csA, csB, csOther := reserve(t, p, a, "n"), reserve(t, p, b, "n"), reserve(t, p, other, "n")
	// A pod that need not wait has its turn at once, and kube-scheduler writes nothing about it before the binding.
	if s := p.preFlight(csA, a, "n"); s.Code() != fwk.Skip {
		t.Errorf("PreBindPreFlight of pod a: %s", s.Message())
	}
	if s := p.preFlight(csB, b, "n"); s.Code() != fwk.Skip {
		t.Errorf("PreBindPreFlight of pod b: %s", s.Message())
	}
	if status := p.preFlight(csOther, other, "n"); !status.IsSuccess() {
		t.Errorf("PreBindPreFlight of a pod that has to wait: %s", status.Message())
	}
	fits(t, p.PreBind(t.Context(), csA, a, "n"))
	fits(t, p.PreBind(t.Context(), csB, b, "n"))
}

func TestAPodWaitsUntilTheOneBeforeItIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t, refuse)
		p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("held", 12), "16-27")))
		a, b := cpus("a", 16), cpus("b", 4) // if b came first, a would be refused
		csA, csB := reserve(t, p, a, "n"), reserve(t, p, b, "n")
		done := make(chan *fwk.Status, 1)
		go func() { done <- p.PreBind(t.Context(), csB, b, "n") }()
		waits := func(when string) {
			t.Helper()
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("pod b went on %s", when)
			}
		}
		waits("before pod a had its turn")
		fits(t, p.PreBind(t.Context(), csA, a, "n"))
		waits("when pod a had its turn")
		p.Feed.Pod(bind(a, "n"))
		waits("when pod a was bound")
		p.Feed.Layout(layout(t, "other", two, place.SingleNUMA, 2))
		waits("when another node reported")
		p.Feed.Pod(admitted(a, "n"))
		fits(t, <-done)
	})
}

// A kubelet that receives several pods at once admits the older ones first. So a pod waits for older ones until they
// are bound, and for others until they are admitted.
func TestAPodWaitsUntilAnOlderOneIsBound(t *testing.T) {
	for name, c := range map[string]struct {
		ages [2]int64 // seconds in which the pods were created
		goes bool
	}{
		"the pod before is older":           {[2]int64{1, 2}, true},
		"it was created in the same second": {[2]int64{2, 2}, false},
		"it is younger":                     {[2]int64{3, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlugin(t, refuse)
				p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("held", 12), "16-27")))
				a, b := cpus("a", 16), cpus("b", 4) // if b came first, a would be refused
				a.CreationTimestamp, b.CreationTimestamp = metav1.Unix(c.ages[0], 0), metav1.Unix(c.ages[1], 0)
				csA, csB := reserve(t, p, a, "n"), reserve(t, p, b, "n")
				done := make(chan *fwk.Status, 1)
				go func() { done <- p.PreBind(t.Context(), csB, b, "n") }()
				fits(t, p.PreBind(t.Context(), csA, a, "n"))
				synctest.Wait()
				if len(done) > 0 {
					t.Error("pod b went on before pod a was bound")
				}
				p.Feed.Pod(bind(a, "n"))
				synctest.Wait()
				if goes := len(done) > 0; goes != c.goes {
					t.Errorf("pod b goes on when pod a is bound: %t", goes)
				}
				p.Feed.Pod(admitted(a, "n"))
				fits(t, <-done)
			})
		})
	}
}

// If pods fit in any order, none waits for the kubelet's admission.
func TestPodsThatFitInAnyOrderDoNotWait(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	for _, pod := range []*v1.Pod{cpus("a", 4), cpus("b", 6)} {
		cs := reserve(t, p, pod, "n")
		if s := p.preFlight(cs, pod, "n"); s.Code() != fwk.Skip {
			t.Errorf("PreBindPreFlight of pod %s: %s", pod.Name, s.Message())
		}
	}
}

func TestTheWaitForATurnEnds(t *testing.T) {
	for name, end := range map[string]func(p *Plugin, cs fwk.CycleState, a *v1.Pod){
		"the pod before is not bound": func(p *Plugin, cs fwk.CycleState, a *v1.Pod) { p.Unreserve(t.Context(), cs, a, "n") },
		"the pod before is deleted":   func(p *Plugin, _ fwk.CycleState, a *v1.Pod) { p.Feed.PodGone(a) },
		"the pod before is refused": func(p *Plugin, _ fwk.CycleState, a *v1.Pod) {
			a = bind(a, "n")
			a.Status.Phase = v1.PodFailed
			p.Feed.Pod(a)
		},
		"the node reports the pod before": func(p *Plugin, _ fwk.CycleState, a *v1.Pod) {
			p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, p.Book.Snapshot().Node("n").Entries[:2]...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlugin(t, refuse)
				p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("held", 8), "16-23")))
				a, b := cpus("a", 16), cpus("b", 4) // if b came first, a would be refused
				csA, csB := reserve(t, p, a, "n"), reserve(t, p, b, "n")
				done := make(chan *fwk.Status, 1)
				go func() { done <- p.PreBind(t.Context(), csB, b, "n") }()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("pod b does not wait")
				}
				end(p, csA, a)
				fits(t, <-done)
			})
		})
	}
}

// The clock of this test is synctest's: it advances when all goroutines wait.
func TestATurnThatTimesOutIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t, "turnTimeoutSeconds: 7")
		held := holding(cpus("held", 8), "16-23")
		p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, held))
		reserve(t, p, cpus("a", 16), "n")
		b := cpus("b", 4) // if b came first, a would be refused
		cs := reserve(t, p, b, "n")
		says(t, p.PreBind(t.Context(), cs, b, "n"), fwk.Error,
			"no turn on node n after 7s: a pod before it was not reported as admitted")
		const timedOut = "node has not reported pods that it must admit before this one"
		p.Unreserve(t.Context(), cs, b, "n")
		says(t, filter(t, p, cycle(t, p, b), "n"), fwk.Unschedulable, timedOut)
		fits(t, filter(t, p, cycle(t, p, cpus("c", 4)), "n"))
		reserve(t, p, cpus("d", 4), "n") // which is no news of a
		says(t, filter(t, p, cycle(t, p, b), "n"), fwk.Unschedulable, timedOut)
		p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, held))
		cs = reserve(t, p, b, "n")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("scheduler ends"))
		says(t, p.PreBind(ctx, cs, b, "n"), fwk.Error, "scheduler ends")
	})
}

func TestAPodThatNoLongerFitsAtItsTurnIsScheduledAnew(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 1))
	a := cpus("a", 10)
	cs := reserve(t, p, a, "n")
	p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 2, holding(cpus("static", 8), "0-7")))
	says(t, p.PreBind(t.Context(), cs, a, "n"), fwk.Error,
		`node n no longer fits: cannot align container "c" (wants 10 cpu; node has 8 free)`)
	if s := p.PreBind(t.Context(), cs, a, "n"); s.Code() != fwk.Error {
		t.Errorf("a pod without a booking: %s %q", s.Code(), s.Message())
	}
	if s := p.preFlight(cs, a, "n"); s.Code() != fwk.Skip {
		t.Errorf("PreBindPreFlight of a pod without a booking: %s", s.Code())
	}
}

// The pod's own demand is checked again at its turn: the node may have changed for the worse.
func TestTheDemandIsHeldAtTheTurn(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.BestEffort, 1))
	a := noted(cpus("a", 10), "tenon.sh/numa-policy", "single-numa-node")
	cs := reserve(t, p, a, "n")
	p.Feed.Layout(layout(t, "n", two, place.BestEffort, 2, holding(cpus("x", 8), "0-7"), holding(cpus("y", 8), "16-23")))
	says(
		t,
		p.PreBind(t.Context(), cs, a, "n"),
		fwk.Error,
		`node n no longer fits: cannot align container "c" (demands one NUMA node; node would use NUMA nodes 0-1 for cpu, 0-1 for memory)`,
	)
	if p.Book.Booked("n", string(a.UID)) {
		t.Error("the pod keeps its booking")
	}
}

// A pod that another scheduler bound may be admitted before this one or after it. The demand must hold in both states,
// whichever is likelier: if the other is first, both containers get NUMA node 1; if not, one gets its place.
func TestTheDemandIsHeldInEveryStateAtTheTurn(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.BestEffort, 1, holding(cpus("x", 8), "0-7"), holding(cpus("y", 8), "8-15")))
	a := noted(cpus("a", 8), "tenon.sh/numa-policy", "single-numa-node")
	a.Annotations["tenon.sh/numa-scope"] = "pod"
	second := *a.Spec.Containers[0].DeepCopy()
	second.Name = "d"
	a.Spec.Containers = append(a.Spec.Containers, second)
	cs := reserve(t, p, a, "n")
	p.Feed.Layout(layout(t, "n", two, place.BestEffort, 2, holding(cpus("x", 8), "0-7")))
	p.Feed.Pod(bind(cpus("z", 8), "n"))
	says(
		t,
		p.PreBind(t.Context(), cs, a, "n"),
		fwk.Error,
		`node n no longer fits: cannot align pod (demands one NUMA node; node would use NUMA nodes 0-1 for cpu, 0-1 for memory)`,
	)
	if p.Book.Booked("n", string(a.UID)) {
		t.Error("the pod keeps its booking")
	}
}

// inMemory returns informers with a node and some pods.
func inMemory(t *testing.T, n *v1.Node, pods ...*v1.Pod) *follow.Amounts {
	t.Helper()
	client := fake.NewClientset()
	f := informers.NewSharedInformerFactory(client, 0)
	a, err := follow.NewAmounts(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		err = errors.Join(err, f.Core().V1().Pods().Informer().GetIndexer().Add(p))
	}
	if err = errors.Join(err, f.Core().V1().Nodes().Informer().GetIndexer().Add(n)); err != nil {
		t.Fatal(err)
	}
	return a
}
