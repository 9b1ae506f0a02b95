package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads coarse nodes: their reports say how much of each numa is held, and not by whom.
//
// A pod on its way is charged to the numas that were predicted for it, beside what is reported, until a
// report accounts for it: because the report says so (a fingerprint of its pods), or because the amounts
// can only be explained by it, or because the pod was known to be admitted before the report before this
// one, since who reports looks again after every report. What nobody explains is held by nobody in
// particular.
//
// An exporter that repeats itself makes no event, because the API server drops writes that change nothing. So
// the caller says which pods were admitted so long ago that the exporter has looked since ([Amounts].Seen).

// coarseState is what is inferred of a node that reports amounts only. It is empty for other nodes.
type coarseState struct {
	// counted are the pods that the amounts account for, by UID.
	counted map[string]resident
	// strays are counted pods without an entry of their own that ended since the last report, or that this report
	// accounts for all the same.
	strays []resident
	// begun has the UIDs of pods whose init containers are over.
	begun map[string]bool
	// totals are the amounts of the last report that was understood.
	totals *totals
	// dead are pods that ended before a report accounted for them. One that comes late may.
	dead []*assumedPod
	// hazy: what pods keep of their init containers is in more places than are followed.
	hazy bool
	// blurred: more may be free than is counted.
	blurred bool
	// ghosts are the amounts of pods that ended and are not given back, because the reported amounts may still have them.
	ghosts map[string]map[string]int64
}

// totals are amounts of the whole node by resource; "cpu" counts CPUs.
type totals struct {
	held map[string]int64
	at   int // the moment of the report
	// from has the amounts of the pods that the report certainly accounts for. Together with some of the pods that
	// it may account for they make held; from is nil where no choice of pods does.
	from map[string]int64
}

// believed returns the pods that are in the amounts with holdings of their own.
func (a *account) believed(before *Layout) (out []Entry) {
	if before == nil || before.Amounts == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(before.Entries), func(e Entry) bool { return e.Pod.UID == "" })
}

// count takes the amounts of a coarse node: it ends the assumed pods that they account for, and makes entries
// of what is known of them.
func (b *Book) count(a *account, before *Layout) (out []Outcome) {
	if before != nil && before.Amounts == nil {
		// The node was exact: what it reported is in these amounts, and nobody knows where.
		a.coarse.counted = map[string]resident{}
		for _, e := range before.Entries {
			a.coarse.counted[e.Pod.UID] = resident{id: e.Pod}
		}
	}
	if a.coarse.counted == nil {
		a.coarse.counted = map[string]resident{}
	}
	old := a.believed(before)
	in := a.accounted(old)
	a.coarse.strays = slices.DeleteFunc(slices.Clone(a.coarse.strays), func(r resident) bool { return !in[r.id.UID] })
	old = slices.DeleteFunc(old, func(e Entry) bool {
		_, left := a.gone[e.Pod.UID]
		return left && !in[e.Pod.UID]
	})
	landed := a.ends(in)
	fresh := old
	last := b.snap.Load().Node(a.name)
	foreseen := !a.coarse.hazy && (last == nil || !last.Unsettled) // what was predicted is all that may have come
	u := place.NewUsage(a.layout.Machine, a.layout.Rules).Hold(holdings(old)...)
	raised := a.raised(in)
	for _, f := range slices.Concat(landed, raised) {
		if foreseen && f.certain(a.layout.Machine) {
			hs := a.lasting(f.id.UID, f.apart(u))
			u = u.Hold(hs...)
			fresh = append(fresh[:len(fresh):len(fresh)], Entry{Pod: f.id, Source: Counted, Holdings: hs})
		}
	}
	entries, agrees := a.entries(old, fresh, in)
	a.layout.Entries = entries
	for _, f := range raised {
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Pod.UID == f.id.UID }) {
			a.coarse.strays = append(a.coarse.strays[:len(a.coarse.strays):len(a.coarse.strays)], resident{id: f.id, pod: f.pod})
		}
	}
	for _, f := range landed {
		a.coarse.counted[f.id.UID] = resident{id: f.id, pod: f.pod}
		if foreseen && f.certain(a.layout.Machine) {
			o := Outcome{Node: a.name, Pod: f.id, Result: Wrong, Predicted: f.holdings(), Foreign: f.foreign}
			if agrees {
				o.Result, o.Seen = Confirmed, f.holdings()
			}
			out = append(out, o)
		}
	}
	a.tidy()
	return out
}

