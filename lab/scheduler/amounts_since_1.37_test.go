//go:build !upto1.36

package scheduler_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

var (
	amountsSeed  = flag.Uint64("amounts.seed", 1, "seed of pods and nodes whose plain amounts are counted")
	amountsCases = flag.Int("amounts.cases", 20_000, "number of pods and nodes whose plain amounts are counted")
)

// What a node has too little of for a pod is the same as in kube-scheduler's own NodeResourcesFit: for init containers,
// sidecars, overhead, pods with resources as a whole, pods in every state of a resize, and names that DRA serves.
func TestAmountsAgreeWithNodeResourcesFit(t *testing.T) {
	metrics.Register()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "served"},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/served")}}
	fit := nodeResourcesFit(t, class)
	served := map[string]bool{}
	kube.Serve(served, class)
	d := amountsDraw{rand.New(rand.NewPCG(*amountsSeed, 0))}
	t.Logf("seed %d, %d cases", *amountsSeed, *amountsCases)
	refused := 0
	for i := range *amountsCases {
		node := d.node()
		var pods []v1.Pod
		for j := range d.IntN(5) {
			pods = append(pods, *d.bound(fmt.Sprint("p", j), node.Name))
		}
		pod := d.pod("new")
		want := insufficient(t, fit, pod, node, pods)
		if got := lacking(t, pod, node, pods, served); !slices.Equal(got, want) {
			t.Fatalf("seed %d, case %d: kube-scheduler says %q, here it is %q\nnode %+v\npod %+v\npods %+v", *amountsSeed, i,
				want, got, node.Status.Allocatable, pod.Spec, pods)
		}
		if len(want) > 0 {
			refused++
		}
	}
	if t.Logf("%d fit, %d do not", *amountsCases-refused, refused); refused == 0 || refused == *amountsCases {
		t.Error("the cases are all alike")
	}
}

// nodeResourcesFit makes kube-scheduler's plugin, for a cluster with a class of devices.
func nodeResourcesFit(t *testing.T, class *resourcev1.DeviceClass) interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
} {
	t.Helper()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := assumecache.NewAssumeCache(klog.Background(), factory.Resource().V1().ResourceClaims().Informer(),
		"resource claim", "", nil)
	dra := dynamicresources.NewDRAManager(t.Context(), claims, nil, factory)
	dra.DeviceClassResolver().(cache.ResourceEventHandler).OnAdd(class, true)
	f, err := tf.NewFramework(t.Context(), []tf.RegisterPluginFunc{
		tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
	}, "", frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(dra))
	if err != nil {
		t.Fatal(err)
	}
	made, err := plugins.NewInTreeRegistry()[names.NodeResourcesFit](t.Context(), &schedapi.NodeResourcesFitArgs{
		ScoringStrategy: &schedapi.ScoringStrategy{Type: schedapi.LeastAllocated,
			Resources: []schedapi.ResourceSpec{{Name: "cpu", Weight: 1}}}}, f)
	if err != nil {
		t.Fatal(err)
	}
	return made.(interface {
		fwk.PreFilterPlugin
		fwk.FilterPlugin
	})
}

// insufficient returns the reasons of kube-scheduler's plugin against a pod on a node, ascending.
func insufficient(t *testing.T, fit interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}, pod *v1.Pod, node *v1.Node, pods []v1.Pod) []string {
	t.Helper()
	info := framework.NewNodeInfo()
	info.SetNode(node)
	for i := range pods {
		if p := &pods[i]; p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			info.AddPod(p) // kube-scheduler's informer leaves out the others
		}
	}
	cs := framework.NewCycleState()
	if _, status := fit.PreFilter(t.Context(), cs, pod, nil); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	status := fit.Filter(t.Context(), cs, pod, info)
	if status.IsSuccess() {
		return nil
	}
	out := slices.Clone(status.Reasons())
	slices.Sort(out)
	return out
}

