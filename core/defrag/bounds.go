package defrag

import "github.com/tenon-numa/tenon/core/state"

// Bounds are a user's bounds on the pods that may move. Pods of DaemonSets, static pods and others that cannot be
// evicted, or whose successors cannot be placed exactly, never move.
type Bounds struct {
	// Namespaces are those whose pods may move; empty: all.
	Namespaces []string
	// MaxPriority is the highest priority of a pod that may move; nil: any.
	MaxPriority *int32
	// MinSeconds is how long a pod must have run.
	MinSeconds int64
	// Bare pods may move, too: they have no controller that would create them again.
	Bare bool
	// LocalData: pods may move that keep data in an emptyDir, which is lost.
	LocalData bool
	// Pinned: each successor has to get the node that the plan gives it.
	Pinned bool
	// Keep is a pod that stays, by its namespace and name, or the zero value.
	Keep state.PodID
}

// MaxMovers bounds the pods that may move: what each of their successors wants is computed.
const MaxMovers = 10_000

// Field is what is known of the pods of a cluster that may move.
type Field struct {
	Movers  []Mover
	Budgets []int
	Gangs   []Gang
	// Closed are positions of nodes that are cordoned.
	Closed []int
	// Fixed are the other pods on nodes, without pods that end already and pods that end with their node.
	Fixed []Fixed
	// Unread: the disruption budgets are not known, so no eviction counts against any.
	Unread bool
	// Related: where pods may go depends on other pods, which may move themselves. A plan has to be confirmed without
	// the pods that move, and a cheaper one may have been missed.
	Related bool
}

// Fixed is a pod that may not move, and why: a part of a sentence that begins with "it".
type Fixed struct {
	Pod  state.PodID
	Node int // position
	Why  string
}
