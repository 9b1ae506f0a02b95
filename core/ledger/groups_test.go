package ledger

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Two groups of two or three pods on two nodes, small enough to follow every interleaving of what kube-scheduler's
// group cycle, the nodes, failures of bindings, the deletion of a group, and the death of the leader do.

// groups is one state of the whole system.
type groups struct {
	book    *Book
	empty   state.Layout
	nodes   map[string]*node
	members []memberState
	size    int
	order   []int // of the bound pods that are not admitted
	// harms is how many bindings, leaders and groups may still fail, die or be deleted, all together.
	harms int
	trace *move
}

// memberState is a pod; so many pods after each other as groups.size are a group.
type memberState struct {
	pod      *place.Pod
	demand   place.Demand
	created  int64
	node     string // "" unless it is reserved or bound
	at       step
	granted  bool // Turns gave its group the turn
	seen     bool // the scheduler knows its admission
	reported bool
	deleted  bool // before it was bound
}

func beginGroups(t *testing.T, harms int, pods ...memberState) *groups {
	g := &groups{book: New(), empty: smallLayout(t), nodes: map[string]*node{}, members: pods,
		size: len(pods) / 2, harms: harms}
	for _, name := range []string{"n0", "n1"} {
		g.nodes[name] = &node{usage: place.NewUsage(g.empty.Machine, g.empty.Rules)}
		g.book.Report(name, g.empty)
	}
	return g
}

func (g *groups) clone() *groups {
	out := *g
	out.book, out.members, out.order = g.book.clone(), slices.Clone(g.members), slices.Clone(g.order)
	out.nodes = map[string]*node{}
	for name, n := range g.nodes {
		out.nodes[name] = &node{usage: n.usage, entries: slices.Clone(n.entries)}
	}
	return &out
}

// of returns the members of a group that are at a step.
func (g *groups) of(group int, at step) (out []int) {
	for i := group * g.size; i < (group+1)*g.size; i++ {
		if g.members[i].at == at && !g.members[i].deleted {
			out = append(out, i)
		}
	}
	return out
}

// moves returns the possible next states. Those in harm need not come.
func (g *groups) moves(t *testing.T) (out []*groups, harm []*groups) {
	try := func(what string, which int, to *[]*groups, do func(*groups) bool) {
		n := g.clone()
		n.trace = &move{what, which, g.trace}
		if do(n) {
			*to = append(*to, n)
		}
	}
	for group := range 2 {
		try("reserve group", group, &out, func(n *groups) bool { return n.reserve(t, group) })
		try("turns of group", group, &out, func(n *groups) bool { return n.turns(t, group) })
		if g.harms > 0 {
			try("delete group", group, &harm, func(n *groups) bool { return n.remove(group) })
		}
	}
	for i, p := range g.members {
		switch {
		case p.at == reserved && p.granted:
			try("bind", i, &out, func(n *groups) bool { return n.bind(t, i) })
			if g.harms > 0 {
				try("fail to bind", i, &harm, func(n *groups) bool { n.fail(i); return true })
			}
		case p.at == bound && g.mayAdmit(i):
			try("admit", i, &out, func(n *groups) bool { return n.admit(t, i) })
		case p.at == admitted && !p.seen && !p.reported && *depth >= 2:
			try("see", i, &out, func(n *groups) bool {
				n.members[i].seen = true
				n.book.Admitted(id(i).UID)
				return true
			})
		}
	}
	for _, name := range []string{"n0", "n1"} {
		try("report "+name, -1, &out, func(n *groups) bool { return n.report(t, name) })
	}
	if g.harms > 0 {
		try("leader dies", -1, &harm, func(n *groups) bool { n.die(); return true })
	}
	return out, harm
}

// reserve reserves the members of a group that are not bound, as a group cycle does: all, or none; then it takes
// everything back, and reserves again.
func (g *groups) reserve(t *testing.T, group int) bool {
	todo := g.of(group, fresh)
	if len(todo) == 0 || len(g.of(group, reserved)) > 0 {
		return false
	}
	for round := range 2 {
		for _, i := range todo {
			p := &g.members[i]
			for _, name := range []string{"n0", "n1"} {
				v, ok := g.book.Reserve(name, id(i), p.pod, p.demand)
				if ok && v.Fits() && (round == 0 || p.node == name) {
					p.node = name
					break
				}
				if ok && v.Fits() {
					g.book.Unreserve(id(i).UID)
				}
			}
			if !g.book.Booked(p.node, id(i).UID) {
				if round > 0 {
					t.Fatalf("pod %d does not fit a second time after %v", i, g.trace)
				}
				return false
			}
		}
		for _, i := range slices.Backward(todo) {
			if round == 0 {
				g.book.Unreserve(id(i).UID)
			}
		}
	}
	for _, i := range todo {
		g.members[i].at, g.members[i].granted = reserved, false
	}
	return true
}

