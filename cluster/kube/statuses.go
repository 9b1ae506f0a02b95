package kube

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads the statuses of bound pods: what they mean for a restart of the kubelet.

// statusesOf returns what the statuses of a pod say about its containers, and the CPUs that are allocated to those that
// have others than when the pod was bound, in thousandths. Ordinary init containers do not count. A container counts as
// running unless its status says that it waits or has ended. It has the CPUs of its spec unless its status says others.
func statusesOf(pod *v1.Pod, bound *place.Pod) (out place.Statuses, sizes map[string]int64) {
	for i := range bound.Containers {
		c := &bound.Containers[i]
		statuses, specs := pod.Status.ContainerStatuses, pod.Spec.Containers
		switch c.Kind {
		case place.Init:
			continue
		case place.Sidecar:
			statuses, specs = pod.Status.InitContainerStatuses, pod.Spec.InitContainers
		}
		// A kubelet writes one status for each container; a node may write any number.
		statuses = statuses[:min(len(statuses), len(bound.Containers)+1)]
		var requests v1.ResourceList
		if at := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == c.Name }); at >= 0 {
			s := &statuses[at]
			if requests = s.AllocatedResources; stopped(s) {
				out.Stopped = append(out.Stopped, c.Name)
				if requests == nil {
					out.Unsized = append(out.Unsized, c.Name)
				}
			}
		}
		if at := slices.IndexFunc(specs, func(s v1.Container) bool { return s.Name == c.Name }); at >= 0 && requests == nil {
			requests = specs[at].Resources.Requests
		}
		if q := requests[v1.ResourceCPU]; quantity.Within(q, topo.MaxBytes) && q.MilliValue() != c.MilliCPU {
			if sizes == nil {
				sizes = map[string]int64{}
			}
			sizes[c.Name] = q.MilliValue()
		}
	}
	return out, sizes
}

func stopped(s *v1.ContainerStatus) bool {
	return s.State.Running == nil && (s.State.Waiting != nil || s.State.Terminated != nil)
}

// cpusOf returns the CPUs that a container requested when its pod was bound, in thousandths.
func cpusOf(p *place.Pod, container string) int64 {
	for i := range p.Containers {
		if p.Containers[i].Name == container {
			return p.Containers[i].MilliCPU
		}
	}
	return 0
}

// resized returns the containers that hold another number of CPUs than are allocated to them, in the order of the
// holdings. What ordinary init containers hold may have passed to others.
func (b *boundPod) resized(hs []place.Holding) (out []string) {
	for i := range hs {
		h := &hs[i]
		if h.Kind == place.Init || h.Container == "" || h.CPUs.Empty() {
			continue
		}
		n, ok := b.sizes[h.Container]
		if !ok {
			n = cpusOf(b.spec, h.Container)
		}
		if n != int64(h.CPUs.Len())*1000 {
			out = append(out, h.Container)
		}
	}
	return out
}

// status records what the statuses of a bound pod say, and whether its holdings agree with them.
func (f *Feed) status(p *boundPod) {
	if p.spec == nil {
		return
	}
	s := p.statuses
	if n := f.book.Snapshot().Node(p.node); n != nil && n.Quality == ledger.Exact {
		if e, ok := n.Entry(p.id.UID); ok && e.Source == ledger.Observed {
			s.Resized = p.resized(e.Holdings)
		}
	}
	f.book.Status(p.node, p.id.UID, s)
}

// statuses is status for the pods of a new report.
func (f *Feed) statuses(node string, entries []ledger.Entry) {
	for i := range entries {
		e := &entries[i]
		p := f.bound.pods[e.Pod.UID]
		if p == nil || p.node != node || p.spec == nil {
			continue
		}
		s := p.statuses
		s.Resized = p.resized(e.Holdings)
		f.book.Status(node, e.Pod.UID, s)
	}
}
