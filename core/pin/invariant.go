package pin

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// violation returns how a placement breaks the invariant, or "". The placement of the pod with this UID turns the
// node n into the node next. The invariant: an exclusive CPU has one owner, is on the machine, and is not reserved,
// and a placement changes no other pod.
func (n *Node) violation(next *Node, uid string) string {
	free := next.Machine().CPUs().Minus(next.Rules().CPU.Reserved)
	var owned idset.Set[idset.CPU]
	for _, p := range next.pods {
		own, why := p.exclusive(free)
		if both := own.And(owned); why == "" && !both.Empty() {
			why = "CPUs " + both.String() + " are exclusive to another pod"
		}
		if why != "" {
			return fmt.Sprintf("pod %s: %s", p.UID, why)
		}
		owned = owned.Union(own)
		if old, ok := n.Pod(p.UID); ok && p.UID != uid && !sameCPUs(old.Holdings, p.Holdings) {
			return fmt.Sprintf("pod %s: its CPUs change, and the decision is about another pod", p.UID)
		}
	}
	return ""
}

// exclusive returns the exclusive CPUs of a pod. If one of them is not in free, or two containers that run together
// have it, why describes that; otherwise why is "". An init container may share CPUs with a container after it, which
// starts later, but not with a sidecar before it, which runs beside it.
func (p Pod) exclusive(free idset.Set[idset.CPU]) (all idset.Set[idset.CPU], why string) {
	var running idset.Set[idset.CPU]
	for _, h := range p.Holdings {
		if bad := h.CPUs.Minus(free); !bad.Empty() {
			return all, "CPUs " + bad.String() + " are reserved, or not on the machine"
		}
		if both := h.CPUs.And(running); !both.Empty() {
			return all, "CPUs " + both.String() + " are exclusive to two of its containers"
		}
		if h.Kind != place.Init {
			running = running.Union(h.CPUs)
		}
		all = all.Union(h.CPUs)
	}
	return all, ""
}

// sameCPUs reports whether a and b give the same containers the same CPUs, and memory on the same NUMA nodes.
func sameCPUs(a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool {
		return x.Container == y.Container && x.CPUs.Equal(y.CPUs) &&
			slices.EqualFunc(x.Memory, y.Memory, func(v, w place.Block) bool {
				return v.Kind == w.Kind && v.NUMAs == w.NUMAs
			})
	})
}

// addChecked returns the node with a placed pod added. If the pod's placement breaks the invariant, the pod shares
// CPUs instead and has the fault Refused.
func (n *Node) addChecked(p Pod) *Node {
	next := n.add(p)
	if why := n.violation(next, p.UID); why != "" {
		p.Holdings, p.Decided, p.Fault = nil, false, &Fault{Code: Refused, Detail: why}
		next = n.add(p)
	}
	return next
}
