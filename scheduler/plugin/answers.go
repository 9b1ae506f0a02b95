package plugin

import (
	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// readAnswers sets s.answers to the row of cached answers for pods of this kind. It also sets s.fits to the nodes
// where the pod fits, or leaves it nil where computing the set would take too long.
func (p *Plugin) readAnswers(s *podState) {
	row := func(d place.Demand) (*answers.Row, bool) {
		return p.answers.Row(answers.Kind{Profile: p.profile, Pod: s.key, Demand: d, By: s.strategy.Type}, s.pod,
			s.strategy.Mix, s.snap.Slots())
	}
	var firstOfKind bool
	s.answers, firstOfKind = row(s.demand)
	if s.large() {
		return
	}
	// Evaluating a demand on many nodes takes long and pays off only for later pods of the same kind. The first pod of
	// a kind does not compute it.
	if firstOfKind && s.demand != (place.Demand{}) {
		if undemanding, _ := row(place.Demand{}); 2*undemanding.Fitting(s.snap).Len() > s.snap.Len() {
			return
		}
	}
	s.fits = s.answers.Fitting(s.snap)
}

// answer returns the cost of the pod on the node in a slot, or why the pod does not fit there. It computes only
// answers that are not cached, and caches them.
func (p *Plugin) answer(s *podState, slot int) (cost int64, refusal *answers.Refusal) {
	return s.answers.Answer(s.snap, slot, func(n *state.Node) (int64, *answers.Refusal) {
		if cost, ok := s.outlineCost(n, slot); ok {
			return cost, nil
		}
		return p.compute(s, n)
	})
}

// outlineCost returns the cost of the pod on the node in a slot, if the outline of the verdict is known: its amounts,
// without CPU ids. Computing the cost from these is much cheaper than compute. ok is false if the outline is not
// known, or if the strategy needs more.
func (s *podState) outlineCost(n *state.Node, slot int) (cost int64, ok bool) {
	if s.fits == nil || !s.strategy.Outlines() || !s.fits.In(slot) {
		return 0, false
	}
	o, ok := s.answers.Outline(n)
	if !ok {
		return 0, false
	}
	return s.strategy.CostOf(n.Usage, s.pod, o, n.Quality == state.Estimated) + s.waitCost(n), true
}

// compute computes what answer returns, for a node in any state, also a hypothetical one. It uses no cached answer
// except permanent refusals, which it also stores.
func (p *Plugin) compute(s *podState, n *state.Node) (cost int64, refusal *answers.Refusal) {
	// Most pods that fit nowhere do not even fit on the empty node. So their reasons are computed once for all nodes
	// that have the same machine and rules.
	if never := s.answers.Never(n); never != nil && !n.Fits(s.pod) {
		return 0, never
	}
	v := n.Place(s.pod, s.demand)
	if v.Fits() {
		return s.cost(n, v), nil
	}
	refusal = &answers.Refusal{Reasons: v.Reasons, Permanent: p.permanent(s, n)}
	if refusal.Permanent && p.name != config.Match {
		refusal.Reasons = n.Never(s.pod)
		defer s.answers.KeepNever(n, refusal)
	}
	for _, r := range refusal.Reasons {
		refusal.Texts = append(refusal.Texts, p.text(s.pod, r))
	}
	if len(refusal.Texts) == 0 {
		refusal.Texts = []string{string(v.Refusal)}
	}
	return 0, refusal
}

// refusedStatus returns the status of a refusal. Each call returns a new status, because the framework changes the
// statuses that it receives.
func refusedStatus(r *answers.Refusal) *fwk.Status {
	if r.Permanent {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Texts...)
	}
	return fwk.NewStatus(fwk.Unschedulable, r.Texts...)
}

// cost returns the cost of the pod on a node where it would hold what verdict v has.
func (s *podState) cost(n *state.Node, v place.Verdict) int64 {
	return s.strategy.Cost(n.Usage, s.pod, v, n.Quality == state.Estimated) + s.waitCost(n)
}

// waitCost returns the part of the cost that stands for the pods for which this pod may have to wait.
func (s *podState) waitCost(n *state.Node) int64 { return s.strategy.Wait(n.Waits(s.shape)) }
