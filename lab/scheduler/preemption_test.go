package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const uneven = `
source made up: a numa of 30 CPUs for pods and one of 10
numa 0 socket 0 cpus 0-31 memory 62Gi
numa 1 socket 1 cpus 32-43 memory 62Gi
distances 10 21
distances 21 10
`

// scene is a node with pods on it, one after the other, and a pod that evicts some of them or none. Pods are admitted
// on the lowest NUMA node where they fit.
type scene struct {
	name, machine string
	pods          []*v1.Pod
	preemptor     *v1.Pod
	goes          []string
	// says is in the reason why the preemptor waits, if no pod is evicted, and otherwise in the event of its failure.
	says string
}

// Of an empty node of the machine "halves", each NUMA node has 30 CPUs.
var scenes = []scene{
	{"helps", "uneven", []*v1.Pod{low(cores("victim", 20)), low(cores("bystander", 4))}, high(cores("urgent", 16)),
		[]string{
			"victim",
		}, "evicts default/victim (20 cpu, 1Gi memory on NUMA node 0) from node helps, to be aligned on NUMA node 0"},
	{"misfit", "uneven", []*v1.Pod{low(cores("full", 20)), low(cores("bystander", 4))}, high(cores("wide", 34)),
		nil, `1 cannot align container "c" (wants 34 cpu on one NUMA node; best NUMA node has 30 free)`},
	// All NUMA nodes have equally much: the decision depends on their pods.
	{"lowest", "halves", []*v1.Pod{low(cores("low", 20)), mid(cores("mid", 20)), low(cores("little", 4))},
		high(cores("urgent", 24)),
		[]string{"low"}, "evicts default/low-lowest"},
	{
		"both",
		"halves",
		[]*v1.Pod{mid(cores("mid", 20)), low(cores("low", 20)), mid(cores("little", 4))},
		high(cores("urgent", 24)),
		[]string{"low"},
		"to be aligned on NUMA node 1",
	},
	// kube-scheduler spares the oldest first, and evicts two for one.
	{
		"fewest",
		"halves",
		[]*v1.Pod{low(cores("large", 24)), low(cores("small", 12)), low(cores("tiny", 12))},
		high(cores("urgent", 28)),
		[]string{"large"},
		"to be aligned on NUMA node 0",
	},
	{
		"held",
		"halves",
		[]*v1.Pod{high(cores("holder", 28)), low(cores("other", 10))},
		mid(cores("urgent", 25)),
		[]string{"other"},
		"NUMA node 1",
	},
	{
		"above",
		"halves",
		[]*v1.Pod{high(cores("holder", 28)), high(cores("other", 10))},
		mid(cores("urgent", 25)),
		nil,
		"preemption: 0/1",
	},
	{
		"equal",
		"halves",
		[]*v1.Pod{mid(cores("one", 28)), mid(cores("two", 28))},
		mid(cores("three", 25)),
		nil,
		"preemption: 0/1",
	},
	{
		"never",
		"halves",
		[]*v1.Pod{low(cores("one", 28)), low(cores("two", 28))},
		calm(cores("urgent", 25)),
		nil,
		"preemptionPolicy=Never",
	},
	{"init", "halves", []*v1.Pod{low(beginning("begins", 24, 2)), mid(cores("other", 24))}, high(cores("urgent", 28)),
		[]string{"begins"}, "evicts default/begins-init (24 cpu"},
	// The node has enough CPUs for all pods; only GPUs are short.
	{
		"gpus",
		"gpu-8",
		[]*v1.Pod{low(gpus("trains", 8, 4)), low(cores("computes", 40)), mid(gpus("infers", 8, 4)), low(cores("more", 40))},
		high(gpus("urgent", 8, 2)),
		[]string{"trains"},
		"4 nvidia.com/gpu on NUMA node 0",
	},
	{"budget", "halves", []*v1.Pod{low(guarded(cores("guarded", 24))), mid(cores("free", 24))}, high(cores("urgent", 28)),
		[]string{"free"}, "evicts default/free-budget"},
}

