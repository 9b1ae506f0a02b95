package estimate

import (
	"maps"
	"slices"
)

// This file says which pods the amounts of a report contain: because the node says so, because the change of the
// amounts can only be explained by them, or because time has passed. An exporter reads its node again after every
// report, so what was known to be admitted before the last report is in this one. An exporter that finds nothing new
// writes the same object, and the API server makes no event of that: for this the caller says what was admitted long
// ago (Amounts.Seen).

// reading is one report while it is taken.
type reading struct {
	*Node
	bound []Pod
	now   int
	held  quantities
	old   []Entry // the pods whose part of the amounts was known at the last report
	// pods and gone are the pods that have come and those that have ended. The amounts may contain any of them.
	pods, gone []candidate
	// in is the answer: the UIDs of the pods that the amounts contain. open are those for which the change of the amounts
	// does not decide it.
	in, open map[string]bool
}

// candidate is a pod that the amounts may contain.
type candidate struct {
	uid   string
	shape string // of a pod that has not ended; pods of one shape take the same
	takes quantities
	// admitted: it is known to be admitted. sure: the exporter has read the node since. unknown: it is not known what the
	// pod holds.
	admitted, sure, unknown bool
	// moved: it ended, and its part of the amounts was not known.
	moved bool
}

// count computes x.in.
func (x *reading) count() {
	x.pods, x.gone = x.candidates()
	x.in, x.open = map[string]bool{}, map[string]bool{}
	now := &explained{held: x.held, at: x.now}
	switch m := &x.amounts; {
	case m.Counts != nil:
		maps.Copy(x.in, m.Counts)
		x.choose()
		now.from = x.held
	case x.last == nil:
		if x.first() {
			now.from = x.held
		}
	case m.Again && x.last.from == nil:
		for _, c := range x.pods {
			x.in[c.uid], x.open[c.uid] = c.sure, true
		}
		for _, c := range x.gone {
			x.in[c.uid] = !c.moved
		}
	default:
		before := x.last.held
		if m.Again {
			before = x.last.from
		}
		now.from, x.open = explain(x.held, before, slices.Concat(x.pods, x.lateCandidates()), x.gone, x.in)
	}
	for _, c := range x.moved {
		if x.forgotten(c) {
			x.in[c.id.UID] = false
		}
	}
	if x.amounts.Counts == nil && x.last != nil && x.enter() {
		now.from = nil
		for _, c := range x.gone {
			x.in[c.uid] = false // whatever they held, what is held now is held
			if x.withheld == nil {
				x.withheld = map[string]quantities{}
			}
			x.withheld[c.uid] = c.takes
		}
	}
	x.doubled = x.amounts.Counts == nil && x.mayCountTwice()
	if x.amounts.Again && x.last != nil {
		now.at = x.last.at
	}
	x.last = now
}

// candidates returns the bound pods, and the pods that ended.
func (x *reading) candidates() (pods, gone []candidate) {
	for i := range x.bound {
		p := &x.bound[i]
		pods = append(pods, candidate{uid: p.ID.UID, shape: p.Shape, takes: x.needs(p), admitted: p.Admitted != 0,
			sure: p.Admitted != 0 && x.readSince(p), unknown: p.Unknown})
	}
	for _, e := range x.old {
		if x.Node.ended[e.Pod.UID] {
			gone = append(gone, candidate{uid: e.Pod.UID, takes: quantitiesOf(x.shown(e.Holdings))})
		}
	}
	for _, c := range x.moved {
		if hs, ok := x.takes(c.spec); ok && !x.forgotten(c) {
			gone = append(gone, candidate{uid: c.id.UID, takes: quantitiesOf(x.shown(hs)), moved: true})
		}
	}
	return pods, gone
}

// maxLate bounds the pods that ended early and that a late report may contain.
const maxLate = 6

// lateCandidates returns the last of those pods. Each counts by itself, whatever its shape: a pod that runs may have
// come instead, and that makes a difference.
func (x *reading) lateCandidates() (out []candidate) {
	for i := max(0, len(x.early)-maxLate); i < len(x.early); i++ {
		p := &x.early[i]
		if !x.amounts.Past[p.ID.UID] {
			out = append(out, candidate{uid: p.ID.UID, shape: "ended " + p.ID.UID, takes: x.needs(p)})
		}
	}
	return out
}

// late takes the pods from n.early that the amounts contain: the report was on its way when they ended. What they held
// is free already.
func (x *reading) late() (out []Pod) {
	x.early = slices.DeleteFunc(slices.Clone(x.early), func(p Pod) bool {
		if !x.in[p.ID.UID] {
			return false
		}
		out, x.ended[p.ID.UID] = append(out, p), true
		return true
	})
	return out
}