// turns asks for the turns of a group. A member that waits for another one on its node asks alone after that. If a
// member no longer fits, the group is scheduled again.
func (g *groups) turns(t *testing.T, group int) (changed bool) {
	var all []Member
	started := false
	todo := g.of(group, reserved)
	for _, i := range todo {
		all = append(all, Member{id(i).UID, g.members[i].created})
		started = started || g.members[i].granted
	}
	if len(all) == 0 {
		return false
	}
	if started {
		for _, i := range todo {
			changed = g.turn(t, i) || changed
		}
		return changed
	}
	r, wait, err := g.book.Turns(all, false)
	switch {
	case err != nil:
		t.Fatalf("turns of group %d: %v after %v", group, err, g.trace)
	case r.UID != "":
		for _, i := range todo {
			g.again(i)
		}
		return true
	}
	for _, i := range todo {
		had := g.book.HadTurn(id(i).UID)
		if wait != nil && had {
			t.Fatalf("pod %d has a turn, and its group has to wait (%s) after %v", i, wait.Why, g.trace)
		}
		if !g.book.Booked(g.members[i].node, id(i).UID) {
			t.Fatalf("pod %d is not booked, and its group has its turns after %v", i, g.trace)
		}
		g.members[i].granted = had
	}
	for _, i := range todo {
		same := func(j int) bool { return g.members[j].node == g.members[i].node && g.members[j].granted }
		if wait == nil && !slices.ContainsFunc(todo, same) {
			t.Fatalf("no member has its turn on the node of pod %d, and its group has its turns after %v", i, g.trace)
		}
	}
	return wait == nil
}

// again has a pod scheduled again.
func (g *groups) again(i int) {
	g.book.Unreserve(id(i).UID)
	g.members[i].at, g.members[i].node, g.members[i].granted = fresh, "", false
}

// turn asks for the turn of one pod.
func (g *groups) turn(t *testing.T, i int) bool {
	p := &g.members[i]
	if p.granted {
		return false
	}
	v, wait, err := g.book.Turn(id(i).UID, p.created)
	switch {
	case err != nil:
		t.Fatalf("turn of pod %d: %v after %v", i, err, g.trace)
	case wait == nil && !v.Fits():
		g.again(i)
		return true
	}
	p.granted = wait == nil
	return p.granted
}

func (g *groups) bind(t *testing.T, i int) bool {
	p := &g.members[i]
	if v, wait, err := g.book.Turn(id(i).UID, p.created); err != nil || wait != nil || !v.Fits() {
		t.Fatalf("pod %d had its turn, and now: %v %v %v after %v", i, v.Reasons, wait, err, g.trace)
	}
	p.at = bound
	g.order = append(g.order, i)
	g.book.Assume(p.node, id(i), p.pod)
	return true
}

// fail has a binding fail: the pod goes back to the queue.
func (g *groups) fail(i int) {
	g.harms--
	g.again(i)
}

// remove deletes the pods of a group that are not bound.
func (g *groups) remove(group int) bool {
	gone := append(g.of(group, fresh), g.of(group, reserved)...)
	for _, i := range gone {
		g.book.Unreserve(id(i).UID)
		g.members[i].deleted, g.members[i].at, g.members[i].node = true, fresh, ""
	}
	g.harms--
	return len(gone) > 0
}

// mayAdmit reports whether a node may admit a pod next; see model.mayAdmit.
func (g *groups) mayAdmit(i int) bool {
	for _, j := range g.order {
		if j == i {
			break
		}
		if g.members[j].node == g.members[i].node &&
			g.members[j].created < g.members[i].created {
			return false
		}
	}
	return true
}

func (g *groups) admit(t *testing.T, i int) bool {
	p := &g.members[i]
	n := g.nodes[p.node]
	v := place.Place(n.usage, p.pod)
	if !v.Fits() {
		t.Fatalf("node %s refuses pod %d: %v after %v", p.node, i, v.Reasons, g.trace)
	}
	p.at = admitted
	g.order = slices.DeleteFunc(g.order, func(j int) bool { return j == i })
	n.admit(state.Entry{Pod: id(i), Source: state.Observed, Holdings: v.Holdings})
	return true
}

// report delivers a report of a node that lists a pod which no earlier one does.
func (g *groups) report(t *testing.T, name string) (news bool) {
	for i := range g.members {
		if p := &g.members[i]; p.at == admitted && p.node == name && !p.reported {
			p.reported, news = true, true
		}
	}
	if news {
		g.deliver(t, name)
	}
	return news
}

func (g *groups) deliver(t *testing.T, name string) {
	l := g.empty
	l.Entries = slices.Clone(g.nodes[name].entries)
	l.Entries = slices.DeleteFunc(l.Entries, func(e state.Entry) bool { return !g.members[number(e.Pod.UID)].reported })
	for _, o := range g.book.Report(name, l) {
		if t != nil && o.Result == state.Wrong && g.harms > 0 {
			t.Fatalf("pod %s: predicted %v, seen %v after %v", o.Pod.UID, o.Predicted, o.Seen, g.trace)
		}
	}
}