func low(p *v1.Pod) *v1.Pod  { p.Spec.PriorityClassName = "low"; return p }
func mid(p *v1.Pod) *v1.Pod  { p.Spec.PriorityClassName = "mid"; return p }
func high(p *v1.Pod) *v1.Pod { p.Spec.PriorityClassName = "high"; return p }
func calm(p *v1.Pod) *v1.Pod { p.Spec.PriorityClassName = "calm"; return p }

// lingering returns a pod whose containers run on while it is being deleted, until release is called: its preStop hook
// requests a server that answers only then. A finalizer would keep the object only, and the kubelet would free what the
// pod holds.
func lingering(t *testing.T, p *v1.Pod) (_ *v1.Pod, release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { release(); s.Close() })
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// Longer than the tests of such pods, and less than the minute in which the end of a pod is worth waiting for.
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](50)
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
		HTTPGet: &v1.HTTPGetAction{Host: host, Port: intstr.Parse(port)}}}
	return p, release
}

// guarded is a pod that a disruption budget protects.
func guarded(p *v1.Pod) *v1.Pod { p.Labels = map[string]string{"guarded": "yes"}; return p }

func gpus(name string, cpu, gpu int) *v1.Pod {
	return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(cpu), "memory": "1Gi",
		"nvidia.com/gpu": fmt.Sprint(gpu)}))
}

// beginning is a pod whose init container takes more than its later containers.
func beginning(name string, first, then int) *v1.Pod {
	p := cores(name, then)
	p.Spec.InitContainers = []v1.Container{workload.Guaranteed("init", workload.Amounts{"cpu": fmt.Sprint(first),
		"memory": "1Gi"})}
	return p
}

// on keeps a pod on the node of its scene, and makes its name unique.
func on(node string, p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	if node != "helps" {
		p.Name += "-" + node
	}
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	return p
}

// The plain amounts of the nodes would be enough in most scenes: alignment decides who is evicted.
func TestPreemption(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cfg := lab.Config{Machines: fstest.MapFS{"uneven.txt": {Data: []byte(uneven)},
		"uneven.yaml": {Data: []byte(halvesConfig)},
		"halves.txt":  {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}}}
	for _, s := range scenes {
		cfg.Nodes = append(cfg.Nodes, lab.Node{Name: s.name, Machine: s.machine})
	}
	for _, name := range []string{"promised", "waits", "behind", "later"} {
		cfg.Nodes = append(cfg.Nodes, lab.Node{Name: name, Machine: "halves"})
	}
	w := start(ctx, t, cfg, scheduler.Tenon)
	w.furnish(ctx, t)
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) { w.play(ctx, t, s) })
	}
	t.Run("promised", func(t *testing.T) { w.promised(ctx, t) })
	t.Run("waits", func(t *testing.T) { w.patient(ctx, t) })
	t.Run("behind", func(t *testing.T) { w.behind(ctx, t) })
	t.Run("later", func(t *testing.T) { w.later(ctx, t) })
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.confirmed(ctx, t, 20)
}

