package estimate

import (
	"maps"
	"slices"
)

// This file interprets a change of the amounts if the node does not report which pods it counts. Since the last
// report, pods have come into the amounts and left them, and the change shows which.

// alike is a group of interchangeable pods: pods of one shape that may have come into the amounts, likeliest first,
// or one pod that may have left them.
type alike struct {
	pods []candidate
	came bool
}

// maxSets bounds the sets of pods that are tried.
const maxSets = 4096

// explain searches for sets of pods that may have come into the amounts or left them, such that the amounts in before
// become the amounts in now. If some of the sets have all pods that are sure, it uses only these sets. The map in
// receives the result: true for the UIDs of pods that the amounts contain. Where all sets agree, that is the result;
// where they differ, or if there is no set, explain uses defaults. By default a pod has come if it is sure. A pod
// that ended is still in the amounts if its part of them was known, and otherwise has left them.
//
// from is the sum of before and all changes that are certain; it is nil if no set leads to now. open has the UIDs of
// the pods that are not decided.
func explain(now, before quantities, pods, gone []candidate, in map[string]bool) (
	from quantities, open map[string]bool) {
	open = map[string]bool{}
	var groups []alike
	for _, c := range pods {
		in[c.uid] = c.sure
		at := slices.IndexFunc(groups, func(x alike) bool { return x.pods[0].shape == c.shape })
		if at < 0 {
			at, groups = len(groups), append(groups, alike{came: true})
		}
		groups[at].pods = append(groups[at].pods, c)
	}
	for i := range groups {
		slices.SortStableFunc(groups[i].pods, func(c, d candidate) int { return c.rank() - d.rank() })
	}
	for _, c := range gone {
		in[c.uid] = !c.moved
		groups = append(groups, alike{pods: []candidate{c}})
	}
	sets := explanations(now, before, groups)
	if len(sets) > 0 {
		from = maps.Clone(before)
	}
	for i, x := range groups {
		fewest, maximum := len(x.pods), 0 // the pods of the group that moved, over all sets
		for _, moved := range sets {
			fewest, maximum = min(fewest, moved[i]), max(maximum, moved[i])
		}
		for k, c := range x.pods {
			switch {
			case len(sets) == 0:
				open[c.uid] = true
			case k < fewest:
				in[c.uid] = x.came
				from.add(c.takes, x.sign())
			case k >= maximum:
				in[c.uid] = !x.came
			default:
				open[c.uid] = true
			}
		}
	}
	return from, open
}

// sign returns 1 if the amounts grow when a pod of the group moves, and -1 if they shrink.
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
// the amounts in now. If in some ways all pods that are sure have come, it returns only these. It returns nil if
// there are too many ways to try.
func explanations(now, before quantities, groups []alike) (out [][]int) {
	n := 1
	for _, x := range groups {
		if n *= len(x.pods) + 1; n > maxSets {
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
		for k, c := range x.pods {
			next = next.plus(c.takes, x.sign())
			try(next, append(moved, k+1))
		}
	}
	try(before, make([]int, 0, len(groups)))
	complete := slices.DeleteFunc(slices.Clone(out), func(moved []int) bool { return !allSureCame(groups, moved) })
	if len(complete) > 0 {
		return complete
	}
	return out
}

// allSureCame reports whether all pods that are sure have come; moved has the number of pods that moved in each
// group.
func allSureCame(groups []alike, moved []int) bool {
	for i, x := range groups {
		if x.came && moved[i] < len(x.pods) && x.pods[moved[i]].sure {
			return false
		}
	}
	return true
}