// ends removes the pods that the amounts account for from the assumed ones, and returns them.
func (a *account) ends(in map[string]bool) (out []*assumedPod) {
	rest := a.assumed[:0:0]
	for _, f := range a.assumed {
		if f.turned != 0 && in[f.id.UID] {
			out = append(out, f)
			a.landed = append(a.landed, f.id.UID)
		} else {
			rest = append(rest, f)
		}
	}
	a.assumed = rest
	return out
}

// raised returns the pods that ended before this report, which accounts for them all the same: it was
// on its way. What they held is free already.
func (a *account) raised(in map[string]bool) (out []*assumedPod) {
	a.coarse.dead = slices.DeleteFunc(slices.Clone(a.coarse.dead), func(f *assumedPod) bool {
		if !in[f.id.UID] {
			return false
		}
		out, a.gone[f.id.UID] = append(out, f), true
		return true
	})
	return out
}

// certain reports whether it is known how much of every NUMA node a pod on a coarse node takes: its options
// differ in made-up ids at most.
func (f *assumedPod) certain(m *topo.Machine) bool {
	if f.uncertain || f.options.more || len(f.options.of) == 0 {
		return false
	}
	return !slices.ContainsFunc(f.options.of[1:], func(o []place.Holding) bool { return !level(m, f.options.of[0], o) })
}

// level reports whether two lots of holdings take the same of every numa, container by container.
func level(m *topo.Machine, a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool {
		return slices.EqualFunc(x.Devices, y.Devices, func(d, e place.DeviceBlock) bool {
			return d.Resource == e.Resource && d.NUMAs == e.NUMAs && len(d.IDs) == len(e.IDs) &&
				(d.NUMAs.Len() <= 1 || slices.Equal(d.IDs, e.IDs))
		}) && slices.Equal(x.Memory, y.Memory) && x.CPUs.Len() == y.CPUs.Len() &&
			!slices.ContainsFunc(m.NUMAs(), func(n topo.NUMA) bool { return n.CPUs.AndLen(x.CPUs) != n.CPUs.AndLen(y.CPUs) })
	})
}

// apart returns the first of the options whose made-up ids nobody else has.
func (f *assumedPod) apart(u *place.Usage) []place.Holding {
	for _, o := range f.options.of {
		if o, free := redraw(u, o); free {
			return o
		}
	}
	return f.holdings()
}

// needs returns what a pod takes of the node as a whole, wherever it is; ok is false for a pod that the
// machine cannot hold.
func (a *account) needs(p *place.Pod) (holdings []place.Holding, ok bool) {
	if p == nil {
		return nil, false
	}
	r := a.layout.Rules
	r.Topology = place.TopologyRules{}
	v := place.Place(place.NewUsage(a.layout.Machine, r), p)
	return v.Holdings, v.Fits()
}

// tidy forgets pods that ended and are accounted for no more.
func (a *account) tidy() {
	entry := map[string]bool{}
	for _, e := range a.layout.Entries {
		entry[e.Pod.UID] = true
	}
	stray := func(uid string) bool {
		return slices.ContainsFunc(a.coarse.strays, func(r resident) bool { return r.id.UID == uid })
	}
	for uid := range a.gone {
		delete(a.coarse.counted, uid)
		if !entry[uid] && !stray(uid) {
			delete(a.gone, uid)
		}
	}
}

// accounted says for the pods that the amounts may account for whether they do: pods on their way, and
// pods that ended.
func (a *account) accounted(old []Entry) map[string]bool {
	m := a.layout.Amounts
	air, ended := a.guesses(old)
	t := &totals{held: sum(m.Held)}
	out, open := map[string]bool{}, map[string]bool{}
	switch {
	case m.Counts != nil:
		maps.Copy(out, m.Counts)
		a.choose(t.held, old, air, ended, out)
		t.from = t.held
	case a.coarse.totals == nil:
		if first(t.held, air, out) {
			t.from = t.held
		}
	case m.Again && a.coarse.totals.from == nil:
		for _, g := range air {
			out[g.uid], open[g.uid] = g.sure, true
		}
		for _, g := range ended {
			out[g.uid] = !g.stray
		}
	default:
		before := a.coarse.totals.held
		if m.Again {
			before = a.coarse.totals.from
		}
		t.from, open = explain(t.held, before, slices.Concat(air, a.departed()), ended, out)
	}
	for _, r := range a.coarse.strays {
		if a.forgets(r) {
			out[r.id.UID] = false
		}
	}
	if m.Counts == nil && a.coarse.totals != nil && a.enter(t.held, old, air, open, out) {
		t.from = nil
		for _, g := range ended {
			out[g.uid] = false // whatever they held, what is held now is held
			a.coarse.ghosts[g.uid] = g.amounts
		}
	}
	a.coarse.blurred = m.Counts == nil && a.mayCountTwice(t.held, old, air, out)
	if t.at = a.moment(); m.Again && a.coarse.totals != nil {
		t.at = a.coarse.totals.at
	}
	a.coarse.totals = t
	return out
}

