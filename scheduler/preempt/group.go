package preempt

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// GroupPlugin is what the package needs of the plugin to evict pods for a group of pods.
type GroupPlugin interface {
	// Suppose makes the plugin judge as if the pods were gone for which gone is called, until back is called for them.
	// Cycles that begin before end is called book nothing.
	Suppose() (gone, back func(node, uid string), end func())
	// Node returns a node as it is supposed to be, or nil if the plugin does not judge the node.
	Node(name string) *state.Node
	// Cheapest returns, for each element of g.Closed, the cheapest units without which enough pods of a group get nodes,
	// or nil if a bounded search finds none, or if the group needs none. Pods that hold nothing exclusively are taken to
	// fit.
	Cheapest(g Group) (sets [][]int, err error)
}

// Group is the pods of a group that need nodes, with the nodes that they may have.
type Group struct {
	Pods  []*v1.Pod
	Nodes []fwk.NodeInfo
	Least int // how many of the pods have to get nodes
	// Units may be evicted. Their nodes are indices in Nodes, and Victims has their pods by UID. Budgets are as in
	// evict.Problem.
	Units   []assign.Unit
	Victims map[string]*v1.Pod
	Budgets []int
	// Closed has, for each set of nodes to which the pods may go, whether a node takes none of them. All sets share the
	// bound of one search.
	Closed []func(node int) bool
}
