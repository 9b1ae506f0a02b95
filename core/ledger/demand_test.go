package ledger

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// The place of a pod on an estimated node is only an estimate. Such a node satisfies a demand only if its kubelet would
// otherwise refuse the pod, so that no promise can be broken.
func TestAnEstimatedNodeSatisfiesOnlyEnforcedDemands(t *testing.T) {
	one, two := pod(4, 1), pod(4, 1)
	two.Containers = append(two.Containers, two.Containers[0])
	two.Containers[1].Name = "d"
	single := place.Demand{Policy: place.SingleNUMA}
	perPod := place.Demand{Policy: place.SingleNUMA, Scope: place.PerPod}
	for _, c := range []struct {
		name      string
		policy    place.Policy
		pod       *place.Pod
		demand    place.Demand
		estimated bool
		exact     bool
	}{
		{"no demand", place.BestEffort, one, place.Demand{}, true, true},
		{"enforced", place.SingleNUMA, one, single, true, true},
		{"enforced for the only container", place.SingleNUMA, one, perPod, true, true},
		{"weaker policy", place.BestEffort, one, single, false, true},
		{"restricted is not enough", place.Restricted, one, single, false, true},
		{"other scope", place.SingleNUMA, two, perPod, false, true},
	} {
		for _, q := range []state.Quality{state.Exact, state.Estimated} {
			l := layout(t)
			l.Rules.Topology.Policy = c.policy
			n := &state.Node{Quality: q, Machine: l.Machine, Rules: l.Rules, Usage: place.NewUsage(l.Machine, l.Rules)}
			want := map[state.Quality]bool{state.Exact: c.exact, state.Estimated: c.estimated}[q]
			v := n.Place(c.pod, c.demand)
			if v.Fits() != want {
				t.Errorf("%s: a node that is %s says %v %v, want %v", c.name, q, v.Fits(), v.Reasons, want)
			}
			if !v.Fits() && v.Reasons[0].Code != place.Counted {
				t.Errorf("%s: the reason is %s", c.name, v.Reasons[0].Text())
			}
		}
	}
}