// furnish makes the priority classes, and a used up disruption budget: the lab has no controller that counts its pods.
func (w *world) furnish(ctx context.Context, t *testing.T) {
	t.Helper()
	for name, value := range map[string]int32{"low": 10, "mid": 100, "high": 1000, "calm": 1001} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if name == "calm" {
			class.PreemptionPolicy = ptr.To(v1.PreemptNever)
		}
		if _, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// The API server accepts pods of a class once its own informer has it.
		err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
			p := cores("probe", 1)
			p.Spec.PriorityClassName = name
			_, err := w.client.CoreV1().Pods(p.Namespace).Create(ctx, p,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil, nil
		})
		if err != nil {
			t.Fatalf("priority class %s: %v", name, err)
		}
	}
	pdb := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard", Namespace: metav1.NamespaceDefault},
		Spec: policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
			"guarded": "yes"}}}}
	if _, err := w.client.PolicyV1().PodDisruptionBudgets(pdb.Namespace).Create(ctx, pdb,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) play(ctx context.Context, t *testing.T, s scene) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, p := range s.pods {
		w.runs(ctx, t, on(s.name, p))
	}
	p := on(s.name, s.preemptor)
	w.create(ctx, t, p)
	if len(s.goes) == 0 {
		_, why := w.await(ctx, t, p.Name, workload.Pending)
		contains(t, p.Name, why, s.says)
	} else {
		w.await(ctx, t, p.Name, workload.Running)
		w.hasEvent(ctx, t, p.Name, "FailedScheduling", s.says)
	}
	now, _ := w.pods.Pods()
	for _, x := range s.pods {
		x = on(s.name, x)
		i := slices.IndexFunc(now, func(p *v1.Pod) bool { return p.Name == x.Name })
		goes := slices.ContainsFunc(s.goes, func(name string) bool { return on(s.name, cores(name, 1)).Name == x.Name })
		if stays := i >= 0 && now[i].DeletionTimestamp == nil; stays == goes {
			t.Errorf("pod %s stays: %v; the preemptor has the events %q", x.Name, stays,
				w.notes(ctx, t, p.Name, "FailedScheduling"))
		}
		if goes {
			w.hasEvent(ctx, t, x.Name, "PreemptedForAlignment", "for pod default/"+p.Name)
		}
	}
}

// hasEvent waits for an event of a pod with a text.
func (w *world) hasEvent(ctx context.Context, t *testing.T, pod, reason, what string) {
	t.Helper()
	var said []string
	err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		said = w.notes(ctx, t, pod, reason)
		return strings.Contains(strings.Join(said, "\n"), what), nil
	})
	if err != nil {
		t.Errorf("no event %s of pod %s says %q: %v, %q", reason, pod, what, err, said)
	}
}

// notes returns the messages of a pod's events.
func (w *world) notes(ctx context.Context, t *testing.T, pod, reason string) (said []string) {
	t.Helper()
	list, err := w.client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Errorf("list events: %v", err)
		return nil
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Name == pod && e.Reason == reason {
			said = append(said, e.Note)
		}
	}
	return said
}

// gone waits until a pod is gone.
func (w *world) gone(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Name == name })
	})
	if err != nil {
		t.Fatalf("pod %s is still there: %v", name, err)
	}
}

// A preemptor with two victims stays nominated when only the first victim has gone. A pod of lower priority would fit
// on the other NUMA node, but its kubelet would put it on the preemptor's, so it waits.
func (w *world) promised(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	const node = "promised"
	w.runs(ctx, t, on(node, low(cores("first", 14))))
	second, release := lingering(t, low(cores("second", 14)))
	w.runs(ctx, t, on(node, second))
	w.runs(ctx, t, on(node, high(cores("other", 4))))
	w.create(ctx, t, on(node, high(cores("urgent", 28))))
	w.gone(ctx, t, "first-promised")
	w.create(ctx, t, on(node, mid(cores("thief", 14))))
	// Until the node reports the end of the first, it accepts no pod for that reason.
	w.says(ctx, t, "thief-promised", "1 pods that are nominated to the node would lose their place")
	if f, _ := workload.FateOf(w.pod(t, "urgent-promised")); f == workload.Running {
		t.Error("the preemptor runs where its second victim still is")
	}
	release()
	w.await(ctx, t, "urgent-promised", workload.Running)
	w.await(ctx, t, "thief-promised", workload.Running)
}

// No pod is evicted where another one is leaving anyway.
func (w *world) patient(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	const node = "waits"
	leaving, release := lingering(t, mid(cores("leaving", 28)))
	w.runs(ctx, t, on(node, leaving))
	w.runs(ctx, t, on(node, low(cores("cheap", 28))))
	if err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, "leaving-waits",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.pods.Until(ctx, func([]*v1.Pod) bool { return w.pod(t, "leaving-waits").DeletionTimestamp != nil })
	if err != nil {
		t.Fatal(err)
	}
	w.create(ctx, t, on(node, high(cores("urgent", 28))))
	_, why := w.await(ctx, t, "urgent-waits", workload.Pending)
	contains(t, "urgent", why, "evicts no pod: fits on node waits once pods that are being deleted there have gone")
	release()
	w.await(ctx, t, "urgent-waits", workload.Running)
	if p := w.pod(t, "cheap-waits"); p.DeletionTimestamp != nil {
		t.Error("a pod is evicted though waiting was enough")
	}
}