// mayCountTwice reports whether the amounts may account for a pod that is charged beside them, or for one that
// ended and is not given back: they have room for it beside all pods that are known to be in them.
func (a *account) mayCountTwice(now map[string]int64, old []Entry, air []guess, out map[string]bool) bool {
	total := a.known(old, air, out, func(guess) bool { return false })
	may := func(amounts map[string]int64) bool {
		all := maps.Clone(total)
		add(all, amounts, 1)
		return len(amounts) > 0 && within(all, now)
	}
	past := a.layout.Amounts.Past
	maps.DeleteFunc(a.coarse.ghosts, func(uid string, amounts map[string]int64) bool { return past[uid] || !may(amounts) })
	return len(a.coarse.ghosts) > 0 ||
		slices.ContainsFunc(air, func(g guess) bool { return !out[g.uid] && may(g.amounts) }) ||
		slices.ContainsFunc(a.coarse.dead, func(f *assumedPod) bool { return !past[f.id.UID] && may(a.needed(f)) })
}

// guesses returns the assumed pods and the pods that ended. A report may account for any of them.
func (a *account) guesses(old []Entry) (air, ended []guess) {
	for _, f := range a.assumed {
		if f.turned == 0 {
			continue
		}
		air = append(air, guess{uid: f.id.UID, shape: f.shape, amounts: a.needed(f), acked: f.acked != 0,
			sure: f.acked != 0 && a.looked(f), lost: f.uncertain})
	}
	for _, e := range old {
		if _, left := a.gone[e.Pod.UID]; left {
			ended = append(ended, guess{uid: e.Pod.UID, amounts: sum(a.shown(e.Holdings))})
		}
	}
	for _, r := range a.coarse.strays {
		if hs, ok := a.needs(r.pod); ok && !a.forgets(r) {
			ended = append(ended, guess{uid: r.id.UID, amounts: sum(a.shown(hs)), stray: true})
		}
	}
	return air, ended
}

// maxDeparted bounds the pods that ended before any report had them and that a late report may account for.
const maxDeparted = 6

// departed returns those pods, the last ones. Each counts by itself, whatever its shape: one that runs may have come
// instead, and that makes a difference.
func (a *account) departed() (out []guess) {
	for _, f := range a.coarse.dead[max(0, len(a.coarse.dead)-maxDeparted):] {
		if !a.layout.Amounts.Past[f.id.UID] {
			out = append(out, guess{uid: f.id.UID, shape: "ended " + f.id.UID, amounts: a.needed(f)})
		}
	}
	return out
}

// looked reports whether the exporter has looked at the node since a pod was admitted: a report came between that
// and this one, or there was time enough. An exporter that has not reported since the pod was bound may have stopped.
func (a *account) looked(f *assumedPod) bool {
	m := a.layout.Amounts
	if m.Again {
		return m.Seen[f.id.UID] && a.coarse.totals != nil && f.turned < a.coarse.totals.at
	}
	return m.Seen[f.id.UID] || a.coarse.totals != nil && f.acked < a.coarse.totals.at
}

// forgets reports whether a stray does not count any more: it ended so long ago that the last report is without it.
func (a *account) forgets(r resident) bool {
	return a.layout.Amounts.Again && a.layout.Amounts.Past[r.id.UID]
}

// needed returns the amounts that a report shows of an assumed pod.
func (a *account) needed(f *assumedPod) map[string]int64 {
	hs := f.holdings()
	if len(hs) == 0 {
		hs, _ = a.needs(f.pod)
	}
	return sum(a.shown(hs))
}

