package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads from the statuses of bound pods what a restart of the kubelet would find: which containers do not
// run, and how many CPUs the kubelet has allocated to each after a resize in place.

// readStatuses returns the statuses of a pod's containers. sizes has the allocated CPUs, in thousandths, of the
// containers for which these differ from the CPUs at binding. Ordinary init containers do not count. A container
// counts as running unless its status is waiting or terminated. It has the CPUs of its spec unless its status has
// others.
func readStatuses(pod *v1.Pod, bound *place.Pod) (out place.Statuses, sizes map[string]int64) {
	statuses, specs := statusByContainer(pod, len(bound.Containers)), requestsByContainer(pod)
	for i := range bound.Containers {
		c := &bound.Containers[i]
		if c.Kind == place.Init {
			continue
		}
		var requests v1.ResourceList
		if s := statuses[c.Name]; s != nil {
			if requests = s.AllocatedResources; Stopped(s) {
				out.Stopped = append(out.Stopped, c.Name)
				if requests == nil {
					out.Unsized = append(out.Unsized, c.Name)
				}
			}
		}
		if requests == nil {
			requests = specs[c.Name]
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

// statusByContainer returns the statuses of a pod's containers, the first of each name. A kubelet writes one status
// for each container; a node may write any number, and the function reads at most count+1 of each list.
func statusByContainer(pod *v1.Pod, count int) map[string]*v1.ContainerStatus {
	out := map[string]*v1.ContainerStatus{}
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list[:min(len(list), count+1)] {
			if s := &list[i]; out[s.Name] == nil {
				out[s.Name] = s
			}
		}
	}
	return out
}

// requestsByContainer returns what the containers of a pod request. No two containers of a pod have the same name.
func requestsByContainer(pod *v1.Pod) map[string]v1.ResourceList {
	out := map[string]v1.ResourceList{}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			out[list[i].Name] = list[i].Resources.Requests
		}
	}
	return out
}

// Stopped reports whether a container does not run: it waits, or has ended.
func Stopped(s *v1.ContainerStatus) bool {
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

// resized returns the containers that hold another number of CPUs than their kubelet has allocated to them, in the
// order of the holdings. It skips ordinary init containers, whose CPUs may have passed to other containers.
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

// withoutResized returns the statuses of the pod's containers, except Resized.
func (b *boundPod) withoutResized() (out place.Statuses) {
	if b.statuses != nil {
		out = *b.statuses
	}
	return out
}

// bookStatus passes the statuses of a bound pod to the ledger, with the containers whose observed holdings disagree
// with them (Resized).
func (f *Feed) bookStatus(p *boundPod) {
	if p.spec == nil {
		return
	}
	s := p.withoutResized()
	if n := f.book.Snapshot().Node(p.node); n != nil && n.Quality == state.Exact {
		if e, ok := n.Entry(p.id.UID); ok && e.Source == state.Observed {
			s.Resized = p.resized(e.Holdings)
		}
	}
	f.book.Status(p.node, p.id.UID, s)
}

// bookStatuses does what bookStatus does, for all pods of a new report.
func (f *Feed) bookStatuses(node string, entries []state.Entry) {
	for i := range entries {
		e := &entries[i]
		p := f.bound.pods[e.Pod.UID]
		if p == nil || p.node != node || p.spec == nil {
			continue
		}
		s := p.withoutResized()
		s.Resized = p.resized(e.Holdings)
		f.book.Status(node, e.Pod.UID, s)
	}
}
