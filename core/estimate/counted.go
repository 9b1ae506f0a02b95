package estimate

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/state"
)

// This file decides which pods the amounts of a report contain. A pod is contained if the node reports that it is, if
// the change of the amounts has no other explanation, or if enough time has passed. An exporter reads its node again
// after every report, so pods that were known to be admitted before the previous report are in this one. An exporter
// that finds nothing new writes the same object, and the API server sends no event for that. For this case the caller
// supplies the pods that were admitted long ago (Amounts.Seen).

// reading is the state of processing one report.
type reading struct {
	*Node
	bound []Pod
	now   int
	held  quantities
	old   []state.Entry // the pods whose part of the amounts was known at the last report
	// pods are the bound pods, and gone are pods that have ended. The amounts may contain any of them.
	pods, gone []candidate
	// in is the result: the UIDs of the pods that the amounts contain. open has the UIDs of pods that the change of
	// the amounts does not decide.
	in, open map[string]bool
}

// candidate is a pod that the amounts may contain.
type candidate struct {
	uid   string
	shape string // of a pod that has not ended; pods of one shape take equal amounts
	takes quantities
	// admitted: the pod is known to be admitted. sure: the exporter has read the node since the admission. unknown:
	// the pod's holdings are unknown.
	admitted, sure, unknown bool
	// moved: the pod ended, and its part of the amounts was not known.
	moved bool
}

// count computes x.in. If the node reports which pods it counts, count uses that, and decides only between pods with
// equal names (choose). It compares a first report with all pods that exist (firstReport). For any other report it
// looks for the pods that explain the change since the last one (explain), and then counts undecided pods that the
// exporter must have seen (countSeen). It also replaces x.last by the new amounts.
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
		if x.firstReport() {
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
	if x.amounts.Again && x.amounts.Counts == nil && x.last != nil {
		now.unreplaced = x.replace()
	}
	for _, c := range x.moved {
		if x.forgotten(c) {
			x.in[c.id.UID] = false
		}
	}
	if x.amounts.Counts == nil && x.last != nil && x.countSeen() {
		now.from = nil
		for _, c := range x.gone {
			x.in[c.uid] = false // their holdings no longer matter, since held has the real amounts
			if x.withheld == nil {
				x.withheld = map[string]quantities{}
			}
			x.withheld[c.uid] = c.takes
		}
	}
	x.doubled = x.amounts.Counts == nil && x.mayCountTwice()
	if x.amounts.Again && x.last != nil {
		now.at = x.last.at
	} else {
		x.lost = nil
	}
	x.last = now
}

// replace counts pods that took the place of pods that ended since the last report. The exporter has read the node
// again and reports the same amounts, so the new pods take as much as the ended ones. replace returns the amounts of
// the ended pods that no known pod has replaced. If the amounts contain unknown pods, nothing else shows a new pod
// before the amounts change.
func (x *reading) replace() quantities {
	unreplaced := x.last.unreplaced.plus(nil, 1)
	for _, c := range slices.Concat(x.moved, x.lost) {
		if hs, ok := x.takes(c.spec); ok && x.forgotten(c) {
			unreplaced.add(quantitiesOf(x.shown(hs)), 1)
		}
	}
	x.lost = slices.DeleteFunc(slices.Clone(x.lost), x.forgotten)
	var came []candidate
	for _, c := range x.pods {
		if !x.in[c.uid] && !c.unknown && x.amounts.Seen[c.uid] {
			came = append(came, c)
		}
	}
	if len(unreplaced) == 0 || len(came) == 0 {
		return unreplaced
	}
	in := map[string]bool{}
	explain(unreplaced, quantities{}, came, nil, in)
	for _, c := range came {
		if in[c.uid] {
			x.in[c.uid], x.open[c.uid] = true, false
			unreplaced.add(c.takes, -1)
		}
	}
	return unreplaced
}

// candidates returns the bound pods, and the ended pods that the last amounts contained.
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

// maxLate bounds the pods that ended early and may be in a late report.
const maxLate = 6

// lateCandidates returns the last maxLate pods that ended early, except for pods that ended too long ago to be in the
// report. Each has a shape of its own: a running pod may have come instead, and the two are not interchangeable.
func (x *reading) lateCandidates() (out []candidate) {
	for i := max(0, len(x.early)-maxLate); i < len(x.early); i++ {
		p := &x.early[i]
		if !x.amounts.Past[p.ID.UID] {
			out = append(out, candidate{uid: p.ID.UID, shape: "ended " + p.ID.UID, takes: x.needs(p)})
		}
	}
	return out
}