// lacking returns the same reasons as insufficient, from package cluster/stage, which check, simulate, explain, top and
// doctor use.
func lacking(t *testing.T, pod *v1.Pod, node *v1.Node, pods []v1.Pod, served map[string]bool) (out []string) {
	t.Helper()
	s, err := stage.Of(&kube.View{Nodes: []v1.Node{*node}, Pods: kube.StoreAll(pods), Served: served})
	if err != nil {
		t.Fatal(err)
	}
	needs, err := kube.Needs(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Nodes()[0].Lacks(needs) {
		if r.Resource == string(v1.ResourcePods) {
			out = append(out, "Too many pods")
		} else {
			out = append(out, "Insufficient "+r.Resource)
		}
	}
	slices.Sort(out)
	return out
}

// amountsDraw draws nodes and pods whose sums are often near each other.
type amountsDraw struct{ *rand.Rand }

// one reports true in one of n cases.
func (d amountsDraw) one(n int) bool { return d.IntN(n) == 0 }

// list draws amounts up to a bound. Amounts beside CPUs and memory are there in one of rare cases.
func (d amountsDraw) list(most, rare int) v1.ResourceList {
	out := v1.ResourceList{}
	put := func(name string, in int, units ...string) {
		if d.one(in) {
			out[v1.ResourceName(name)] = resource.MustParse(fmt.Sprint(d.IntN(most+1)) + units[d.IntN(len(units))])
		}
	}
	put("cpu", 1, "", "", "50m", "00m")
	put("memory", 1, "Gi", "Gi", "Mi", "")
	put("ephemeral-storage", rare, "Gi")
	put("hugepages-2Mi", rare, "Gi")
	for _, name := range []string{"example.com/gpu", "example.com/served", "example.com/none",
		resourcev1.ResourceDeviceClassPrefix + "served", resourcev1.ResourceDeviceClassPrefix + "other"} {
		put(name, rare, "")
	}
	return out
}

func (d amountsDraw) node() *v1.Node {
	out := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: d.list(40, 2)}}
	delete(out.Status.Allocatable, "example.com/none")
	if !d.one(50) {
		out.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(1+d.Int64N(8), resource.DecimalSI)
	}
	return out
}

func (d amountsDraw) pod(name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	add := func(kind string, n int) (out []v1.Container) {
		for i := range n {
			out = append(out, v1.Container{Name: fmt.Sprint(kind, i),
				Resources: v1.ResourceRequirements{Requests: d.list(6, 20)}})
		}
		return out
	}
	p.Spec.Containers = add("c", 1+d.IntN(2))
	p.Spec.InitContainers = add("i", d.IntN(3))
	for i := range p.Spec.InitContainers {
		if d.one(2) {
			p.Spec.InitContainers[i].RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
	}
	if d.one(4) {
		p.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("100Mi")}
	}
	if d.one(4) {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: d.whole()}
	}
	return p
}

// whole draws amounts that a pod may have as a whole.
func (d amountsDraw) whole() v1.ResourceList {
	out := d.list(12, 20)
	for name := range out {
		if kube.Extended(string(name)) || name == v1.ResourceEphemeralStorage {
			delete(out, name)
		}
	}
	return out
}

// bound draws a pod of a node in any state of a resize.
func (d amountsDraw) bound(name, node string) *v1.Pod {
	p := d.pod(name)
	p.Spec.NodeName = node
	p.Status.Phase = []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}[d.IntN(5)]
	if reason := []string{"", "", v1.PodReasonInfeasible, v1.PodReasonDeferred}[d.IntN(4)]; reason != "" {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason}}
	}
	states := func(in []v1.Container) (out []v1.ContainerStatus) {
		for i := range in {
			s := v1.ContainerStatus{Name: in[i].Name}
			if d.one(2) {
				s.AllocatedResources = d.list(6, 20)
			}
			if d.one(2) {
				s.Resources = &v1.ResourceRequirements{Requests: d.list(6, 20)}
			}
			if !d.one(4) {
				out = append(out, s)
			}
		}
		return out
	}
	p.Status.ContainerStatuses, p.Status.InitContainerStatuses = states(p.Spec.Containers), states(p.Spec.InitContainers)
	if p.Spec.Resources != nil && d.one(2) {
		p.Status.AllocatedResources = d.whole()
		if d.one(2) {
			p.Status.Resources = &v1.ResourceRequirements{Requests: d.whole()}
		}
	}
	return p
}
