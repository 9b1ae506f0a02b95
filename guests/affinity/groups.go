package affinity

import "slices"

// groups returns the pods that are moved together, by index. Each group is in ascending order, and the groups are in
// the order of their first pods. Each group of several pods would fit on some NUMA node if only pods without links
// ran there. Pods without links are in no group. The groups do not depend on where their pods run at present, so that
// moves do not change groups.
func (s *state) groups() (out [][]int) {
	room := s.rooms()
	of := make([]int, len(s.pods)) // for each pod, the first pod of its group
	sum := make([]amount, len(s.pods))
	for i := range s.pods {
		of[i], sum[i] = i, s.pods[i].amount()
	}
	for _, l := range s.links {
		a, b := of[l.a], of[l.b]
		if a == b || s.pods[l.a].Exclusive || s.pods[l.b].Exclusive {
			continue
		}
		both := sum[a].plus(sum[b])
		if !slices.ContainsFunc(room, func(r amount) bool { return both.milli <= r.milli && both.bytes <= r.bytes }) {
			continue
		}
		first, second := min(a, b), max(a, b)
		for i := range of {
			if of[i] == second {
				of[i] = first
			}
		}
		sum[first] = both
	}
	members := map[int][]int{}
	for i := range s.pods {
		if len(s.of[i]) > 0 && !s.pods[i].Exclusive {
			members[of[i]] = append(members[of[i]], i)
		}
	}
	for i := range s.pods {
		if m := members[i]; m != nil {
			out = append(out, m)
		}
	}
	return out
}

// rooms returns what each NUMA node has for groups: its capacity without the pods that have no links, minus the spare
// share.
func (s *state) rooms() []amount {
	empty := s.clone()
	for i := range s.pods {
		if len(s.of[i]) > 0 && !s.pods[i].Exclusive {
			empty.at[i] = -1 // there, count does not count a pod with links
		}
	}
	empty.free = nil
	empty.count()
	for k, n := range s.numas {
		empty.free[k] = empty.free[k].minus(amount{share(n.MilliCPU, s.rules.Spare, 100),
			share(n.Bytes, s.rules.Spare, 100)})
	}
	return empty.free
}
