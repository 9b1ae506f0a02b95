//go:build !upto1.36

package arrange

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// planner plans every pod onto the first of its nodes that is not barred. Each plan places so many containers.
type planner struct {
	nodes  []string
	plans  int
	places int
	budget []int // of the plans
	why    error
	pods   []*v1.Pod
}

func (p *planner) Gang(pods []*v1.Pod) Gang {
	p.pods = pods
	return p
}

// Rank scores a placement by the costs of its pods.
func (p *planner) Rank(all [][]int64) (out []int64) {
	for _, costs := range all {
		sum := int64(0)
		for _, c := range costs {
			sum += c
		}
		out = append(out, 100-sum)
	}
	return out
}

// assigned is a pod that has a node in a placement.
type assigned struct {
	upstream.ProposedAssignment
	pod   *v1.Pod
	state *framework.CycleState
}

func (a assigned) GetPod() *v1.Pod { return a.pod }

func (a assigned) GetCycleState() fwk.CycleState { return a.state }

// The costs of pods decide between placements, where the most pods of the group have nodes. A placement does not win by
// leaving out a pod that costs something, nor by leaving out the dearest.
func TestPlacementsAreScored(t *testing.T) {
	p, group := &Plugin{planner: &planner{}}, framework.NewCycleState()
	const none = -2 // the pod has no node; with -1, it has one, and no cost
	var scores []upstream.PlacementScore
	for name, costs := range map[string][]int64{"dear": {10, 20, 30, none}, "cheap": {1, 1, none, 50},
		"plain": {5, -1, -1, none}, "few": {1, 1, none, none}} {
		placement := framework.NewCycleState()
		placement.SetPodGroupSchedulingCycle(group)
		a := &upstream.PodGroupAssignments{Placement: &upstream.Placement{Name: name}}
		for i, c := range costs {
			if c == none {
				continue
			}
			cs := framework.NewCycleState()
			cs.SetPodGroupSchedulingCycle(group)
			cs.SetPlacementCycleState(placement)
			cost := func() int64 { return c }
			if c < 0 {
				cost = nil
			}
			Placed(cs, fmt.Sprint(i), cost)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}
			a.ProposedAssignments = append(a.ProposedAssignments, assigned{pod: pod, state: cs})
		}
		n, status := p.ScorePlacement(t.Context(), placement, nil, a)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		scores = append(scores, upstream.PlacementScore{Placement: a.Placement, Score: n})
	}
	if status := p.NormalizePlacementScore(t.Context(), group, nil, scores); !status.IsSuccess() {
		t.Fatal(status)
	}
	want := map[string]int64{"dear": 70, "cheap": 98, "plain": 0, "few": 0} // by pods 0 and 1
	for _, s := range scores {
		if s.Score != want[s.Placement.Name] {
			t.Errorf("%s scores %d, want %d", s.Placement.Name, s.Score, want[s.Placement.Name])
		}
	}
}

func (p *planner) Plan(_ []fwk.NodeInfo, _, budget int, barred func(uid, node string) bool) (Plan, int, error) {
	p.plans, p.budget = p.plans+1, append(p.budget, budget)
	left := budget - p.places
	if p.why != nil {
		return Plan{}, left, p.why
	}
	out := Plan{At: map[string]string{}}
	for _, pod := range p.pods {
		for _, n := range p.nodes {
			if !barred(string(pod.UID), n) {
				out.At[string(pod.UID)] = n
				break
			}
		}
	}
	return out, left, nil
}

// attempt runs PreFilter for the pods of a gang as a group cycle does for one placement. refuses reports whether a pod
// gets no node; named is the node that PreFilter has left it, or "". It returns how many pods got nodes.
func attempt(p *Plugin, group *framework.CycleState, pods []*v1.Pod,
	refuses func(pod, named string) bool) (placed int) {
	placement := framework.NewCycleState()
	placement.SetPodGroupSchedulingCycle(group)
	for _, pod := range pods {
		cs := framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(group)
		cs.SetPlacementCycleState(placement)
		result, status := p.PreFilter(context.Background(), cs, pod, nil)
		named := ""
		if result != nil {
			named = sets.List(result.NodeNames)[0]
		}
		if status.IsRejected() || refuses(pod.Name, named) {
			return placed
		}
		Placed(cs, string(pod.UID), nil)
		placed++
	}
	return placed
}

