package ledger

import (
	"maps"
	"slices"
)

// This file reads the amounts of a node that does not say whom it counts: pods have come into them and
// left them since the last report, and the amounts tell which.

// alike are pods of which it does not matter which of them moved: pods of one shape on their way, those
// first that are known to be admitted; or one pod that ended.
type alike struct {
	of   []guess
	came bool
}

// maxSets bounds the sets of pods that are tried.
const maxSets = 4096

// explain finds the sets of pods that have come into the amounts, and of those that have left them, that
// make the old amounts the new ones. Sets with all that were admitted before the report before this one go
// before others. What all of them agree on is decided; where they do not agree, or there is none, a pod has
// come if it was admitted before the report before this one, and none has left. from are the old amounts with the
// changes that are decided; nil where no set explains the new ones. open are the pods of which it is not decided.
func explain(now, before map[string]int64, air, ended []guess,
	out map[string]bool) (from map[string]int64, open map[string]bool) {
	open = map[string]bool{}
	var groups []alike
	for _, g := range air {
		out[g.uid] = g.sure
		at := slices.IndexFunc(groups, func(x alike) bool { return x.of[0].shape == g.shape })
		if at < 0 {
			at, groups = len(groups), append(groups, alike{came: true})
		}
		groups[at].of = append(groups[at].of, g)
	}
	for i := range groups {
		slices.SortStableFunc(groups[i].of, func(g, h guess) int { return g.rank() - h.rank() })
	}
	for _, g := range ended {
		out[g.uid] = !g.stray
		groups = append(groups, alike{of: []guess{g}})
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
		for k, g := range x.of {
			switch {
			case len(sets) == 0:
				open[g.uid] = true
			case k < least:
				out[g.uid] = x.came
				add(from, g.amounts, sign(x.came))
			case k >= most:
				out[g.uid] = !x.came
			default:
				open[g.uid] = true
			}
		}
	}
	return from, open
}

// sign is how the amounts of a pod that moved change those of the node.
func sign(came bool) int64 {
	if came {
		return 1
	}
	return -1
}

// rank orders pods of one shape by how likely it is that they are counted.
func (g guess) rank() int {
	switch {
	case g.sure:
		return 0
	case g.acked:
		return 1
	}
	return 2
}

// explanations returns how many of each lot have moved, in every way that makes the old amounts the new ones.
func explanations(now, before map[string]int64, groups []alike) (out [][]int) {
	n := 1
	for _, x := range groups {
		if n *= len(x.of) + 1; n > maxSets {
			return nil
		}
	}
	var try func(amounts map[string]int64, moved []int)
	try = func(amounts map[string]int64, moved []int) {
		if len(moved) == len(groups) {
			if maps.Equal(amounts, now) {
				out = append(out, slices.Clone(moved))
			}
			return
		}
		x := groups[len(moved)]
		for k := range len(x.of) + 1 {
			next := maps.Clone(amounts)
			for _, g := range x.of[:k] {
				add(next, g.amounts, sign(x.came))
			}
			try(next, append(moved, k))
		}
	}
	try(before, make([]int, 0, len(groups)))
	if sure := slices.DeleteFunc(slices.Clone(out), func(moved []int) bool { return !expected(groups, moved) }); len(sure) > 0 {
		return sure
	}
	return out
}

// expected reports whether all have come that were admitted before the report before this one.
func expected(groups []alike, moved []int) bool {
	for i, x := range groups {
		if x.came && moved[i] < len(x.of) && x.of[moved[i]].sure {
			return false
		}
	}
	return true
}
