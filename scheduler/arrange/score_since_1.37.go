//go:build !upto1.36

package arrange

import (
	"context"
	"slices"

	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

const (
	// costKey is the key of a one in the state of a pod's cycle. placementKey, with the name of a placement, is the key of
	// costs in the state of a group cycle.
	costKey      fwk.StateKey = "tenon.sh/cost"
	placementKey fwk.StateKey = "tenon.sh/costs/"
)

// one is the cost of a pod's place, and costs has that of each pod in a placement.
type (
	one   int64
	costs []int64
)

// Clone implements fwk.StateData.
func (c one) Clone() upstream.StateData { return c }

// Clone implements fwk.StateData.
func (c costs) Clone() upstream.StateData { return slices.Clone(c) }

// ScorePlacement returns how many pods have nodes in a placement, and keeps what their places cost.
func (p *Plugin) ScorePlacement(_ context.Context, cs upstream.PlacementCycleState, _ upstream.PodGroupInfo,
	placement *upstream.PodGroupAssignments) (int64, *fwk.Status) {
	all := costs{}
	for _, a := range placement.ProposedAssignments {
		if d, err := a.GetCycleState().Read(costKey); err == nil {
			if c, ok := d.(one); ok {
				all = append(all, int64(c))
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

// NormalizePlacementScore has the planner rank the placements in which most pods have nodes. The others score 0.
func (p *Plugin) NormalizePlacementScore(_ context.Context, group upstream.PodGroupCycleState, _ upstream.PodGroupInfo,
	scores []upstream.PlacementScore) *fwk.Status {
	most := int64(0)
	for _, s := range scores {
		most = max(most, s.Score)
	}
	var at []int
	var all [][]int64
	for i, s := range scores {
		if scores[i].Score = 0; s.Score < most {
			continue
		}
		var c costs
		if d, err := group.Read(placementKey + fwk.StateKey(s.Placement.Name)); err == nil {
			c, _ = d.(costs)
		}
		at, all = append(at, i), append(all, c)
	}
	for k, score := range p.planner.Rank(all) {
		scores[at[k]].Score = score
	}
	return nil
}
