package room

import "slices"

// This file has the pods of a gang leave at the same time.

// whole returns the pods of some whose gangs are among these as a whole, as far as their pods have not left.
func (x *carrying) whole(some []move) []move {
	return slices.DeleteFunc(slices.Clone(some), func(m move) bool {
		return m.Gang != "" && slices.ContainsFunc(x.left, func(o move) bool {
			return o.Gang == m.Gang && !slices.ContainsFunc(some, func(s move) bool { return s.UID == o.UID })
		})
	})
}

// turn returns the pods of some that leave now. If no pod waits for the room, disruption budgets need not allow all
// evictions at the same time: then gangs leave one after the other, so that none of them waits in part for pods of
// another one.
func (x *carrying) turn(some []move) []move {
	if len(x.goals) > 0 || !inGangs(some) {
		return some
	}
	gang := ""
	if !slices.ContainsFunc(some, func(m move) bool { return m.Gang == "" }) {
		gang = some[0].Gang
	}
	return slices.DeleteFunc(slices.Clone(some), func(m move) bool { return m.Gang != gang })
}

// inGangs reports whether one of some pods leaves with others.
func inGangs(some []move) bool {
	return slices.ContainsFunc(some, func(m move) bool { return m.Gang != "" })
}
