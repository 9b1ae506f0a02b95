package ledger

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file is about pods that got devices from claims (DRA) beside the CPUs and the memory that were predicted for
// them. These devices stay allocated, so the pod has to get its CPUs and memory on the same NUMA nodes in every order
// of admission. An order that moves them is as bad for the pod as one in which its demand is not met.

// Keep requires that a booked pod gets its CPUs and pinned memory on exactly these NUMA nodes. It has to be called
// before the pod's turn. Keep changes nothing if the pod is not booked, or has a decision, which no order changes.
func (b *Book) Keep(uid string, on topo.Mask) {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil {
		return
	}
	if f := a.find(uid); f != nil && f.decision == nil {
		f.kept = on
	}
}

// keeps reports whether the pod's holdings are on the NUMA nodes on which they have to be.
func (f *assumedPod) keeps(m *topo.Machine, hs []place.Holding) bool {
	return f.kept == 0 || place.Exclusive(m, hs) == f.kept
}

// moved is the refusal of a pod that would get its CPUs and memory on other NUMA nodes than it has to.
func moved(m *topo.Machine, f *assumedPod) place.Verdict {
	on := "NUMA node "
	if f.kept.Len() > 1 {
		on = "NUMA nodes "
	}
	text := "its claims got devices beside " + on + idset.Of(m.IDs(f.kept)...).String() +
		", and since other pods came first, its CPUs and memory would be elsewhere"
	return place.Verdict{Refusal: place.TopologyAffinityError,
		Reasons: []place.Reason{{Code: place.FarDevices, Resource: text}}}
}

// judge returns the verdict on holdings of a pod on a node in one state.
func judge(n *state.Node, f *assumedPod, hs []place.Holding) place.Verdict {
	if len(hs) > 0 && !f.keeps(n.Machine, hs) {
		return moved(n.Machine, f)
	}
	return n.Judge(f.id.UID, f.pod, place.Verdict{Holdings: hs}, f.demand)
}

// mayKeepLater reports whether the pod would get its CPUs and memory where it has to in some of the states of a node,
// and elsewhere in others. The node's next report will show which state is real.
func (f *assumedPod) mayKeepLater(n *state.Node) bool {
	if f.kept == 0 {
		return false
	}
	var here, elsewhere bool
	for _, w := range append([]*state.Node{n}, n.Others...) {
		v := place.Place(w.Usage, f.pod)
		keeps := v.Fits() && f.keeps(n.Machine, v.Holdings)
		here, elsewhere = here || keeps, elsewhere || !keeps
	}
	return here && elsewhere
}
