package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file serves nodes whose arbiter is the agent (place.ByAgent). There the answer of Reserve is a decision: the
// agent receives it with the binding, and the pod gets it, in any order of arrival. So such pods do not wait for
// their turn, and a release beside them does not make their holdings uncertain.
//
// Two kinds of pods get no decision, and the agent places them when they arrive: pods of other schedulers, and pods
// with devices, which the kubelet's device manager chooses.

// decisionOf returns the holdings of a verdict as a decision, or nil if the pod gets devices.
func decisionOf(hs []place.Holding) []place.Holding {
	if slices.ContainsFunc(hs, func(h place.Holding) bool { return len(h.Devices) > 0 }) {
		return nil
	}
	return hs
}

// Decision returns the decision for an assumed pod. It is nil if the pod has none, or is not assumed.
func (b *Book) Decision(uid string) []place.Holding {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil {
		return nil
	}
	if f := a.find(uid); f != nil {
		return f.decision
	}
	return nil
}

// drawsAlone reports whether the pod gets devices that cannot be predicted: the agent is the arbiter, the pod has no
// decision, and one of its containers requests devices. The kubelet's managers are then off, and the kubelet chooses
// devices without regard to NUMA nodes.
func (a *account) drawsAlone(f *assumedPod) bool {
	return a.layout != nil && a.layout.Rules.Arbiter == place.ByAgent && f.decision == nil &&
		slices.ContainsFunc(f.pod.Containers, func(c place.Container) bool { return len(c.Devices) > 0 })
}

// Decided records the decision for a bound pod, which the caller has read from the pod's binding: after a restart,
// the binding is the only source. What the pod gets is then no longer uncertain. Decided changes nothing if the book
// made the decision itself, or if the pod is not assumed, for example because its node has reported it.
func (b *Book) Decided(uid string, decision []place.Holding) {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil {
		return
	}
	if f := a.find(uid); f != nil && f.decision == nil {
		f.decision, f.uncertain = decision, false
		b.renew(a)
	}
}

// place returns the verdict for the pod on a usage. If the pod has a decision that can be kept on this usage, the
// verdict is that decision (place.Decided).
func (f *assumedPod) place(u *place.Usage) place.Verdict {
	if f.decision == nil {
		return place.Place(u, f.pod)
	}
	v, _ := place.Decided(u, f.pod, f.decision)
	return v
}

// placeDecided returns the pod's decision if all of it is free in every state of the node, and otherwise a refusal.
func (f *assumedPod) placeDecided(n *state.Node) place.Verdict {
	for _, one := range append([]*state.Node{n}, n.Others...) {
		if _, kept := place.Decided(one.Usage, f.pod, f.decision); !kept {
			return place.Verdict{Refusal: place.TopologyAffinityError, Reasons: []place.Reason{{Code: place.Unsettled}}}
		}
	}
	return place.Verdict{Holdings: f.decision}
}
