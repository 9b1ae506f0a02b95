package estimate

import (
	"maps"
	"slices"
)

// This file decides between pods with the same name. A node that reports which pods it counts identifies them by
// name, and a pod may have the name of one that ended.

// choose decides which pod of each group of equal names the amounts contain. It looks for the choices of one pod per
// group that, with all other counted pods, add up to the amounts. If several pods of a group remain possible, it
// counts one that the exporter must have seen; if there is none, the group stays undecided.
func (x *reading) choose() {
	groups := x.amounts.Either
	if len(groups) == 0 {
		return
	}
	takes := x.takesOf(x.old, slices.Concat(x.pods, x.gone)...)
	for _, group := range groups {
		for _, uid := range group {
			delete(x.in, uid)
		}
	}
	total, complete := quantities{}, true
	for uid, in := range x.in {
		amounts, ok := takes(uid)
		if complete = complete && (!in || ok); in {
			total.add(amounts, 1)
		}
	}
	common := choices(x.held, total, groups, takes)
	for i, group := range groups {
		at := -1
		if complete && len(common) > 0 {
			at = common[i]
		}
		for k, uid := range group {
			if at < 0 && x.amounts.Seen[uid] && slices.ContainsFunc(x.bound, func(p Pod) bool { return p.ID.UID == uid }) {
				at = k
			}
		}
		for k, uid := range group {
			x.in[uid] = k == at
		}
		if at < 0 {
			x.useDefaults(group)
		}
	}
}

// useDefaults decides the ended pods of a group by the defaults of explain: such a pod is still in the amounts if its
// part of them was known.
func (x *reading) useDefaults(group []string) {
	for _, c := range x.gone {
		if slices.Contains(group, c.uid) {
			x.in[c.uid] = !c.moved
		}
	}
}

// choices tries every choice of one pod per group that makes the total equal to held. For each group it returns the
// position of the pod that all choices have in common, or -1. It returns nil if there is no such choice, or if there
// are too many to try.
func choices(held, total quantities, groups [][]string, takes func(string) (quantities, bool)) (common []int) {
	n := 1
	for _, group := range groups {
		if n *= len(group); n > maxSets {
			return nil
		}
	}
	pick := make([]int, 0, len(groups))
	var try func(total quantities)
	try = func(total quantities) {
		if len(pick) == len(groups) {
			if !maps.Equal(total, held) {
				return
			}
			if common == nil {
				common = slices.Clone(pick)
			}
			for i := range pick {
				if common[i] != pick[i] {
					common[i] = -1
				}
			}
			return
		}
		for k, uid := range groups[len(pick)] {
			amounts, ok := takes(uid)
			if !ok {
				continue
			}
			pick = append(pick, k)
			try(total.plus(amounts, 1))
			pick = pick[:len(pick)-1]
		}
	}
	try(total)
	return common
}
