//go:build !upto1.36

package arrange

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

const (
	// costKey is the key of a one in the state of a pod's cycle. placementKey, with the name of a placement, is the key of
	// costs in the state of a group cycle.
	costKey      fwk.StateKey = "tenon.sh/cost"
	placementKey fwk.StateKey = "tenon.sh/costs/"
)

// one is the cost of a pod's place, and costs has that of each pod in a placement, by UID.
type (
	one   int64
	costs map[types.UID]int64
)

// Clone implements fwk.StateData.
func (c one) Clone() upstream.StateData { return c }

// Clone implements fwk.StateData.
func (c costs) Clone() upstream.StateData { return maps.Clone(c) }

// ScorePlacement returns how many pods have nodes in a placement, and keeps what their places cost.
func (p *Plugin) ScorePlacement(_ context.Context, cs upstream.PlacementCycleState, _ upstream.PodGroupInfo,
	placement *upstream.PodGroupAssignments) (int64, *fwk.Status) {
	all := costs{}
	for _, a := range placement.ProposedAssignments {
		if d, err := a.GetCycleState().Read(costKey); err == nil {
			if c, ok := d.(one); ok {
				all[a.GetPod().UID] = int64(c)
			}
		}
	}
	if group := cs.GetPodGroupSchedulingCycle(); group != nil {
		group.Write(placementKey+fwk.StateKey(placement.Name), all)
	}
	return int64(len(placement.ProposedAssignments)), nil
}

// PlacementScoreExtensions returns the plugin.
func (p *Plugin) PlacementScoreExtensions() upstream.PlacementScoreExtensions { return p }

// NormalizePlacementScore has the planner rank the placements in which most pods have nodes, and of these those with
// most pods whose places cost something. The others score 0. Placements may leave out different pods: the pods that all
// of them have are compared.
func (p *Plugin) NormalizePlacementScore(_ context.Context, group upstream.PodGroupCycleState, _ upstream.PodGroupInfo,
	scores []upstream.PlacementScore) *fwk.Status {
	of := make([]costs, len(scores))
	most, rated := int64(0), 0
	for i, s := range scores {
		if d, err := group.Read(placementKey + fwk.StateKey(s.Placement.Name)); err == nil {
			of[i], _ = d.(costs)
		}
		if s.Score > most {
			most, rated = s.Score, 0
		}
		if s.Score == most {
			rated = max(rated, len(of[i]))
		}
	}
	var at []int
	in := map[types.UID]int{} // in how many of these placements a pod is
	for i, s := range scores {
		if scores[i].Score = 0; s.Score == most && len(of[i]) == rated {
			at = append(at, i)
			for uid := range of[i] {
				in[uid]++
			}
		}
	}
	all := make([][]int64, len(at))
	for uid, n := range in {
		for k, i := range at {
			if n == len(at) {
				all[k] = append(all[k], of[i][uid])
			}
		}
	}
	for k, score := range p.planner.Rank(all) {
		scores[at[k]].Score = score
	}
	return nil
}
