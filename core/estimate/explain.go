package estimate

import (
	"maps"
	"slices"
)

// This file interprets a change of the amounts if the node does not report which pods it counts. Since the last report,
// pods have come into the amounts and left them, and the change shows which.

// alike is a group of interchangeable pods: pods of one shape that may have come, likeliest first, or one pod that may
// have left.
type alike struct {
	of   []candidate
	came bool
}

// maxSets bounds the sets of pods that are tried.
const maxSets = 4096

// explain searches for sets of pods that may have come into the amounts or left them, such that the amounts in before
// become the amounts in now. It prefers sets with all pods that are sure. The map in receives the result: true for
// the UIDs of pods that the amounts contain. Where all sets agree, that is the result; where they differ, or if there
// is no set, explain uses defaults. By default a pod has come if it is sure. A pod that ended is still in the amounts
// if its part of them was known, and otherwise has left them.
//
// from is the sum of before and all changes that are certain; it is nil if no set leads to now. open has the UIDs of
// the pods that are not decided.
func explain(now, before quantities, pods, gone []candidate, in map[string]bool) (
	from quantities, open map[string]bool) {
	open = map[string]bool{}
	var groups []alike
	for _, c := range pods {
		in[c.uid] = c.sure
		at := slices.IndexFunc(groups, func(x alike) bool { return x.of[0].shape == c.shape })
		if at < 0 {
			at, groups = len(groups), append(groups, alike{came: true})
		}
		groups[at].of = append(groups[at].of, c)
	}
	for i := range groups {
		slices.SortStableFunc(groups[i].of, func(c, d candidate) int { return c.rank() - d.rank() })
	}
	for _, c := range gone {
		in[c.uid] = !c.moved
		groups = append(groups, alike{of: []candidate{c}})
	}
	sets := explanations(now, before, groups)
	if len(sets) > 0 {
		from = maps.Clone(before)
	}
	for i, x := range groups {
		least, most := len(x.of), 0
		for _, moved := range sets {
			least, most = min(least, moved[i]), max(most, moved[i])
		}
		for k, c := range x.of {
			switch {
			case len(sets) == 0:
				open[c.uid] = true
			case k < least:
				in[c.uid] = x.came
				from.add(c.takes, x.sign())
			case k >= most:
				in[c.uid] = !x.came
			default:
				open[c.uid] = true
			}
		}
	}
	return from, open
}

// sign is the sign of the change when a pod of the group moves.
func (x alike) sign() int64 {
	if x.came {
		return 1
	}
	return -1
}

// rank orders pods of one shape by how likely the amounts contain them; lower is likelier.
func (c candidate) rank() int {
	switch {
	case c.sure:
		return 0
	case c.admitted:
		return 1
	}
	return 2
}

// explanations returns how many pods of each group have moved, for every way in which the amounts in before become
// the amounts in now. It returns nil if there are too many ways to try.
func explanations(now, before quantities, groups []alike) (out [][]int) {
	n := 1
	for _, x := range groups {
		if n *= len(x.of) + 1; n > maxSets {
			return nil
		}
	}
	var try func(held quantities, moved []int)
	try = func(held quantities, moved []int) {
		if len(moved) == len(groups) {
			if maps.Equal(held, now) {
				out = append(out, slices.Clone(moved))
			}
			return
		}
		x := groups[len(moved)]
		next := maps.Clone(held)
		try(next, append(moved, 0))
		for k, c := range x.of {
			next = next.plus(c.takes, x.sign())
			try(next, append(moved, k+1))
		}
	}
	try(before, make([]int, 0, len(groups)))
	expected := slices.DeleteFunc(slices.Clone(out), func(moved []int) bool { return !expected(groups, moved) })
	if len(expected) > 0 {
		return expected
	}
	return out
}

// expected reports whether all pods that are sure have come.
func expected(groups []alike, moved []int) bool {
	for i, x := range groups {
		if x.came && moved[i] < len(x.of) && x.of[moved[i]].sure {
			return false
		}
	}
	return true
}