// A pod that would take the place of a nominated pod evicts its own victim once that pod is there.
func (w *world) behind(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	const node = "behind"
	w.runs(ctx, t, on(node, low(cores("first", 14))))
	second, release := lingering(t, low(cores("second", 14)))
	w.runs(ctx, t, on(node, second))
	w.runs(ctx, t, on(node, high(cores("other", 4))))
	w.runs(ctx, t, on(node, low(cores("cheap", 24))))
	w.create(ctx, t, on(node, high(cores("urgent", 28))))
	w.gone(ctx, t, "first-behind")
	w.create(ctx, t, on(node, high(cores("next", 16))))
	w.await(ctx, t, "next-behind", workload.Pending)
	release()
	w.await(ctx, t, "urgent-behind", workload.Running)
	w.await(ctx, t, "next-behind", workload.Running)
	w.gone(ctx, t, "cheap-behind")
}

// A pod for which all pods of lower priority are not enough evicts them once another pod has gone as well.
func (w *world) later(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	const node = "later"
	w.runs(ctx, t, on(node, high(cores("ends", 8))))
	w.runs(ctx, t, on(node, low(cores("cheap", 8))))
	w.runs(ctx, t, on(node, high(cores("stays", 18))))
	w.create(ctx, t, on(node, mid(cores("urgent", 24))))
	_, why := w.await(ctx, t, "urgent-later", workload.Pending)
	contains(t, "urgent", why, "best NUMA node has 22 free")
	if err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, "ends-later",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, "urgent-later", workload.Running)
	w.gone(ctx, t, "cheap-later")
}

// Pods of three priorities, at once and on full nodes: no kubelet refuses one, and in the end no waiting pod would fit
// anywhere even without all pods of lower priority.
func TestStormOfPriorities(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{Nodes: []lab.Node{{Name: "a", Machine: "halves"}, {Name: "b", Machine: "halves"},
		{Name: "c", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}}},
		scheduler.Tenon)
	w.furnish(ctx, t)
	const seed, rounds, size = 7, 4, 25
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		var pods []*v1.Pod
		for i := range size {
			p := cores(fmt.Sprintf("r%d-%d", round, i), 1+r.IntN(24))
			p.Spec.PriorityClassName = []string{"low", "mid", "high"}[min(2, r.IntN(3+round))]
			pods = append(pods, p)
		}
		w.create(ctx, t, pods...)
		var left string
		err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
			left = w.unsettled()
			return left == "", nil
		})
		now, _ := w.pods.Pods()
		noRefusal(t, now)
		if err != nil {
			t.Fatalf("seed %d, round %d: %s", seed, round, left)
		}
		t.Logf("round %d: %s", round, workload.Count(now))
	}
	w.seen.check(t)
}

// unsettled returns why a pod should not stay in its state, or "".
func (w *world) unsettled() string {
	pods, _ := w.pods.Pods()
	snap := w.sched.Shared.Book.Snapshot()
	for _, p := range pods {
		f, why := workload.FateOf(p)
		switch {
		case p.DeletionTimestamp != nil || f == workload.Waiting:
			return "pod " + p.Name + " is on its way"
		case f != workload.Pending:
			continue
		}
		spec, err := pod.ToPlace(p)
		if err != nil {
			return err.Error()
		}
		for _, name := range snap.Names() {
			var lower []string
			for _, x := range pods {
				if *x.Spec.Priority < *p.Spec.Priority {
					lower = append(lower, string(x.UID))
				}
			}
			if snap.Node(name).Without(lower...).Fits(spec) {
				return fmt.Sprintf("pod %s waits, and without those of lower priority it would fit on node %s (it says %q)",
					p.Name, name, why)
			}
		}
	}
	return ""
}

// pod returns a pod in its present state; a missing one fails the test.
func (w *world) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	pods, _ := w.pods.Pods()
	for _, p := range pods {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("pod %s is not there", name)
	return nil
}
