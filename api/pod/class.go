package pod

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
)

// class returns a pod's quality of service class: the one in the status, which the API server sets when it creates
// the pod and which the kubelet reads. If the status has none, class computes it.
func class(p *v1.Pod) place.QoS {
	switch p.Status.QOSClass {
	case "":
		return computeClass(p)
	case v1.PodQOSGuaranteed:
		return place.Guaranteed
	case v1.PodQOSBurstable:
		return place.Burstable
	}
	return place.BestEffortQoS
}

// computeClass computes the class from requests and limits of CPU and memory, by the rules of
// https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/. If the pod has resources of its own, its containers'
// resources do not count. A test in package cluster/kube compares it with Kubernetes' own function.
func computeClass(p *v1.Pod) place.QoS {
	if podLevel(p) {
		return classOf(p.Spec.Resources)
	}
	out, first := place.BestEffortQoS, true
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			class := classOf(&list[i].Resources)
			if !first && class != out {
				return place.Burstable
			}
			out, first = class, false
		}
	}
	return out
}

// classOf returns the class of a pod whose containers all have resources like r.
func classOf(r *v1.ResourceRequirements) place.QoS {
	given, equal := 0, true
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := quantity.Clamp(r.Requests[name]), quantity.Clamp(r.Limits[name])
		equal = equal && request.Cmp(limit) == 0
		if !request.IsZero() || !limit.IsZero() {
			given++
		}
	}
	switch {
	case given == 0:
		return place.BestEffortQoS
	case given == 2 && equal:
		return place.Guaranteed
	}
	return place.Burstable
}

// podLevel reports whether the pod has resources of its own that the kubelet's managers use: CPU, memory or hugepages.
func podLevel(p *v1.Pod) bool {
	if p.Spec.Resources == nil {
		return false
	}
	for _, list := range []v1.ResourceList{p.Spec.Resources.Requests, p.Spec.Resources.Limits} {
		for name := range list {
			switch {
			case name == v1.ResourceCPU, name == v1.ResourceMemory, strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
				return true
			}
		}
	}
	return false
}