// readSince reports whether the exporter has read the node since a pod was admitted: a report came between that and
// this one, or there was time enough. An exporter that has not reported since the pod was bound may have stopped.
func (x *reading) readSince(p *Pod) bool {
	m := &x.amounts
	if m.Again {
		return m.Seen[p.ID.UID] && x.last != nil && p.Bound < x.last.at
	}
	return m.Seen[p.ID.UID] || x.last != nil && p.Admitted < x.last.at
}

// forgotten reports whether an ended pod does not count any more: it ended so long ago that the last report is without
// it.
func (x *reading) forgotten(c counted) bool {
	return x.amounts.Again && x.amounts.Past[c.id.UID]
}

// needs returns what a report shows of a pod.
func (n *Node) needs(p *Pod) quantities {
	hs := p.first()
	if len(hs) == 0 {
		hs, _ = n.takes(p.Spec)
	}
	return quantitiesOf(n.shown(hs))
}

// first reads the first report of a node: it contains all pods that are there, if their amounts are what is held, and
// otherwise those that are known to be admitted. It reports whether they explain what is held.
func (x *reading) first() (explains bool) {
	all := quantities{}
	for _, c := range x.pods {
		all.add(c.takes, 1)
	}
	explains = maps.Equal(all, x.held)
	for _, c := range x.pods {
		x.in[c.uid] = explains || c.admitted
	}
	return explains
}

// enter counts pods that the change of the amounts does not explain, but that the exporter must have seen, as long as
// the amounts have room for them beside all pods that are known to be there. Where they have not, the exporter does
// not count such a pod, or its report was made before the pod was admitted. A pod of which it is not known what it
// holds is counted all the same, since no prediction could stand for it. It reports whether there are any.
func (x *reading) enter() (any bool) {
	unexplained := func(c candidate) bool { return c.sure && (x.open[c.uid] || !x.in[c.uid]) }
	if !slices.ContainsFunc(x.pods, unexplained) {
		return false
	}
	total := x.total(x.old, x.pods, unexplained)
	for _, c := range x.pods {
		if !unexplained(c) {
			continue
		}
		with := total.plus(c.takes, 1)
		if x.in[c.uid] = c.unknown || with.within(x.held); x.in[c.uid] {
			total, any = with, true
		}
	}
	return any
}

// mayCountTwice reports whether the amounts may contain a pod that is charged beside them, or a pod that ended and is
// not given back: they have room for it beside all pods that are known to be in them.
func (x *reading) mayCountTwice() bool {
	total := x.total(x.old, x.pods, func(candidate) bool { return false })
	may := func(takes quantities) bool { return len(takes) > 0 && total.plus(takes, 1).within(x.held) }
	past := x.amounts.Past
	maps.DeleteFunc(x.withheld, func(uid string, takes quantities) bool { return past[uid] || !may(takes) })
	return len(x.withheld) > 0 ||
		slices.ContainsFunc(x.pods, func(c candidate) bool { return !x.in[c.uid] && may(c.takes) }) ||
		slices.ContainsFunc(x.early, func(p Pod) bool { return !past[p.ID.UID] && may(x.needs(&p)) })
}

// total returns the amounts of all pods that are counted and have not ended. Pods for which but returns true are left
// out.
func (x *reading) total(entries []Entry, pods []candidate, but func(candidate) bool) quantities {
	total, seen := quantities{}, map[string]bool{}
	for _, c := range pods {
		if seen[c.uid] = true; x.in[c.uid] && !but(c) {
			total.add(c.takes, 1)
		}
	}
	takes := x.takesOf(entries)
	charge := func(uid string) {
		if !seen[uid] && !x.ended[uid] {
			seen[uid] = true
			of, _ := takes(uid)
			total.add(of, 1)
		}
	}
	for _, e := range entries {
		charge(e.Pod.UID)
	}
	for uid := range x.counted {
		charge(uid)
	}
	return total
}

// takesOf returns a function that says what a report shows of a pod. Of a pod that is not known it shows nothing: its
// node gives it nothing. ok is false for a pod of which it is not known what it asked for.
func (x *reading) takesOf(entries []Entry, more ...candidate) func(uid string) (takes quantities, ok bool) {
	known := map[string]quantities{}
	for _, e := range entries {
		known[e.Pod.UID] = quantitiesOf(x.shown(e.Holdings))
	}
	for i := range x.early {
		known[x.early[i].ID.UID] = x.needs(&x.early[i])
	}
	for _, c := range more {
		known[c.uid] = c.takes
	}
	return func(uid string) (quantities, bool) {
		if takes, ok := known[uid]; ok {
			return takes, true
		}
		c, counts := x.counted[uid]
		if !counts {
			return nil, true
		}
		hs, ok := x.takes(c.spec)
		return quantitiesOf(x.shown(hs)), ok
	}
}
