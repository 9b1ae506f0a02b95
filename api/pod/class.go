package pod

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
)

// class returns a pod's quality of service class. The API server sets it in the status when it creates the pod, and the
// kubelet reads it there.
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
// https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/. If the pod has resources of its own, those of its
// containers do not count. A test in package cluster/kube compares it with Kubernetes' own function.
func computeClass(p *v1.Pod) place.QoS {
	var cpu, memory account
	all := true // every container limits both
	count := func(r *v1.ResourceRequirements) {
		cpus, bytes := cpu.add(v1.ResourceCPU, r), memory.add(v1.ResourceMemory, r)
		all = all && cpus && bytes
	}
	if p.Spec.Resources != nil {
		count(p.Spec.Resources)
	} else {
		for i := range p.Spec.InitContainers {
			count(&p.Spec.InitContainers[i].Resources)
		}
		for i := range p.Spec.Containers {
			count(&p.Spec.Containers[i].Resources)
		}
	}
	switch {
	case cpu.empty() && memory.empty():
		return place.BestEffortQoS
	case all && cpu.requests.Cmp(cpu.limits) == 0 && memory.requests.Cmp(memory.limits) == 0:
		return place.Guaranteed
	}
	return place.Burstable
}

// account sums one resource over containers.
type account struct{ requests, limits resource.Quantity }

// add adds a container's amounts, if they are positive, and reports whether it has a limit.
func (a *account) add(name v1.ResourceName, r *v1.ResourceRequirements) (limited bool) {
	if q := r.Requests[name]; q.Sign() > 0 {
		a.requests.Add(quantity.Clamp(q))
	}
	q := r.Limits[name]
	if q.Sign() <= 0 {
		return false
	}
	a.limits.Add(quantity.Clamp(q))
	return true
}

func (a *account) empty() bool { return a.requests.IsZero() && a.limits.IsZero() }

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
