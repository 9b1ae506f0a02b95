package kube

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func requests(name, cpu string, more ...v1.ResourceName) *v1.Pod {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	for _, m := range more {
		list[m] = resource.MustParse("1")
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list}}}}}
}

// resizing returns a pod on a node whose kubelet has allocated other CPUs than its spec requests.
func resizing(spec, allocated, actual, reason string) *v1.Pod {
	p := requests("resized", spec)
	p.Spec.NodeName = "n"
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c",
		AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse(allocated)},
		Resources: &v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(actual)}}}}
	if reason != "" {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: reason}}
	}
	return p
}

// A pod that is resized takes what kube-scheduler counts for it: not the spec alone.
func TestResizedPodsAreCountedByTheirStatus(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("38"), v1.ResourcePods: resource.MustParse("10")}}}
	for name, c := range map[string]struct {
		beside *v1.Pod
		cpu    string
		lacks  bool
	}{
		"infeasible":                     {resizing("34", "8", "8", v1.PodReasonInfeasible), "30", false},
		"infeasible, and full":           {resizing("34", "8", "8", v1.PodReasonInfeasible), "31", true},
		"deferred":                       {resizing("34", "8", "8", v1.PodReasonDeferred), "7", true},
		"shrunk in the spec":             {resizing("2", "8", "8", ""), "31", true},
		"shrunk, and still in its group": {resizing("2", "2", "8", ""), "31", true},
		"shrunk":                         {resizing("2", "2", "2", ""), "36", false},
		"an amount beyond any machine":   {resizing("2", "1e999", "2", ""), "1", true},
	} {
		if got := Lacks(requests("new", c.cpu), n, []*v1.Pod{c.beside}); len(got) > 0 != c.lacks {
			t.Errorf("%s: a pod of %s CPUs lacks %v", name, c.cpu, got)
		}
	}
}

// A node that has none of an extended resource does not count it, as in the kubelet; other names count.
func TestExtendedResourcesThatANodeDoesNotHaveAreNotCounted(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("8"), v1.ResourcePods: resource.MustParse("10"),
		"example.com/gpu": resource.MustParse("1")}}}
	for _, name := range []v1.ResourceName{"example.com/served", v1.ResourceName(ClassPrefix + "served"),
		"example.com/gpu"} {
		if got := Lacks(requests("new", "1", name), n, nil); len(got) > 0 {
			t.Errorf("%s: lacks %v", name, got)
		}
	}
	for _, name := range []v1.ResourceName{"example.com/gpu", "hugepages-2Mi"} {
		if got := Lacks(requests("new", "1", name), n, []*v1.Pod{requests("a", "1", "example.com/gpu")}); len(got) != 1 {
			t.Errorf("%s: lacks %v, want one", name, got)
		}
	}
}
