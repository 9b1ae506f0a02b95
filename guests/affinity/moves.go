package affinity

import (
	"cmp"
	"slices"
)

// move is a possible move of a group to the NUMA node at index to.
type move struct {
	to   int
	gain int64 // the weight that becomes local, minus the weight that becomes remote
	// moved is what those pods of the group request that are not on the NUMA node yet. cpuLeft is the milli-CPU that
	// the NUMA node has free after the move.
	moved   amount
	cpuLeft int64
}

// step is one move of a group: the group's index, and the index of the NUMA node.
type step struct{ group, to int }

// settle moves groups until no move pays any more, and returns the moves in order. Every move makes more weight
// local, so settle ends; the bound on its rounds is a precaution.
func (s *state) settle(groups [][]int) (steps []step) {
	for range 4*len(groups) + 8 {
		again := false
		for n, g := range groups {
			if m, ok := s.best(g); ok {
				s.place(g, m.to)
				steps = append(steps, step{n, m.to})
				again = true
			}
		}
		if !again {
			break
		}
	}
	return steps
}

// best returns the move of group g that makes the most weight local, among the moves that pay and have room. ok is
// false if there is none. Then best records in s.refused why the move with the greatest gain is not made.
func (s *state) best(g []int) (best move, ok bool) {
	total := s.weight(g)
	delete(s.refused, g[0])
	var greatest int64 // gain of a refused move
	for k := range s.numas {
		m := s.move(g, k)
		switch {
		case m.gain <= 0:
		case m.gain < total/100*s.rules.Gain:
			s.refuse(g, refusal{numa: k}, m.gain, &greatest)
		case s.lacks(k, m.moved) != nil:
			s.refuse(g, refusal{k, s.lacks(k, m.moved)}, m.gain, &greatest)
		case !ok || m.compare(best) < 0:
			best, ok = m, true
		}
	}
	if ok {
		delete(s.refused, g[0])
	}
	return best, ok
}

// refuse records why a move of group g is not made, unless an earlier refused move had at least the same gain. It
// keeps the greatest gain of the refused moves so far in *greatest.
func (s *state) refuse(g []int, why refusal, gain int64, greatest *int64) {
	if gain > *greatest {
		*greatest, s.refused[g[0]] = gain, why
	}
}

// compare orders moves, the better one first: more gain, then less to move, then more CPU left, then the lower NUMA
// node.
func (m move) compare(o move) int {
	return cmp.Or(cmp.Compare(o.gain, m.gain), cmp.Compare(m.moved.bytes, o.moved.bytes),
		cmp.Compare(m.moved.milli, o.moved.milli), cmp.Compare(o.cpuLeft, m.cpuLeft), cmp.Compare(m.to, o.to))
}

// weight returns the sum of the weights of all links that pods of a group have, with each other and with other pods.
func (s *state) weight(g []int) (sum int64) {
	for _, i := range g {
		for _, l := range s.linksOf[i] {
			if _, inGroup := slices.BinarySearch(g, l.other(i)); !inGroup || l.other(i) > i {
				sum += l.weight()
			}
		}
	}
	return sum
}

// move returns the move of group g to the NUMA node at index k, with its gain.
func (s *state) move(g []int, k int) move {
	m := move{to: k}
	inGroup := func(i int) bool { _, ok := slices.BinarySearch(g, i); return ok }
	for _, i := range g {
		if s.at[i] != k {
			m.moved = m.moved.plus(s.pods[i].amount())
		}
		for _, l := range s.linksOf[i] {
			j := l.other(i)
			if inGroup(j) && j < i {
				continue // counted with the other pod
			}
			apart := s.apart(l)
			after := !inGroup(j) && s.at[j] != k
			switch {
			case apart && !after:
				m.gain += l.weight()
			case !apart && after:
				m.gain -= l.weight()
			}
		}
	}
	m.cpuLeft = s.free[k].milli - m.moved.milli
	return m
}

// place moves group g to the NUMA node at index k, and computes again what is free.
func (s *state) place(g []int, k int) {
	for _, i := range g {
		s.at[i] = k
	}
	s.countFree()
}

