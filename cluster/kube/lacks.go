package kube

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Lacks returns the plain amounts that a node has too little left of for a pod. others are the pods that are bound to
// the node. It counts like the kubelet and kube-scheduler's NodeResourcesFit: it subtracts the requests of all pods
// that have not ended from the node's allocatable, and counts the pods. The pod itself may be one of others; it
// counts once.
//
// Extended resources that the node does not have are left out, as in the kubelet (removeMissingExtendedResources in
// pkg/kubelet/lifecycle/predicate.go, 1.37): other components count them, such as DRA or an extender of the
// scheduler.
func Lacks(pod *v1.Pod, node *v1.Node, others []*v1.Pod) []place.Reason {
	n := whatif.Node{Name: node.Name}
	n.Allocatable, _ = Amounts(node.Status.Allocatable) // an amount beyond bounds counts as the bound
	for _, p := range others {
		if p.UID != pod.UID && !Ended(p) {
			needs, _ := Needs(p)
			n.Used = n.Used.Add(needs)
		}
	}
	return lacks(&n, pod)
}

// lacks returns what a node has too little of for a pod. It leaves out extended resources that the node does not
// have.
func lacks(n *whatif.Node, pod *v1.Pod) []place.Reason {
	needs, _ := Needs(pod)
	return slices.DeleteFunc(n.Lacks(needs), func(r place.Reason) bool {
		return Extended(r.Resource) && n.Allocatable[r.Resource] <= 0
	})
}

// Requests returns the plain amounts that a pod requests, all containers together. An amount beyond any machine
// counts as the largest int64.
//
// A pod that is bound to a node takes the highest of what its spec requests, what its kubelet has allocated, and what
// its containers have (InPlacePodVerticalScaling). A resize that the kubelet calls infeasible does not count.
func Requests(pod *v1.Pod) v1.ResourceList {
	o := resourcehelper.PodResourcesOptions{}
	if pod = quantity.ClampPod(pod); pod.Spec.NodeName != "" {
		pod = clampStatus(pod)
		o = boundOptions()
	}
	return resourcehelper.PodRequests(pod, o)
}

// clampStatus returns the pod with every quantity of its status clamped, since a node writes the status. It returns
// the pod itself if its status has no quantity.
func clampStatus(pod *v1.Pod) *v1.Pod {
	if !sized(&pod.Status) {
		return pod
	}
	out := *pod
	clamp := func(in []v1.ContainerStatus) []v1.ContainerStatus {
		in = slices.Clone(in)
		for i := range in {
			in[i].AllocatedResources = quantity.ClampList(in[i].AllocatedResources)
			in[i].Resources = clampRequests(in[i].Resources)
		}
		return in
	}
	out.Status.ContainerStatuses = clamp(pod.Status.ContainerStatuses)
	out.Status.InitContainerStatuses = clamp(pod.Status.InitContainerStatuses)
	clampWhole(&out.Status)
	return &out
}

// sized reports whether a status has quantities.
func sized(s *v1.PodStatus) bool {
	has := func(c v1.ContainerStatus) bool { return c.AllocatedResources != nil || c.Resources != nil }
	return slices.ContainsFunc(s.ContainerStatuses, has) || slices.ContainsFunc(s.InitContainerStatuses, has) ||
		sizedWhole(s)
}

func clampRequests(r *v1.ResourceRequirements) *v1.ResourceRequirements {
	if r == nil {
		return nil
	}
	return &v1.ResourceRequirements{Requests: quantity.ClampList(r.Requests)}
}

// Extended reports whether a resource is an extended one, by the rule of kube-scheduler (IsDRAExtendedResourceName in
// pkg/scheduler/util): a name with a domain that is not Kubernetes' own, or the name of a class of devices.
func Extended(resource string) bool {
	if strings.HasPrefix(resource, ClassPrefix) {
		return true
	}
	return strings.Contains(resource, "/") && !strings.Contains(resource, v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(resource, v1.DefaultResourceRequestsPrefix)
}
