package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// This file is for nodes on which the agent is the arbiter (place.ByAgent). What Reserve answers is a decision there:
// it reaches the agent with the binding, and the pod gets it in whatever order pods arrive. So such pods do not wait
// for their turn, and nothing that is released beside them makes uncertain what they hold.
//
// Two kinds of pods get no decision, and the agent places them when they arrive: those of other schedulers, and those
// with devices, which the kubelet's device manager draws.

// decisionOf returns the holdings of a verdict as a decision, or nil where the pod gets devices.
func decisionOf(hs []place.Holding) []place.Holding {
	if slices.ContainsFunc(hs, func(h place.Holding) bool { return len(h.Devices) > 0 }) {
		return nil
	}
	return hs
}

// Decision returns what was decided for an assumed pod; nil: nothing was.
func (b *Book) Decision(uid string) []place.Holding {
	a := b.carrier(uid)
	defer b.close(a)
	if a == nil {
		return nil
	}
	if f := a.find(uid); f != nil {
		return f.decision
	}
	return nil
}

// drawsAlone reports whether what the pod gets depends on devices that the kubelet draws without regard to NUMA nodes,
// since its managers are off: nobody can predict which.
func (a *account) drawsAlone(f *assumedPod) bool {
	return a.layout != nil && a.layout.Rules.Arbiter == place.ByAgent && f.decision == nil &&
		slices.ContainsFunc(f.pod.Containers, func(c place.Container) bool { return len(c.Devices) > 0 })
}

// Decided notes what was decided for a pod that is bound to a node, as its binding says: after a restart, the book has
// only that. It changes nothing where the book has made the decision, and where the node has reported the pod.
func (b *Book) Decided(uid string, decision []place.Holding) {
	a := b.carrier(uid)
	defer b.close(a)
	if a == nil {
		return
	}
	if f := a.find(uid); f != nil && f.decision == nil {
		f.decision, f.uncertain = decision, false
		b.renew(a)
	}
}

// place returns what the pod gets of a usage.
func (f *assumedPod) place(u *place.Usage) place.Verdict {
	if f.decision == nil {
		return place.Place(u, f.pod)
	}
	v, _ := place.Decided(u, f.pod, f.decision)
	return v
}

// placeDecided returns the pod's decision where all of it is free in every state of the node, and otherwise a refusal.
func (n *Node) placeDecided(f *assumedPod) place.Verdict {
	for _, state := range append([]*Node{n}, n.Others...) {
		if _, kept := place.Decided(state.Usage, f.pod, f.decision); !kept {
			return place.Verdict{Refusal: place.TopologyAffinityError, Reasons: []place.Reason{{Code: place.Unsettled}}}
		}
	}
	return place.Verdict{Holdings: f.decision}
}