// die begins with an empty book: it gets only what the API server has.
func (g *groups) die() {
	g.harms--
	g.book = New()
	for _, name := range []string{"n0", "n1"} {
		g.deliver(nil, name)
	}
	for i := range g.members {
		switch p := &g.members[i]; {
		case p.at == reserved:
			p.at, p.node, p.granted = fresh, "", false
		case p.at >= bound && !p.reported:
			g.book.Recover(p.node, id(i), p.pod)
			if p.seen {
				g.book.Admitted(id(i).UID)
			}
		}
	}
}

// check applies to every state: the book has no pod that is neither reserved nor bound. If nothing more can happen, no
// pod waits for its turn, and no group fits.
func (g *groups) check(t *testing.T, next []*groups) {
	for _, name := range slices.Sorted(maps.Keys(g.book.nodes)) {
		for _, f := range g.book.nodes[name].assumed {
			if p := g.members[number(f.id.UID)]; p.node != name || p.deleted && p.at < bound {
				t.Fatalf("node %s has pod %s, which is at %d on %q, after %v", name, f.id.UID, p.at, p.node, g.trace)
			}
		}
	}
	if len(next) > 0 {
		return
	}
	for i, p := range g.members {
		if p.at == reserved {
			t.Fatalf("pod %d waits for its turn for ever after %v", i, g.trace)
		}
		if p.at == bound {
			t.Fatalf("pod %d is never admitted after %v", i, g.trace)
		}
	}
}

// key is equal for states with the same successors.
func (g *groups) key() [sha256.Size]byte {
	b := fmt.Appendf(nil, "%v %d", g.order, g.harms)
	for _, p := range g.members {
		b = fmt.Appendf(b, "|%s %d %t %t %t %t", p.node, p.at, p.granted, p.seen, p.reported, p.deleted)
	}
	for _, name := range []string{"n0", "n1"} {
		a := g.book.nodes[name]
		b = beliefsOf(encode(b, g.nodes[name].entries), a)
		if a != nil {
			for _, f := range a.assumed {
				b = append(b, bit(f.asked), byte(f.passes))
			}
		}
	}
	return sha256.Sum256(b)
}

// Whatever happens, no node refuses a member, no booking is left behind, and groups do not wait for each other in a
// circle: if nothing more can happen, each group runs, or does not fit.
func TestEveryInterleavingOfTwoGroups(t *testing.T) {
	m := func(cpus int64) memberState { return memberState{pod: pod(cpus, 1)} }
	at := func(created int64, m memberState) memberState { m.created = created; return m }
	demands := func(m memberState) memberState { m.demand.Policy = place.SingleNUMA; return m }
	for name, c := range map[string]struct {
		depth int // depth from which on the case is explored
		harms int // depth from which on a binding may fail, a leader may die, and a group may be deleted
		pods  []memberState
	}{
		"two equal members":   {0, 0, []memberState{m(3), m(3), m(3), m(3)}},
		"two unequal members": {0, 0, []memberState{m(4), m(2), m(5), m(3)}},
		"two of two seconds":  {0, 0, []memberState{at(1, m(4)), at(2, m(3)), at(2, m(2)), at(1, m(6))}},
		"two with a demand":   {0, 0, []memberState{demands(m(3)), demands(m(4)), m(3), m(4)}},
		"with a demand":       {1, 2, []memberState{m(3), demands(m(4)), m(3), demands(m(3)), m(4), m(3)}},
		"equal members":       {1, 2, []memberState{m(3), m(3), m(3), m(3), m(3), m(3)}},
		"unequal members":     {1, 2, []memberState{m(4), m(2), m(3), m(2), m(5), m(3)}},
		"no room for both":    {1, 1, []memberState{m(6), m(5), m(4), m(6), m(2), m(5)}},
		"of two seconds": {2, 2, []memberState{at(1, m(4)), at(1, m(3)), at(2, m(2)), at(1, m(3)), at(2, m(4)),
			at(2, m(5))}},
	} {
		if c.depth > *depth {
			continue
		}
		harms := 0
		if c.harms <= *depth {
			harms = 1
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := beginGroups(t, harms, c.pods...)
			seen := map[[sha256.Size]byte]bool{start.key(): true}
			for todo := []*groups{start}; len(todo) > 0; {
				g := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				next, harm := g.moves(t)
				g.check(t, next)
				for _, n := range append(next, harm...) {
					if key := n.key(); !seen[key] {
						seen[key] = true
						todo = append(todo, n)
					}
				}
			}
			t.Logf("%d states", len(seen))
		})
	}
}
