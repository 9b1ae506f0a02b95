// Package arrange makes kube-scheduler try again to place a gang, with a node of its own choice for each pod.
//
// The group cycle takes the pods of a gang in a fixed order, and for each of them the best node at that moment. For
// unequal pods it finds no placement in many cases in which there is one. The package wraps the plugin of
// kube-scheduler that generates placements (TopologyPlacementGenerator), and has each placement tried again if too few
// pods of the gang got nodes there. Then a [Planner] finds where each pod goes, and PreFilter leaves it that node only.
//
// Invariant: where the usual way places the gang, nothing else is tried. Every other attempt passes all plugins of the
// profile: a planned node that one of them refuses is planned for that pod no more. The package gives up after maxTries
// plans for a placement, and once the plans of a group cycle have placed cycleBudget containers. Of several placements
// in which most pods of a group have nodes, the best one by their costs scores highest. The package makes no plans for
// composite groups and for groups without a gang's policy, and does nothing before 1.37.
package arrange

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Name is the name of the plugin in profiles. A profile that enables it has to disable TopologyPlacementGenerator.
const Name = config.TenonGroups

// Planner finds nodes for the pods of gangs.
type Planner interface {
	// Gang returns what plans the nodes of a gang within one group cycle. It is nil if no plan finds nodes where
	// kube-scheduler finds none: if all pods are judged alike, and are not related to each other.
	Gang(pods []*v1.Pod) Gang
	// Rank returns a score of 0 to 100 for each placement of a group. costs has, by placement, the costs of the same pods
	// as they were reported to Placed, in any order.
	Rank(costs [][]int64) []int64
}

// Gang plans the nodes of one gang.
type Gang interface {
	// Plan finds nodes among the given ones for at least least of the pods, which are admitted in their order. It uses no
	// node for a pod, and for pods like it, for which barred returns true. It places at most budget containers, and left
	// is how many of these are left. The error is why there is no plan.
	Plan(nodes []fwk.NodeInfo, least, budget int, barred func(uid, node string) bool) (out Plan, left int, err error)
}

// Plan has the nodes of pods.
type Plan struct {
	// At has the node of each pod for which one was found, by UID. Out has the pods that are left out. Pods in neither
	// may have any node.
	At  map[string]string
	Out map[string]bool
}