// wish returns a wish for each pod that is on another NUMA node in wanted than in s. The wish has the node in wanted,
// and for how many periods in a row that node was wanted, at most Rules.Periods.
func (s *state) wish(wanted *state, before Wishes) Wishes {
	out := Wishes{}
	for i, to := range wanted.at {
		if to == s.at[i] {
			continue
		}
		w := Wish{NUMA: s.id(to), Periods: 1}
		if last, ok := before[s.pods[i].ID]; ok && last.NUMA == w.NUMA {
			w.Periods = min(last.Periods+1, s.rules.Periods)
		}
		out[s.pods[i].ID] = w
	}
	return out
}

// follow makes the steps of groups whose moves are due. It does not make the steps of other groups, so a due group
// may lack the room that those steps would make. Then follow starts again without that group. It removes the moves
// that it makes from wishes.
func (s *state) follow(groups [][]int, wanted *state, steps []step, wishes Wishes) {
	due := make([]bool, len(groups))
	for n, g := range groups {
		due[n] = s.due(g, wanted, wishes)
	}
	for {
		t := s.clone()
		for _, step := range steps {
			g := groups[step.group]
			if due[step.group] && t.lacks(step.to, t.move(g, step.to).moved) == nil {
				t.place(g, step.to)
			}
		}
		missed := false
		for n, g := range groups {
			if due[n] && t.at[g[0]] != wanted.at[g[0]] {
				due[n], missed = false, true
			}
		}
		if !missed {
			s.at, s.free = t.at, t.free
			break
		}
	}
	for n, g := range groups {
		for _, i := range g {
			if due[n] {
				delete(wishes, s.pods[i].ID)
			}
		}
	}
}

// due reports whether a group has pods to move, and all these moves have been wanted for enough periods. In settle a
// group moves as a whole, so all its pods go to one NUMA node.
func (s *state) due(g []int, wanted *state, wishes Wishes) bool {
	moves := false
	for _, i := range g {
		if wanted.at[i] == s.at[i] {
			continue
		}
		moves = true
		if wishes[s.pods[i].ID].Periods < s.rules.Periods {
			return false
		}
	}
	return moves
}

// verdicts returns, for every pod, its NUMA node and the reason for it.
func (s *state) verdicts(groups [][]int, next Wishes) []Verdict {
	out := make([]Verdict, len(s.pods))
	for i := range s.pods {
		p := &s.pods[i]
		v := Verdict{Pod: p.ID, Outcome: Silent, From: s.id(s.from[i]), NUMA: s.id(s.at[i]), Wanted: Nowhere}
		switch {
		case p.Exclusive:
			v.Outcome = Exclusive
		case s.released[i] && s.at[i] < 0:
			v.Outcome = Released
		case !p.optedIn():
			v.Outcome = NotOpted
		}
		for _, l := range s.linksOf[i] {
			v.Bytes += l.bytes
			if s.apart(l) {
				v.Remote += l.bytes
			}
		}
		out[i] = v
	}
	for _, g := range groups {
		for _, i := range g {
			for _, j := range g {
				if i != j {
					out[i].With = append(out[i].With, s.pods[j].ID)
				}
			}
			s.explain(&out[i], i, g, next)
		}
	}
	return out
}

// explain completes the verdict on pod i of group g: its outcome and, where it applies, the wanted NUMA node.
func (s *state) explain(v *Verdict, i int, g []int, next Wishes) {
	wish, wants := next[v.Pod]
	why, refused := s.refused[g[0]]
	switch {
	case s.at[i] >= 0 && s.at[i] != s.from[i]:
		v.Outcome = Moved
	case v.Outcome == Released:
	case wants:
		v.Outcome, v.Wanted, v.Periods = Waits, wish.NUMA, wish.Periods
		if wish.Periods >= s.rules.Periods {
			v.Outcome = NoRoom // room would come from moves of other groups that still wait
			k := slices.IndexFunc(s.numas, func(n NUMA) bool { return n.ID == wish.NUMA })
			v.Lacks = s.lacks(k, s.move(g, k).moved)
		}
	case refused && why.lack != nil:
		v.Outcome, v.Wanted, v.Lacks = NoRoom, s.id(why.numa), why.lack
	case refused:
		v.Outcome, v.Wanted = TooLittle, s.id(why.numa)
	default:
		v.Outcome = Together
	}
}
