package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file decides which pods may have their turn before pods that were reserved earlier and wait for theirs.

// maxPasses is how many pods may pass a pod that asks for its turn, so that it does not wait for ever. A pod that does
// not ask is held by another plugin, as a member of a gang is until the others are reserved. maxPassing bounds the
// placements that are tried to decide whether a pod may pass, counted in containers.
const (
	maxPasses  = 4
	maxPassing = 512
)

// mayPass reports whether a pod may have its turn before pods that were reserved earlier and wait for theirs. It may
// if no other pod loses by that. mayPass compares two cases: the pod is admitted among the pods that had their turn,
// or later, in its own place among the waiting pods. In every order in which the node may admit the pods that had
// their turn, each other pod must get as much in both cases, or be refused in both.
func (a *account) mayPass(me *assumedPod) bool {
	waiting := a.assumed[a.turnedCount():]
	decided := func(f *assumedPod) bool { return f.decision != nil }
	passedEnough := func(f *assumedPod) bool { return f.asked && f.passes >= maxPasses }
	if a.estimated() || slices.ContainsFunc(waiting, decided) || slices.ContainsFunc(a.ahead(me), passedEnough) {
		return false
	}
	return a.asIfTurned(me, func() bool {
		p := passing{search: a.newSearch(), me: me, waiting: waiting, machine: a.base.Machine, budget: maxPassing,
			reached: map[juncture]bool{}}
		p.memo = newMemo()
		starts, known := a.starts()
		if !known || slices.ContainsFunc(p.assumed, func(f *assumedPod) bool { return f.uncertain }) {
			return false
		}
		for _, w := range starts {
			u := p.memo.same(w.usage)
			if !p.compare(u, u, len(p.assumed)) {
				return false
			}
		}
		return p.compared
	})
}

// asIfTurned calls do as if the pod had its turn now, and returns its result. Afterwards the pod has no turn.
func (a *account) asIfTurned(me *assumedPod, do func() bool) bool {
	before := a.assumed
	me.turned = a.now + 1
	a.sort()
	defer func() { me.turned, a.assumed = 0, before }()
	return do()
}

// passing follows every order of admission in two cases: with the pod me among the pods that had their turn, and
// without it.
type passing struct {
	search
	me       *assumedPod
	waiting  []*assumedPod // in the order of their reservations; me is one of them
	machine  *topo.Machine
	budget   int  // the cost of the placements that may still be tried
	compared bool // at least one order was compared
	// reached has the junctures from which all orders were compared.
	reached map[juncture]bool
}

// juncture is where several orders come together: the admitted pods, see marks, and the usages in both cases.
type juncture struct {
	done          string
	with, without *place.Usage
}

// place returns the placement of a pod. ok is false if too many were tried.
func (p *passing) place(f *assumedPod, u *place.Usage) (out *tried, ok bool) {
	out = p.memo.place(f, u)
	if !out.counted {
		out.counted = true
		p.budget -= f.cost
	}
	return out, p.budget >= 0
}

// compare admits the remaining pods in every possible order, and then the waiting ones in the order of their
// reservations. It returns false if a pod gets less in one of the two cases than in the other, or if it costs too
// much to find out. The arguments with and without are the node's usage in the two cases.
func (p *passing) compare(with, without *place.Usage, remaining int) bool {
	at := juncture{marks(p.done), with, without}
	if p.reached[at] {
		return true
	}
	p.reached[at] = true // if an order from here is no good, the search ends
	if remaining == 0 {
		p.compared = true
		return p.compareWaiting(with, without)
	}
	lo := slices.Index(p.done, false)
	for i := lo; i < len(p.assumed); i++ {
		f := p.assumed[i]
		if p.done[i] || !p.mayBeNext(i, lo) {
			continue
		}
		if f != p.me && f.acked != 0 && !p.memo.place(f, without).verdict.Fits() {
			continue // the pod was admitted, so this order did not happen
		}
		nextWith, nextWithout, ok := p.admit(f, with, without)
		if !ok {
			return false
		}
		p.done[i] = true
		ok = p.compare(nextWith, nextWithout, remaining-1)
		p.done[i] = false
		if !ok {
			return false
		}
	}
	return true
}

// compareWaiting admits the waiting pods in the order of their reservations. It returns false as compare does.
func (p *passing) compareWaiting(with, without *place.Usage) bool {
	var ok bool
	for _, f := range p.waiting {
		if f == p.me {
			x, ok := p.place(f, without)
			if !ok {
				return false
			}
			without = x.after
			continue
		}
		if with, without, ok = p.admit(f, with, without); !ok {
			return false
		}
	}
	return true
}

// admit lets the node admit a pod in both cases, and returns the usages after that. The pod me is admitted only in
// the case with it. ok is false if the pod gets less in one case, if me is not where it has to be, if the node may
// choose among devices with different NUMA nodes, or if too many placements were tried.
func (p *passing) admit(f *assumedPod, with, without *place.Usage) (_, _ *place.Usage, ok bool) {
	x, ok := p.place(f, with)
	if !ok {
		return nil, nil, false
	}
	if f == p.me {
		return x.after, without, x.verdict.Fits() && !unsureDevices(x.verdict.Holdings) &&
			f.keeps(p.machine, x.verdict.Holdings)
	}
	y, ok := p.place(f, without)
	switch {
	case !ok, x.verdict.Fits() != y.verdict.Fits():
		return nil, nil, false
	case !x.verdict.Fits():
		return with, without, true
	}
	return x.after, y.after, p.alike(f, x.verdict.Holdings, y.verdict.Holdings)
}

// alike reports whether each container of a pod gets as much in two cases: as many NUMA nodes, as near to each other.
// A pod with a demand of its own, or with devices from claims, has to get the same. The answer is false if the pod's
// devices are uncertain.
func (p *passing) alike(f *assumedPod, x, y []place.Holding) bool {
	if unsureDevices(x) || unsureDevices(y) {
		return false
	}
	if f.demand != (place.Demand{}) || f.kept != 0 {
		return equalHoldings(x, y)
	}
	return slices.EqualFunc(x, y, func(g, h place.Holding) bool {
		e, o := place.ExtentOf(p.machine, g), place.ExtentOf(p.machine, h)
		return e.NUMAs.Len() == o.NUMAs.Len() && e.Distance == o.Distance
	})
}
