package kube

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
)

// Lacks returns the plain amounts that a node has too little of for a pod beside others that are bound to it. It counts
// like kube-scheduler's NodeResourcesFit and the kubelet: the node's allocatable minus the requests of all pods that
// have not ended, and the number of pods. The pod itself may be among the others; it counts once.
func Lacks(pod *v1.Pod, node *v1.Node, others []*v1.Pod) []place.Reason {
	used := v1.ResourceList{}
	count := int64(0)
	for _, p := range others {
		if p.UID != pod.UID && !Ended(p) {
			used = sum(used, Requests(p))
			count++
		}
	}
	out := lacks(Requests(pod), node.Status.Allocatable, used)
	most, limited := node.Status.Allocatable[v1.ResourcePods]
	if most = quantity.Clamp(most); limited && count >= most.Value() {
		out = append(out, place.Reason{Code: place.Lacking, Resource: string(v1.ResourcePods), Want: 1})
	}
	return out
}

// Requests returns the plain amounts that a pod requests, all containers together. An amount beyond any machine counts
// as the largest int64.
func Requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(quantity.ClampPod(pod), resourcehelper.PodResourcesOptions{})
}

func sum(a, b v1.ResourceList) v1.ResourceList {
	if a == nil {
		a = v1.ResourceList{}
	}
	for name, q := range b {
		total := a[name]
		total.Add(q)
		a[name] = total
	}
	return a
}

func lacks(want, allocatable, used v1.ResourceList) (out []place.Reason) {
	allocatable = quantity.ClampList(allocatable)
	for name, q := range want {
		left := allocatable[name].DeepCopy()
		left.Sub(used[name])
		if q.Sign() > 0 && q.Cmp(left) > 0 {
			out = append(out, place.Reason{Code: place.Lacking, Resource: string(name),
				Want: q.Value(), Have: max(0, left.Value())})
		}
	}
	slices.SortFunc(out, func(a, b place.Reason) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}
