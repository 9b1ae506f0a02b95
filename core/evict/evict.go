// Package evict chooses which pods to evict so that another one fits.
//
// The caller decides whether the pod fits ([Problem.Works]); the package computes the cost of sets of victims
// ([Cost]). Invariant: a set that [Choose] returns was found to work, and no single victim can be left out of it. The
// set costs no more than the result of kube-scheduler's method, which reprieves victims one by one, the most
// important first. If there are at most [Exhaustive] victims, it is the cheapest set of all. The package returns no
// victims if not even all of them together are enough, or if there are too many to try.
package evict

import (
	"cmp"
	"slices"
)

// Victim is a pod that may be evicted.
type Victim struct {
	Priority int32
	// Started is when the pod started, in any unit; the older of two victims has the smaller value.
	Started int64
	// Budgets are indices in Problem.Budgets: the disruption budgets that the pod's eviction counts against.
	Budgets []int
	// Size is how much of the node the pod holds, in any unit. It guides the search and has no effect on costs.
	Size int64
	// Pods is how many pods end with the victim; 0 stands for one. Each of them has the victim's priority.
	Pods int
}

// Problem is one node, and a pod that does not fit there.
type Problem struct {
	Victims []Victim
	// Budgets are the disruptions that disruption budgets still allow; at 0 or below, every eviction is a violation.
	Budgets []int
	// Groups are sets of victims, as indices, that are likely to contain enough: victims on the same NUMA nodes.
	Groups [][]int
	// Works reports whether the pod fits without these victims. gone has ascending indices, and Works must not keep it.
	// Works may be called for any set, and need not be monotone: if a set works, a larger one may not.
	Works func(gone []int) bool
}

// Cost is the cost of a set of victims; see Compare.
type Cost struct {
	// Violations counts the victims whose eviction violates a disruption budget.
	Violations int
	// Highest is the highest priority among the victims.
	Highest int32
	// Sum adds up the priorities, each as its distance above the lowest possible one, so that more victims cost more.
	Sum int64
	// Count is the number of pods.
	Count int
	// Oldest is the start of the oldest victim of the highest priority.
	Oldest int64
}

// lowest is below every priority.
const lowest = int64(-1<<31) - 1

// Compare orders costs as kube-scheduler orders nodes: fewer violations, a lower highest priority, a smaller sum of
// priorities, fewer victims, and then the younger ones. It is negative if c is the lower cost.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.Violations, d.Violations), cmp.Compare(c.Highest, d.Highest), cmp.Compare(c.Sum, d.Sum),
		cmp.Compare(c.Count, d.Count), cmp.Compare(d.Oldest, c.Oldest))
}

// Cost returns the cost of a set of victims. The most important victims use up the budgets first.
func (p *Problem) Cost(set []int) Cost {
	var c Cost
	remaining := slices.Clone(p.Budgets)
	for k, i := range p.byImportance(set) {
		v := p.Victims[i]
		violates := false
		for _, b := range v.Budgets {
			remaining[b]--
			violates = violates || remaining[b] < 0
		}
		if violates {
			c.Violations++
		}
		if k == 0 {
			c.Highest, c.Oldest = v.Priority, v.Started
		}
		c.Sum += int64(max(1, v.Pods)) * (int64(v.Priority) - lowest)
		c.Count += max(1, v.Pods)
	}
	return c
}

// byImportance returns victims, the most important first: by priority, then by age.
func (p *Problem) byImportance(set []int) []int {
	out := slices.Clone(set)
	slices.SortFunc(out, func(i, j int) int {
		a, b := p.Victims[i], p.Victims[j]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Started, b.Started), cmp.Compare(i, j))
	})
	return out
}

// violators returns the victims whose eviction would violate a budget if the whole set were evicted.
func (p *Problem) violators(set []int) map[int]bool {
	out, remaining := map[int]bool{}, slices.Clone(p.Budgets)
	for _, i := range p.byImportance(set) {
		for _, b := range p.Victims[i].Budgets {
			remaining[b]--
			if remaining[b] < 0 {
				out[i] = true
			}
		}
	}
	return out
}

// Choice is a set of victims that works.
type Choice struct {
	Set  []int // ascending
	Cost Cost
	// Cheapest: no set that works costs less.
	Cheapest bool
}

const (
	// Exhaustive is the highest number of victims for which every set that might be the cheapest is tried.
	Exhaustive = 10
	// maxTests bounds the sets that are tried for one node, besides those for reprieving victims one by one.
	maxTests = 1024
	// MaxVictims bounds the victims of one node. A kubelet runs 110 pods by default, and some 500 on the largest known
	// nodes. With more victims no pod is evicted, since reprieving them one by one calls Works once for each.
	MaxVictims = 1024
	// maxSteps bounds the total size of the sets that are queued to be tried in the order of their costs.
	maxSteps = 1 << 18
)

// Choose returns the cheapest set of victims that works. With more than Exhaustive victims it is the cheapest set
// that the search finds. The search reprieves victims one by one, in several orders, among all and within each group.
// It also tries the cheapest sets of each group. ok is false if there are no victims, if not even all are enough, or
// if there are more than MaxVictims.
func Choose(p Problem) (out Choice, ok bool) {
	all := make([]int, len(p.Victims))
	for i := range all {
		all[i] = i
	}
	s := &search{p: &p, tried: map[string]bool{}}
	if len(all) == 0 || len(all) > MaxVictims || !s.works(all) {
		return out, false
	}
	s.offer(all)
	s.reprieve(all, s.importantFirst(all))
	if len(all) <= Exhaustive {
		s.cheapest(all, 1<<Exhaustive)
		s.best.Cheapest = true
		return s.best, true
	}
	s.searchLarge(all)
	s.trim()
	return s.best, true
}

// searchLarge looks for a better set where there are too many victims (more than Exhaustive) to try all sets.
func (s *search) searchLarge(all []int) {
	s.reprieve(all, s.smallFirst(all))
	// Budgets that all victims together violate may be respected once most victims are reprieved.
	s.reprieve(all, s.p.byImportance(all))
	pools := [][]int{}
	for _, g := range s.p.Groups {
		if g = s.normalized(g); len(g) > 0 && len(g) < len(all) && s.tests < maxTests && s.works(g) {
			pools = append(pools, g)
		}
	}
	slices.SortStableFunc(pools, func(a, b []int) int { return cmp.Compare(len(a), len(b)) })
	for _, g := range pools {
		if s.tests+2*len(g) > maxTests {
			break
		}
		s.offer(g)
		s.reprieve(g, s.importantFirst(g))
		s.reprieve(g, s.smallFirst(g))
	}
	pools = append(pools, all)
	for i, g := range pools {
		s.cheapest(g, max(0, maxTests-s.tests)/(len(pools)-i))
	}
}

// normalized returns a set in ascending order, without invalid indices.
func (s *search) normalized(set []int) []int {
	out := slices.DeleteFunc(slices.Clone(set), func(i int) bool { return i < 0 || i >= len(s.p.Victims) })
	slices.Sort(out)
	return slices.Compact(out)
}
