// Package score decides which of several nodes is the best one for a pod. For each node it uses the node's usage, the
// pod, and the pod's verdict there, which has the holdings that the node would give.
//
// Invariant: a cost is an integer that depends only on the arguments, and computing it allocates nothing; lower is
// better. The package does not guess NUMA nodes: it scores those in the verdict, whatever the node's policy is.
package score

import (
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Type is the kind of a strategy.
type Type int

// The types. All but the first and the last have the names, the formulas and the scale of scheduler-plugins
// (pkg/noderesourcetopology). A comment at each formula lists differences and their reasons.
const (
	Tenon              Type = iota // fewest NUMA nodes, then least waste; see tenon.go
	LeastAllocated                 // as much as possible of the pod's NUMA nodes left free; see shares.go
	MostAllocated                  // as little as possible of the pod's NUMA nodes left free
	BalancedAllocation             // equal parts taken of all their resources
	LeastNUMANodes                 // fewest NUMA nodes, the closest ones; see numas.go
	UnionSpan                      // fewest NUMA nodes over CPUs and devices together; see union.go
)

var names = [...]string{"Tenon", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes", "UnionSpan"}

// String returns the name of the type, as in arguments and annotations.
func (t Type) String() string { return names[t] }

// ParseType reads the name of a type. The second result is false for an unknown name.
func ParseType(s string) (Type, bool) {
	i := slices.Index(names[:], s)
	return Type(max(i, 0)), i >= 0
}

// Names returns the names of all types, [Tenon] first.
func Names() []string { return slices.Clone(names[:]) }

// Max is the best score of a node; the worst is 0.
const Max = 100

// MaxWeight bounds the weight of a resource. The sum over all resources of a machine, times [Max], stays within 64
// bits.
const MaxWeight = 1 << 31

// Weight is the weight of a resource in LeastAllocated and MostAllocated.
type Weight struct {
	Resource string // "cpu", a memory kind, or a resource with devices
	Weight   int64  // 1..MaxWeight; values outside count as the nearer end
}

// Strategy is how nodes are scored. The zero Strategy is Tenon's own.
type Strategy struct {
	Type Type
	// Weights are for LeastAllocated and MostAllocated. A resource without a weight has weight 1; if it is named
	// twice, the last weight counts. The other types have no weights.
	Weights []Weight
	// Mix is the workload profile, for type Tenon. If it is nil or empty, only the unseen pod counts in the
	// fragmentation cost.
	Mix *Mix
}

// weight returns the weight of a resource. It is never 0, so a sum of weights is 0 only if there are no resources:
// scheduler-plugins divides by that sum, and panics for pods whose containers have no requests of their own
// (spec.resources).
func (s Strategy) weight(resource string) int64 {
	for i := len(s.Weights) - 1; i >= 0; i-- {
		if s.Weights[i].Resource == resource {
			return min(max(s.Weights[i].Weight, 1), MaxWeight)
		}
	}
	return 1
}

// Cost returns the cost of placing the pod as the verdict decides; lower is better. estimated means that the usage
// was inferred from amounts. Such a node costs more, so that an otherwise equal exact node is preferred.
func (s Strategy) Cost(u *place.Usage, p *place.Pod, v place.Verdict, estimated bool) int64 {
	switch s.Type {
	case LeastNUMANodes:
		return Max - upstream(fewest(u, v), estimated)
	case UnionSpan:
		return Max - upstream(union(u, v), estimated)
	case LeastAllocated, MostAllocated, BalancedAllocation:
		return Max - upstream(s.share(u, v), estimated)
	}
	cost := tenonCost(u, p, v, s.Mix)
	if estimated {
		cost += costEstimated
	}
	return cost
}

// Outlines reports whether CostOf computes the costs of the strategy.
func (s Strategy) Outlines() bool { return s.Type == Tenon }

// CostOf is Cost for a pod whose verdict is known in amounts. s.Outlines() must be true.
func (s Strategy) CostOf(u *place.Usage, p *place.Pod, o place.Outline, estimated bool) int64 {
	cost := outlineCost(u, p, o, s.Mix)
	if estimated {
		cost += costEstimated
	}
	return cost
}

// leastScore is the least score in the strategies of scheduler-plugins for a node that aligns something for the pod.
// An estimated node scores one less, which is still above nodes that align nothing.
const leastScore = 2

// upstream subtracts a point from a score of scheduler-plugins' strategies if the node is estimated. Of two otherwise
// equal nodes, the exact one is then chosen.
func upstream(score int64, estimated bool) int64 {
	if estimated && score > 0 {
		return score - 1
	}
	return score
}

// Wait returns what to add to the cost of a node on which the pod may have to wait before it is bound. The argument
// pods is the number of pods that it may have to wait for. waiting is the number of those pods that wait themselves;
// the pod certainly waits behind these. The pod also makes later pods wait. So while many pods come, the added cost
// sends pods of different kinds to different nodes, or equally many pods to each node if there are too few. NUMA
// nodes, distance and devices count more than that.
func (s Strategy) Wait(pods, waiting int) int64 {
	switch {
	case s.Type == Tenon:
		return costWait * grade(pods+costWaiting*waiting)
	case pods > 0:
		return Max / 10
	}
	return 0
}

// grade returns n itself up to 4. From there, the result grows by two for each doubling of n, up to maxWait.
func grade(n int) int64 {
	if n <= 4 {
		return int64(n)
	}
	length := bits.Len(uint(n))
	return int64(min(2*(length-1)+n>>(length-2)&1, maxWait))
}

// Unknown returns the cost of a node without any report; no node costs more.
func (s Strategy) Unknown() int64 {
	if s.Type == Tenon {
		return costUnknown
	}
	return Max
}

// next returns the lowest position of a mask, and the mask without it.
func next(m topo.Mask) (int, topo.Mask) { return m.First(), m & (m - 1) }