// takeLate removes from x.early, and returns, the pods that the amounts contain: the report was made before they
// ended. Each is recorded as ended, so that what it held counts as free.
func (x *reading) takeLate() (out []Pod) {
	x.early = slices.DeleteFunc(slices.Clone(x.early), func(p Pod) bool {
		if !x.in[p.ID.UID] {
			return false
		}
		out, x.ended[p.ID.UID] = append(out, p), true
		return true
	})
	return out
}

// readSince reports whether the exporter has read the node since a pod was admitted: a report came between the
// admission and this report, or enough time has passed. If this report is not new (Amounts.Again), the pod must also
// have been bound before the last new report, because an exporter that has not reported since may have stopped.
func (x *reading) readSince(p *Pod) bool {
	m := &x.amounts
	if m.Again {
		return m.Seen[p.ID.UID] && x.last != nil && p.Bound < x.last.at
	}
	return m.Seen[p.ID.UID] || x.last != nil && p.Admitted < x.last.at
}

// forgotten reports whether an ended pod no longer counts: the amounts are unchanged, and the pod ended so long ago
// that they do not contain it.
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

// firstReport decides which pods the first report of a node contains. If the amounts of all existing pods add up to
// what is held, it contains them all, and explains is true. Otherwise it contains those that are known to be
// admitted, as far as the amounts have room for them one after the other: an exporter may have made its report before
// they were admitted.
func (x *reading) firstReport() (explains bool) {
	all, total := quantities{}, quantities{}
	for _, c := range x.pods {
		all.add(c.takes, 1)
	}
	explains = maps.Equal(all, x.held)
	for _, c := range x.pods {
		with := total.plus(c.takes, 1)
		x.in[c.uid] = explains || c.admitted && with.within(x.held)
		if x.in[c.uid] {
			total = with
		}
	}
	return explains
}

// countSeen counts pods that the change of the amounts does not explain, but that the exporter must have seen. It
// counts such a pod only if the amounts have room for it beside all counted pods. Otherwise the exporter does not
// count the pod, or made its report before the pod was admitted. A pod with unknown holdings is counted in any case,
// since there is no prediction to use instead. counted is true if there is at least one such pod.
func (x *reading) countSeen() (counted bool) {
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
			total, counted = with, true
		}
	}
	return counted
}

// mayCountTwice reports whether the amounts may contain a pod that is also counted separately, or an ended pod whose
// holdings were not given back. They may if they have room for it beside all pods that they certainly contain. It
// drops from withheld the ended pods that the amounts cannot contain any more.
func (x *reading) mayCountTwice() bool {
	total := x.total(x.old, x.pods, func(candidate) bool { return false })
	may := func(takes quantities) bool { return len(takes) > 0 && total.plus(takes, 1).within(x.held) }
	past := x.amounts.Past
	maps.DeleteFunc(x.withheld, func(uid string, takes quantities) bool { return past[uid] || !may(takes) })
	return len(x.withheld) > 0 ||
		slices.ContainsFunc(x.pods, func(c candidate) bool { return !x.in[c.uid] && may(c.takes) }) ||
		slices.ContainsFunc(x.early, func(p Pod) bool { return !past[p.ID.UID] && may(x.needs(&p)) })
}

// total returns the amounts of all pods that are counted and have not ended. It leaves out the candidates for which
// except returns true.
func (x *reading) total(entries []state.Entry, pods []candidate, except func(candidate) bool) quantities {
	total, seen := quantities{}, map[string]bool{}
	for _, c := range pods {
		if seen[c.uid] = true; x.in[c.uid] && !except(c) {
			total.add(c.takes, 1)
		}
	}
	takes := x.takesOf(entries)
	charge := func(uid string) {
		if !seen[uid] && !x.ended[uid] {
			seen[uid] = true
			amounts, _ := takes(uid)
			total.add(amounts, 1)
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

// takesOf returns a function that returns what a report shows of a pod, or nothing for a pod without any record. ok
// is false if the pod's requests are unknown.
func (x *reading) takesOf(entries []state.Entry, more ...candidate) func(uid string) (takes quantities, ok bool) {
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