// guess is a pod that a report may account for or not.
type guess struct {
	uid     string
	shape   string // of a pod on its way
	amounts map[string]int64
	// sure: it was admitted, and the exporter has looked since; acked: it is known to be admitted. lost: it is not
	// known what it holds.
	sure, acked, lost bool
	// stray: it ended, and had no entry of its own.
	stray bool
}

// first reads the first report of a node: all pods that are there, if their amounts are what is held;
// otherwise those that are known to be admitted. It reports whether they explain what is held.
func first(now map[string]int64, air []guess, out map[string]bool) bool {
	all := map[string]int64{}
	for _, g := range air {
		add(all, g.amounts, 1)
	}
	everybody := maps.Equal(all, now)
	for _, g := range air {
		out[g.uid] = everybody || g.acked
	}
	return everybody
}

// add adds n times the amounts; resources of which nothing is left are not there.
func add(to, amounts map[string]int64, n int64) {
	for k, v := range amounts {
		if to[k] += n * v; to[k] == 0 {
			delete(to, k)
		}
	}
}

// sum returns what holdings take of a node as a whole. CPUs and devices that an init container leaves to
// others count once.
func sum(hs []place.Holding) map[string]int64 {
	out := map[string]int64{}
	var cpus idset.Set[idset.CPU]
	devices := map[[2]string]bool{}
	for _, h := range hs {
		cpus = cpus.Union(h.CPUs)
		for _, m := range h.Memory {
			add(out, map[string]int64{m.Kind: m.Bytes}, 1)
		}
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				if key := [2]string{d.Resource, id}; !devices[key] {
					devices[key] = true
					add(out, map[string]int64{d.Resource: 1}, 1)
				}
			}
		}
	}
	add(out, map[string]int64{"cpu": int64(cpus.Len())}, 1)
	return out
}

// attribute returns entries for pods, and one for what is held beyond them, numa by numa. agrees is false
// where the pods would hold more of a numa than is held, or than there is with what they keep besides.
func (a *account) attribute(pods []Entry) (out []Entry, agrees bool) {
	l := a.layout
	empty := place.NewUsage(l.Machine, l.Rules)
	held := empty.Hold(l.Amounts.Held...)
	mine := empty.Hold(a.shown(holdings(pods))...)
	all := empty.Hold(holdings(pods)...)
	rest := place.Holding{}
	var cpus []idset.CPU
	for i, n := range l.Machine.NUMAs() {
		left := n.CPUs.And(all.FreeCPUs())
		more := n.CPUs.AndLen(mine.FreeCPUs()) - n.CPUs.AndLen(held.FreeCPUs())
		if more < 0 || more > left.Len() {
			return nil, false
		}
		cpus = append(cpus, left.List()[:more]...)
		for _, kind := range l.Machine.Kinds() {
			switch more := mine.FreeMemory(i, kind) - held.FreeMemory(i, kind); {
			case more < 0 || more > all.FreeMemory(i, kind):
				return nil, false
			case more > 0:
				rest.Memory = append(rest.Memory, place.Block{Kind: kind, NUMAs: 1 << uint(i), Bytes: more})
			}
		}
	}
	rest.CPUs = idset.Of(cpus...)
	for _, r := range l.Machine.Resources() {
		d, ok := beyond(r.Name, mine, held, all)
		if !ok {
			return nil, false
		}
		if len(d.IDs) > 0 {
			rest.Devices = append(rest.Devices, d)
		}
	}
	out = slices.Clone(pods)
	if !rest.Empty() {
		out = append(out, Entry{Source: Counted, Holdings: []place.Holding{rest}})
	}
	return out, true
}

// beyond returns devices of a resource for what is held beyond that of pods (mine): of those that they
// leave free with what they keep besides (all).
func beyond(resource string, mine, held, all *place.Usage) (out place.DeviceBlock, ok bool) {
	more := map[topo.Mask]int{}
	for _, d := range mine.FreeDevices(resource) {
		more[d.NUMAs]++
	}
	for _, d := range held.FreeDevices(resource) {
		more[d.NUMAs]--
	}
	out.Resource = resource
	for _, d := range all.FreeDevices(resource) {
		if more[d.NUMAs] > 0 {
			more[d.NUMAs]--
			out.IDs = append(out.IDs, d.ID)
			out.NUMAs |= d.NUMAs
		}
	}
	for _, n := range more {
		if n != 0 {
			return out, false
		}
	}
	return out, true
}
