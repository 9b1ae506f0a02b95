// Package score says which of several nodes is the better one for a pod, from where the pod would be on
// each: a usage, the pod, and its verdict, which has the very holdings that the node would give.
//
// Invariant: a cost is an integer that depends on nothing but its arguments and costs no allocation;
// lower is better. The package refuses to guess NUMA nodes: it scores those that the verdict names, whatever
// the node's policy is called, and no others.
package score

import (
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Type is the kind of a strategy.
type Type int

// The types. All but the first have the names, the formulas and the scale of scheduler-plugins
// (pkg/noderesourcetopology); where they differ from it, a comment at the formula says why.
const (
	Tenon              Type = iota // fewest NUMA nodes, then least waste; see tenon.go
	LeastAllocated                 // most of the pod's NUMA nodes left free; see shares.go
	MostAllocated                  // least of them left free
	BalancedAllocation             // resources of them taken in equal parts
	LeastNUMANodes                 // fewest NUMA nodes, the closest ones; see numas.go
)

var names = [...]string{"Tenon", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"}

// String returns the name of the type, as arguments and annotations have it.
func (t Type) String() string { return names[t] }

// ParseType reads the name of a type.
func ParseType(s string) (Type, bool) {
	i := slices.Index(names[:], s)
	return Type(max(i, 0)), i >= 0
}

// Names returns the names of all types, [Tenon] first.
func Names() []string { return slices.Clone(names[:]) }

// Max is the best score that a node can have; the worst is 0.
const Max = 100

// MaxWeight bounds the weight of a resource: the sum over all resources of a machine, times [Max], stays
// within 64 bits.
const MaxWeight = 1 << 31

// Weight is what a resource counts in LeastAllocated and MostAllocated.
type Weight struct {
	Resource string // "cpu", a memory kind, or a resource with devices
	Weight   int64  // 1..MaxWeight; what is below or above counts as the nearer end
}

// Strategy is how nodes are scored. The zero Strategy is Tenon's own.
type Strategy struct {
	Type Type
	// Weights are of LeastAllocated and MostAllocated; a resource that is not named weighs 1, one that is
	// named twice what is said last. The other types have no weights.
	Weights []Weight
	// Mix is what the cluster usually runs, for Tenon's own way. Where it is nil or empty, nothing is known
	// of that, and a placement does no damage.
	Mix *Mix
}

// weight returns the weight of a resource. It is never 0, so a sum of weights is 0 only where there are
// no resources: scheduler-plugins divides by that sum, and panics for pods whose containers ask for
// nothing by themselves (spec.resources).
func (s Strategy) weight(resource string) int64 {
	for i := len(s.Weights) - 1; i >= 0; i-- {
		if s.Weights[i].Resource == resource {
			return min(max(s.Weights[i].Weight, 1), MaxWeight)
		}
	}
	return 1
}

// Cost returns what it costs to have the pod where the verdict of the usage puts it. Coarse says that
// the usage was inferred from amounts.
func (s Strategy) Cost(u *place.Usage, p *place.Pod, v place.Verdict, coarse bool) int64 {
	switch s.Type {
	case LeastNUMANodes:
		return Max - upstream(fewest(u, v), coarse)
	case LeastAllocated, MostAllocated, BalancedAllocation:
		return Max - upstream(s.share(u, v), coarse)
	}
	cost := own(u, p, v, s.Mix)
	if coarse {
		cost += costCoarse
	}
	return cost
}

// leastScore is the least that the strategies of scheduler-plugins give to a node that aligns something for
// the pod: one that is known coarsely scores one less, and is still above those that align nothing.
const leastScore = 2

// upstream takes a point from a score of scheduler-plugins' strategies where the node is known coarsely, so
// that of two nodes that are otherwise equal the exact one is taken.
func upstream(score int64, coarse bool) int64 {
	if coarse && score > 0 {
		return score - 1
	}
	return score
}

// Wait is what is added to the cost of a node on which the pod may have to wait for so many pods before it is bound,
// some of which wait themselves: behind those it surely waits. It keeps whoever comes after it waiting, too. So while
// many pods come, it is better that each kind of them goes to nodes of its own, and where there are not enough, that
// these have equally many. NUMA nodes, distance and devices are not given up for that.
func (s Strategy) Wait(pods, waiting int) int64 {
	switch {
	case s.Type == Tenon:
		return costWait * grade(pods+costWaiting*waiting)
	case pods > 0:
		return Max / 10
	}
	return 0
}

// grade is n itself up to 4, and has two steps for each doubling from there, up to maxWait.
func grade(n int) int64 {
	if n <= 4 {
		return int64(n)
	}
	length := bits.Len(uint(n))
	return int64(min(2*(length-1)+n>>(length-2)&1, maxWait))
}

// Unknown returns the cost of a node of which nothing is known; no node costs more.
func (s Strategy) Unknown() int64 {
	if s.Type == Tenon {
		return costUnknown
	}
	return Max
}

// next takes the lowest position out of a mask.
func next(m topo.Mask) (int, topo.Mask) { return m.First(), m & (m - 1) }
