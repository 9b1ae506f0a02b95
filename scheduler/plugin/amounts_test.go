package plugin

import (
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// counting is a profile that has NodeResourcesFit, and no other filter than that.
const counting = `
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: %s}, {name: DefaultBinder}]
  pluginConfig:
  - {name: NodeResourcesFit, args: {ignoredResources: [example.com/paper], ignoredResourceGroups: [example.org]}}
`

// counts returns kube-scheduler's framework of a profile with a filter plugin.
func counts(t *testing.T, plugin string) framework.Framework {
	t.Helper()
	metrics.Register()
	client := fake.NewClientset()
	f, err := frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(),
		&profilesOf(t, fmt.Sprintf(counting, plugin))[0],
		frameworkOptions(client, informers.NewSharedInformerFactory(client, 0), internalcache.NewEmptySnapshot(), nil)...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// behind is pod b behind pod a on node n, beside another pod that another scheduler has bound meanwhile. Pod a has its
// turn, and if b came first, a would be refused.
type behind struct {
	*Plugin
	a, b *v1.Pod
	done chan *fwk.Status
}

func waits(t *testing.T, f framework.Framework, allocatable string, b, foreign *v1.Pod) behind {
	t.Helper()
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, other()))
	a := cpus("a", 16)
	p.amounts = inMemory(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Allocatable: podOf("", allocatable).Spec.Containers[0].Resources.Requests}}, a, b, foreign)
	csA, csB := reserve(t, p, a, "n"), reserve(t, p, b, "n")
	if _, status, _ := f.RunPreFilterPlugins(t.Context(), csB, b); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	p.handle = f
	out := behind{p, a, b, make(chan *fwk.Status, 1)}
	go func() { out.done <- p.PreBind(t.Context(), csB, b, "n") }()
	fits(t, p.PreBind(t.Context(), csA, a, "n"))
	synctest.Wait()
	if len(out.done) > 0 {
		t.Fatal("pod b does not wait")
	}
	return out
}

func other() state.Entry { return holding(cpus("held", 12), "16-27") }

// kube-scheduler counted CPUs when it chose the node. If another scheduler binds a pod while this one waits, the
// kubelet would refuse it (OutOfcpu), although its managers have enough free on the NUMA nodes.
func TestPlainAmountsAreCountedAtTheTurnOfAPodThatWaited(t *testing.T) {
	f := counts(t, amountsName)
	for name, ends := range map[string]func(behind){
		"the pod before is admitted": func(w behind) { w.Feed.Pod(admitted(w.a, "n")) },
		// As after a restart of the API server: the pod is no longer assumed, and the informer does not have its node
		// yet.
		"a layout that has it comes before its binding": func(w behind) {
			w.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, other(), holding(w.a, "0-15")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := waits(t, f, "cpu=26 memory=64Gi pods=10", cpus("b", 4), bind(podOf("f", "cpu=8 memory=1Gi"), "n"))
				ends(w)
				says(t, <-w.done, fwk.Error, "node n no longer fits: Insufficient cpu")
				if w.Book.Booked("n", string(w.b.UID)) {
					t.Error("the pod keeps its booking")
				}
			})
		})
	}
}

// resized returns a pod whose container requests some CPUs, while its kubelet has allocated others. The reason is that
// of its pending resize, if that is pending.
func resized(name string, wants, has int64, reason string) *v1.Pod {
	p := bind(podOf(name, fmt.Sprintf("cpu=%d memory=1Gi", wants)), "n")
	amount := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(has, resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Gi")}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: p.Spec.Containers[0].Name, AllocatedResources: amount,
		Resources: &v1.ResourceRequirements{Requests: amount}}}
	if reason != "" {
		p.Status.Conditions = append(p.Status.Conditions,
			v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason})
	}
	return p
}

// with returns a pod that requests an extended resource, too.
func with(p *v1.Pod, name v1.ResourceName) *v1.Pod {
	r := &p.Spec.Containers[0].Resources
	r.Requests[name], r.Limits[name] = resource.MustParse("1"), resource.MustParse("1")
	return p
}

// What kube-scheduler's plugin does not count when it chooses a node does not count when the pod's turn comes.
func TestWhatTheProfileDoesNotCountDeclinesNoPod(t *testing.T) {
	const fit = amountsName
	for name, c := range map[string]struct {
		plugin     string
		b, foreign *v1.Pod
		declined   string
	}{
		"an ignored resource":            {fit, with(cpus("b", 4), "example.com/paper"), resized("f", 2, 2, ""), ""},
		"a resource of an ignored group": {fit, with(cpus("b", 4), "example.org/any"), resized("f", 2, 2, ""), ""},
		"a resource that counts": {fit, with(cpus("b", 4), "example.com/ink"), resized("f", 2, 2, ""),
			"node n no longer fits: Insufficient example.com/ink"},
		"a resize that is infeasible": {fit, cpus("b", 4), resized("f", 34, 2, v1.PodReasonInfeasible), ""},
		"a resize that is deferred": {fit, cpus("b", 4), resized("f", 34, 2, v1.PodReasonDeferred),
			"node n no longer fits: Insufficient cpu"},
		"a shrink that is not yet done": {fit, cpus("b", 4), resized("f", 2, 8, ""),
			"node n no longer fits: Insufficient cpu"},
		"a profile that does not count": {"NodeName", cpus("b", 4), resized("f", 34, 34, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := counts(t, c.plugin)
			synctest.Test(t, func(t *testing.T) {
				w := waits(t, f, "cpu=26 memory=64Gi pods=10", c.b, c.foreign)
				w.Feed.Pod(admitted(w.a, "n"))
				if status := <-w.done; status.Message() != c.declined {
					t.Errorf("%s: %q, want %q", status.Code(), status.Message(), c.declined)
				}
			})
		})
	}
}