// gang begins a group cycle of n pods that may go to some placements.
func gang(p *Plugin, n int, names ...string) (*framework.CycleState, []*v1.Pod) {
	var pods []*v1.Pod
	for i := range n {
		name := fmt.Sprint("p", i)
		pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}})
	}
	group := framework.NewCycleState()
	var placements []*upstream.Placement
	for _, name := range names {
		placements = append(placements, &upstream.Placement{Name: name})
	}
	group.Write(cycleKey, newCycle(p.planner.Gang(pods), n, placements))
	return group, pods
}

func never(string, string) bool { return false }

// A gang that got nodes in one placement is planned for the other placement only.
func TestAGangWithNodesIsNotPlanned(t *testing.T) {
	plans := &planner{nodes: []string{"a"}}
	p := &Plugin{planner: plans}
	group, pods := gang(p, 3, "one", "two")
	if n := attempt(p, group, pods, never); n != 3 || plans.plans != 0 {
		t.Fatalf("the usual way places %d pods and makes %d plans", n, plans.plans)
	}
	for range maxTries {
		if n := attempt(p, group, pods, never); n != 0 || plans.plans != 0 {
			t.Errorf("%d pods are placed again, with %d plans", n, plans.plans)
		}
	}
	attempt(p, group, pods, func(pod, _ string) bool { return pod == "p2" })
	if n := attempt(p, group, pods, never); n != 3 || plans.plans != 1 {
		t.Errorf("in the second placement %d pods are placed, after %d plans", n, plans.plans)
	}
}

// A node that a plugin refuses is planned for that pod no more.
func TestARefusedNodeIsPlannedNoMore(t *testing.T) {
	plans := &planner{nodes: []string{"a", "b", "c"}}
	p := &Plugin{planner: plans}
	group, pods := gang(p, 3, "one", "two")
	refuses := func(pod, named string) bool { return pod == "p1" && named != "c" }
	got := []int{}
	for range 1 + maxTries {
		got = append(got, attempt(p, group, pods, refuses))
	}
	if fmt.Sprint(got) != "[1 1 1 3]" || plans.plans != 3 {
		t.Errorf("%v pods are placed, with %d plans", got, plans.plans)
	}
}

// Without a plan, no further one is made for the placement.
func TestAGangWithoutAPlanIsNotTriedAgain(t *testing.T) {
	plans := &planner{why: errors.New("no nodes")}
	p := &Plugin{planner: plans}
	group, pods := gang(p, 2, "one", "two")
	for range 1 + maxTries {
		if n := attempt(p, group, pods, func(pod, _ string) bool { return pod == "p1" }); n > 1 {
			t.Errorf("%d pods are placed", n)
		}
	}
	if plans.plans != 1 {
		t.Errorf("%d plans are made", plans.plans)
	}
}

// However many racks there are, all plans of a group cycle together place a bounded number of containers. A topology
// label may have a value for each node, and the search of each of them would hold up all other pods.
func TestTheSearchesOfACycleHaveOneBound(t *testing.T) {
	plans := &planner{nodes: []string{"a"}, places: searchBudget - 1}
	p := &Plugin{planner: plans}
	var racks []string
	for i := range 100 {
		racks = append(racks, fmt.Sprintf("rack %03d", i))
	}
	group, pods := gang(p, 2, racks...)
	for range racks {
		for range 1 + maxTries {
			attempt(p, group, pods, func(pod, _ string) bool { return pod == "p1" })
		}
	}
	sum := 0
	for _, b := range plans.budget {
		if sum += min(b, plans.places); b > searchBudget {
			t.Errorf("a plan may place %d containers", b)
		}
	}
	if sum < cycleBudget-searchBudget || sum > cycleBudget+searchBudget {
		t.Errorf("%d plans for %d racks place %d containers, and the bound is %d", plans.plans, len(racks), sum, cycleBudget)
	}
}

// Pods outside a group cycle are skipped.
func TestOtherPodsAreSkipped(t *testing.T) {
	p := &Plugin{planner: &planner{}}
	_, pods := gang(p, 1, "one", "two")
	result, status := p.PreFilter(t.Context(), framework.NewCycleState(), pods[0], nil)
	if result != nil || !status.IsSkip() {
		t.Errorf("PreFilter returns %v, %v", result, status)
	}
}
