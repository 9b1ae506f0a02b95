package ledger

import (
	"maps"
	"slices"
)

// This file decides about pods by the amounts of the node as a whole, where neither names nor the change of the
// amounts decide.

// choose decides which pod of each group of equal names the amounts account for. It looks at every choice of one
// pod per group that, with all other counted pods, adds up to the amounts. Where several pods of a group remain
// possible, it counts one that is sure; where none is sure, the group stays undecided.
func (a *account) choose(now map[string]int64, old []Entry, air, ended []guess, out map[string]bool) {
	groups := a.layout.Amounts.Either
	if len(groups) == 0 {
		return
	}
	known := a.amountsOf(old, air, ended)
	for _, group := range groups {
		for _, uid := range group {
			delete(out, uid)
		}
	}
	total, complete := map[string]int64{}, true
	for uid, in := range out {
		amounts, ok := known(uid)
		if complete = complete && (!in || ok); in {
			add(total, amounts, 1)
		}
	}
	least := a.choices(now, total, groups, known)
	for i, group := range groups {
		at := -1
		if complete && len(least) > 0 {
			at = least[i]
		}
		for k, uid := range group {
			if f := a.find(uid); at < 0 && f != nil && a.layout.Amounts.Seen[uid] {
				at = k
			}
		}
		for k, uid := range group {
			out[uid] = k == at
		}
		if at < 0 {
			stay(group, ended, out)
		}
	}
}

// stay lets the pods of a group that ended be where they were; strays have left.
func stay(group []string, ended []guess, out map[string]bool) {
	for _, uid := range group {
		for _, g := range ended {
			if g.uid == uid {
				out[uid] = !g.stray
			}
		}
	}
}

// choices returns for each group the position of the pod that all ways of making the total what is held have in
// common, or -1; nothing where there is no such way, or too many to try.
func (a *account) choices(now, total map[string]int64, groups [][]string,
	known func(string) (map[string]int64, bool)) (common []int) {
	n := 1
	for _, group := range groups {
		if n *= len(group); n > maxSets {
			return nil
		}
	}
	pick := make([]int, 0, len(groups))
	var try func(total map[string]int64)
	try = func(total map[string]int64) {
		if len(pick) == len(groups) {
			if !maps.Equal(total, now) {
				return
			}
			if common == nil {
				common = append([]int{}, pick...)
			}
			for i := range pick {
				if common[i] != pick[i] {
					common[i] = -1
				}
			}
			return
		}
		for k, uid := range groups[len(pick)] {
			amounts, ok := known(uid)
			if !ok {
				continue
			}
			next := maps.Clone(total)
			add(next, amounts, 1)
			pick = append(pick, k)
			try(next)
			pick = pick[:len(pick)-1]
		}
	}
	try(total)
	return common
}

// amountsOf returns what says which amounts a report shows of a pod. Of a pod that the book does not know it shows
// none: its node gives it nothing. ok is false for a pod of which it is not known what it asked for.
func (a *account) amountsOf(old []Entry, air, ended []guess) func(uid string) (amounts map[string]int64, ok bool) {
	known := map[string]map[string]int64{}
	for _, e := range old {
		known[e.Pod.UID] = sum(a.shown(e.Holdings))
	}
	for _, f := range a.coarse.dead {
		known[f.id.UID] = a.needed(f)
	}
	for _, list := range [][]guess{air, ended} {
		for _, g := range list {
			known[g.uid] = g.amounts
		}
	}
	return func(uid string) (map[string]int64, bool) {
		if amounts, ok := known[uid]; ok {
			return amounts, true
		}
		r, resident := a.coarse.counted[uid]
		if !resident {
			return nil, true
		}
		hs, ok := a.needs(r.pod)
		return sum(a.shown(hs)), ok
	}
}

// enter counts pods that the amounts do not explain, but which the exporter must have seen. It does so as long as
// the amounts have room for them beside all pods that are known to be there: where they have not, the exporter does
// not count such a pod, or its reports were made before it was admitted. A pod of which it is not known what it holds
// is counted all the same, since no prediction could stand for it. It reports whether there are any.
func (a *account) enter(now map[string]int64, old []Entry, air []guess, open, out map[string]bool) (any bool) {
	unexplained := func(g guess) bool { return g.sure && (open[g.uid] || !out[g.uid]) }
	if !slices.ContainsFunc(air, unexplained) {
		return false
	}
	total := a.known(old, air, out, unexplained)
	for _, g := range air {
		if !unexplained(g) {
			continue
		}
		add(total, g.amounts, 1)
		if out[g.uid] = g.lost || within(total, now); !out[g.uid] {
			add(total, g.amounts, -1)
		}
		any = any || out[g.uid]
	}
	return any
}

// known returns the amounts of all pods that are counted and have not ended, but for some of those on their way.
func (a *account) known(old []Entry, air []guess, out map[string]bool, but func(guess) bool) map[string]int64 {
	total, seen := map[string]int64{}, map[string]bool{}
	for _, g := range air {
		if seen[g.uid] = true; out[g.uid] && !but(g) {
			add(total, g.amounts, 1)
		}
	}
	amounts := a.amountsOf(old, nil, nil)
	charge := func(uid string) {
		if _, ended := a.gone[uid]; !seen[uid] && !ended {
			seen[uid] = true
			of, _ := amounts(uid)
			add(total, of, 1)
		}
	}
	for _, e := range old {
		charge(e.Pod.UID)
	}
	for uid := range a.coarse.counted {
		charge(uid)
	}
	return total
}

// within reports whether amounts are at most others.
func within(amounts, most map[string]int64) bool {
	for k, v := range amounts {
		if v > most[k] {
			return false
		}
	}
	return true
}
