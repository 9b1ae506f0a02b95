package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file gives turns to the members of a group, which are bound together or not at all, on one node or on several.
//
// If members took their turns one by one, two groups could each have the turn on a node where the other one waits.
// So the first member in line of each node gets its turn in one step, under the locks of all these nodes, or none
// does. A member that comes after another one on its node gets its turn then, too, unless it has to wait for that
// one: its turn comes once the node has admitted the other one, and its room is booked until then. So a member has
// to wait, too, where the node could admit it before an earlier one and then had no room for a later one
// (leavesRoom).

// Member is a pod of a group. Created is its creation time in seconds of the API server's clock.
type Member struct {
	UID     string
	Created int64
}

// Refusal is the member of a group that no longer fits, and the verdict on it.
type Refusal struct {
	UID     string
	Verdict place.Verdict
}

// Turns decides whether reserved pods may be bound now, as [Book.Turn] does for one pod. If they may, each of them has
// its turn, or has only to wait for other members on its node. If they have to wait, Turns returns why, and no member
// takes a turn. If one of them no longer fits, it loses its booking, and no member takes a turn. Turns returns an error
// for a pod that is not booked, or whose node has no layout.
//
// Members that have to wait on one node hold up no other pod on their other nodes for which there is room beside them,
// unless insist is true.
func (b *Book) Turns(members []Member, insist bool) (r Refusal, wait *Wait, err error) {
	lines, err := b.linesOf(members)
	defer func() {
		for _, l := range lines {
			b.close(l.account)
		}
	}()
	if err != nil {
		return Refusal{}, nil, err
	}
	for _, l := range lines {
		if why := l.look(); why != "" {
			l.ask(lines, insist)
			return Refusal{}, &Wait{why, l.account.nextChange(), l.account.name}, nil
		}
	}
	for _, l := range lines {
		if r := b.takeAll(l); r.UID != "" {
			for _, l := range lines {
				b.giveBack(l)
			}
			b.cancel(l.account, r.UID)
			return r, nil, nil
		}
	}
	for _, l := range lines {
		for _, x := range l.taken {
			for _, g := range x.passed {
				g.passes++
			}
		}
	}
	return Refusal{}, nil, nil
}

// line has the members of a group on one node, in the order of their reservations.
type line struct {
	account *account
	members []*assumedPod
	before  []*assumedPod // account.assumed before the first of them had its turn
	taken   []taken
}

// taken is a turn that may still be given back.
type taken struct {
	pod       *assumedPod
	uncertain bool // as it was before the turn
	passed    []*assumedPod
}

// linesOf returns the lines of members, in the order of their nodes' names, with locked accounts. It locks the accounts
// in that order, and no other function locks one while it holds another.
func (b *Book) linesOf(members []Member) ([]*line, error) {
	for {
		nodes := map[string][]Member{}
		for _, m := range members {
			node, on := b.assumedNode(m.UID)
			if !on {
				return nil, fmt.Errorf("pod %s is not reserved on any node", m.UID)
			}
			nodes[node] = append(nodes[node], m)
		}
		var lines []*line
		for _, node := range slices.Sorted(maps.Keys(nodes)) {
			if a := b.open(node); a != nil {
				lines = append(lines, &line{account: a})
			}
		}
		moved := len(lines) < len(nodes)
		for _, m := range members {
			node, on := b.assumedNode(m.UID)
			moved = moved || !on || !slices.ContainsFunc(nodes[node], func(o Member) bool { return o.UID == m.UID })
		}
		if !moved {
			return lines, fill(lines, nodes)
		}
		for _, l := range lines {
			b.close(l.account)
		}
	}
}

// fill sets the members of lines. It returns an error for a node without a layout.
func fill(lines []*line, nodes map[string][]Member) error {
	for _, l := range lines {
		a := l.account
		l.before = a.assumed
		for _, f := range a.assumed {
			at := slices.IndexFunc(nodes[a.name], func(m Member) bool { return m.UID == f.id.UID })
			if at >= 0 {
				l.members = append(l.members, f)
			}
			if at >= 0 && f.turned == 0 {
				f.created = nodes[a.name][at].Created
			}
		}
		for _, f := range l.members {
			f.mates = l.members
		}
		if a.base == nil || len(l.members) < len(nodes[a.name]) {
			return fmt.Errorf("pods %v are not reserved on node %s", nodes[a.name], a.name)
		}
	}
	return nil
}

// look returns what the first member of a line that has had no turn has to wait for, or "".
func (l *line) look() state.WaitReason {
	for _, f := range l.members {
		if f.turned == 0 {
			_, why := l.account.ask(f)
			return why
		}
	}
	return ""
}

// takeAll gives the members of a line their turns: the first one, and each further one that need not wait for it. It
// returns a member that no longer fits.
func (b *Book) takeAll(l *line) Refusal {
	a := l.account
	for _, f := range l.members {
		if f.turned != 0 {
			continue
		}
		v, why := a.ask(f)
		switch {
		case why != "":
			continue
		case !v.Fits():
			return Refusal{f.id.UID, v}
		}
		x := taken{pod: f, uncertain: f.uncertain}
		x.passed = b.take(a, f)
		l.taken = append(l.taken, x)
	}
	n := b.snap.Load().Node(a.name)
	for _, x := range l.taken {
		if v := granted(n, x.pod); !v.Fits() {
			return Refusal{x.pod.id.UID, v}
		}
		if other := b.apartFrom(a, x.pod); other != "" {
			return Refusal{x.pod.id.UID, refusedElsewhere(other)}
		}
	}
	return l.crowdedOut(n)
}

// crowdedOut returns a member that still waits, and for which a state of the node has no room.
func (l *line) crowdedOut(n *state.Node) Refusal {
	for _, f := range l.members {
		for _, one := range append([]*state.Node{n}, n.Others...) {
			if f.turned != 0 {
				continue
			}
			v := place.Verdict{}
			if e, there := one.Entry(f.id.UID); there {
				v = one.Relate(f.id.UID, place.Verdict{Holdings: e.Holdings}, f.demand)
			} else {
				v = one.Place(f.pod, f.demand)
			}
			if !v.Fits() {
				return Refusal{f.id.UID, v}
			}
		}
	}
	return Refusal{}
}

// giveBack ends the turns that a line has taken, as if they had never been taken.
func (b *Book) giveBack(l *line) {
	if len(l.taken) == 0 {
		return
	}
	for _, x := range l.taken {
		x.pod.turned, x.pod.uncertain = 0, x.uncertain
	}
	l.account.assumed, l.taken = l.before, nil
	b.renew(l.account)
}

// ask records that the members of a line ask for their turns. The members of the other lines could not take a turn yet,
// so they ask only if insist is true.
func (l *line) ask(all []*line, insist bool) {
	for _, o := range all {
		for _, f := range o.members {
			f.asked = o == l || insist
		}
	}
}
