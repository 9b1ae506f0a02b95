package affinity

import "slices"

// groups returns the pods that are moved together, by index. Each group is in ascending order, and the groups are in
// the order of their first pods. Each group of several pods would fit on some NUMA node if only pods without links
// ran there. Pods without links are in no group. The groups do not depend on where their pods run at present, so that
// moves do not change groups.
func (s *state) groups() (out [][]int) {
	room := s.rooms()
	groupOf := make([]int, len(s.pods)) // for each pod, the first pod of its group
	sum := make([]amount, len(s.pods))
	for i := range s.pods {
		groupOf[i], sum[i] = i, s.pods[i].amount()
	}
	for _, l := range s.links {
		a, b := groupOf[l.a], groupOf[l.b]
		if a == b || s.pods[l.a].Exclusive || s.pods[l.b].Exclusive {
			continue
		}
		together := sum[a].plus(sum[b])
		if !slices.ContainsFunc(room, func(r amount) bool { return together.milli <= r.milli && together.bytes <= r.bytes }) {
			continue
		}
		first, second := min(a, b), max(a, b)
		for i := range groupOf {
			if groupOf[i] == second {
				groupOf[i] = first
			}
		}
		sum[first] = together
	}
	members := map[int][]int{}
	for i := range s.pods {
		if len(s.linksOf[i]) > 0 && !s.pods[i].Exclusive {
			members[groupOf[i]] = append(members[groupOf[i]], i)
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
		if len(s.linksOf[i]) > 0 && !s.pods[i].Exclusive {
			empty.at[i] = -1 // countFree ignores a pod with links there
		}
	}
	empty.free = nil
	empty.countFree()
	for k, n := range s.numas {
		empty.free[k] = empty.free[k].minus(amount{share(n.MilliCPU, s.rules.Spare, 100),
			share(n.Bytes, s.rules.Spare, 100)})
	}
	return empty.free
}
