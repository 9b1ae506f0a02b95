//go:build !upto1.36

package arrange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"

	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

const (
	// maxTries is how many plans are tried for a placement.
	maxTries = assign.SchedulerTries
	// maxPods bounds the gangs for which plans are made. A larger one is placed the usual way only.
	maxPods = assign.SchedulerPods
	// searchBudget bounds the containers that one plan places, and cycleBudget the containers that all plans of a group
	// cycle place: a topology label may have a value for each node.
	searchBudget = assign.SchedulerBudget
	cycleBudget  = assign.GangBudget
	// cycleKey is the key of a *cycle in the state of a group cycle, and roundKey that of a *round in the state of a
	// placement.
	cycleKey fwk.StateKey = "tenon.sh/gang"
	roundKey fwk.StateKey = "tenon.sh/gang-round"
)

// Plugin generates the placements of groups, and keeps the pods of a gang on the nodes of a plan.
type Plugin struct {
	usual   upstream.PlacementGeneratePlugin
	handle  fwk.Handle
	planner Planner
}

var (
	_ upstream.PlacementGeneratePlugin = (*Plugin)(nil)
	_ upstream.PlacementScorePlugin    = (*Plugin)(nil)
	_ fwk.PreFilterPlugin              = (*Plugin)(nil)
	_ fwk.FilterPlugin                 = (*Plugin)(nil)
	_ fwk.SignPlugin                   = (*Plugin)(nil)
)

// New makes the plugin of a profile. The wrapped plugin takes no arguments.
func New(ctx context.Context, obj runtime.Object, h fwk.Handle, p Planner) (fwk.Plugin, error) {
	usual, err := topologyaware.New(ctx, obj, h, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, fmt.Errorf("make plugin %s: %w", topologyaware.Name, err)
	}
	return &Plugin{usual, h, p}, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// cycle is what is known of a gang in one group cycle, which runs on one goroutine.
type cycle struct {
	gang  Gang
	least int // how many of them have to get nodes
	left  int // of cycleBudget
	// placements come from the wrapped plugin. Each is tried once the usual way, and then maxTries times with plans.
	placements []*upstream.Placement
	rounds     []*round                    // the attempts so far, in this order
	barred     map[string]sets.Set[string] // nodes that refused a pod, by its UID
}

// round is one attempt to place a gang.
type round struct {
	index        int
	seen, placed sets.Set[string] // UIDs
	planned      bool
	plan         Plan
	why          error // why there is no plan
}

// Clone implements fwk.StateData.
func (c *cycle) Clone() upstream.StateData { return c }

// Clone implements fwk.StateData.
func (r *round) Clone() upstream.StateData { return r }

func newCycle(gang Gang, least int, placements []*upstream.Placement) *cycle {
	c := &cycle{gang: gang, least: least, left: cycleBudget, placements: slices.Clone(placements),
		barred: map[string]sets.Set[string]{}}
	slices.SortStableFunc(c.placements, func(a, b *upstream.Placement) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// GeneratePlacements returns the placements of the wrapped plugin, each of a gang's several times.
func (p *Plugin) GeneratePlacements(ctx context.Context, cs upstream.PodGroupCycleState, group upstream.PodGroupInfo,
	parent *upstream.Placement) (*upstream.GeneratePlacementsResult, *fwk.Status) {
	out, status := p.usual.GeneratePlacements(ctx, cs, group, parent)
	g := group.GetPodGroup()
	// kube-scheduler tries the groups of a composite group (alpha) anew for each placement of it, which nothing bounds.
	if !status.IsSuccess() || out == nil || g == nil || g.Spec.SchedulingPolicy.Gang == nil ||
		g.Spec.ParentCompositePodGroupName != nil {
		return out, status
	}
	state, err := p.handle.SnapshotSharedLister().PodGroupStates().Get(group.GetNamespace(), group.GetName())
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("read the pods of group %s: %w", group.GetKey(), err))
	}
	least, pods := int(g.Spec.SchedulingPolicy.Gang.MinCount)-state.ScheduledPodsCount(), group.GetUnscheduledPods()
	if least < 2 || len(pods) > maxPods {
		return out, nil
	}
	c := newCycle(p.planner.Gang(pods), least, out.Placements)
	if c.gang == nil {
		return out, nil
	}
	cs.Write(cycleKey, c)
	again := &upstream.GeneratePlacementsResult{}
	for _, l := range c.placements {
		again.Placements = append(again.Placements, l)
		for i := range maxTries {
			again.Placements = append(again.Placements,
				&upstream.Placement{Name: fmt.Sprintf("%s plan %d", l.Name, i+1), Nodes: l.Nodes})
		}
	}
	return again, nil
}

// PreFilter leaves a pod the node of its plan. Other pods it skips.
func (p *Plugin) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (
	*fwk.PreFilterResult, *fwk.Status) {
	c, r := roundOf(cs)
	if r == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	uid := string(pod.UID)
	r.seen.Insert(uid)
	if r.index%(maxTries+1) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if !r.planned {
		r.planned = true
		if r.plan, r.why = c.plan(r); r.why != nil {
			klog.FromContext(ctx).V(2).Info("No plan for the nodes of a gang", "pod", klog.KObj(pod), "why", r.why.Error())
		}
	}
	node, has := r.plan.At[uid]
	switch {
	case r.why != nil: // with this code, no other plugin is asked
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.why.Error())
	case r.plan.Out[uid]:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "left out, so that others of its gang fit")
	case has:
		return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions returns nil: a plan does not depend on single pods of a node.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses every node but the planned one: kube-scheduler first tries the node to which a pod is nominated,
// whatever PreFilter names.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	_, r := roundOf(cs)
	if r == nil {
		return nil
	}
	if node, has := r.plan.At[string(pod.UID)]; has && node != info.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another node is planned for the pod")
	}
	return nil
}

// SignPod signs nothing: pods that a plan concerns are not batched, because the plugin that books them refuses to sign
// them.
func (p *Plugin) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

var (
	errPlaced = errors.New("the gang has nodes without a plan")
	errSame   = errors.New("no other plan")
	errSpent  = errors.New("the search for nodes for all pods of the gang took too long")
)

// plan makes the plan of a round, unless an earlier round of the same placement has placed the gang, or has shown that
// there is no plan.
func (c *cycle) plan(r *round) (Plan, error) {
	which := r.index / (maxTries + 1)
	if which >= len(c.placements) {
		return Plan{}, errSame
	}
	earlier := c.rounds[which*(maxTries+1) : r.index]
	learned := len(earlier) == 1
	for _, e := range earlier {
		switch {
		case e.why != nil:
			return Plan{}, e.why
		case e.placed.Len() >= c.least:
			return Plan{}, errPlaced
		}
		for uid, node := range e.plan.At {
			if e.seen.Has(uid) && !e.placed.Has(uid) && !c.barred[uid].Has(node) {
				learned = true
				if c.barred[uid] == nil {
					c.barred[uid] = sets.New[string]()
				}
				c.barred[uid].Insert(node)
			}
		}
	}
	if !learned {
		return Plan{}, errSame
	}
	budget := min(searchBudget, c.left)
	if budget <= 0 {
		return Plan{}, errSpent
	}
	out, left, err := c.gang.Plan(c.placements[which].Nodes, c.least, budget,
		func(uid, node string) bool { return c.barred[uid].Has(node) })
	c.left -= budget - left
	return out, err
}

// roundOf returns the attempt to place a gang that a pod's cycle belongs to, or nil. The first pod of an attempt begins
// it.
func roundOf(cs fwk.CycleState) (*cycle, *round) {
	if !cs.IsPodGroupSchedulingCycle() {
		return nil, nil
	}
	group, placement := cs.GetPodGroupSchedulingCycle(), cs.GetPlacementCycleState()
	if group == nil || placement == nil {
		return nil, nil
	}
	d, err := group.Read(cycleKey)
	c, ok := d.(*cycle)
	if err != nil || !ok {
		return nil, nil
	}
	if d, err := placement.Read(roundKey); err == nil {
		if r, ok := d.(*round); ok {
			return c, r
		}
	}
	r := &round{index: len(c.rounds), seen: sets.New[string](), placed: sets.New[string]()}
	c.rounds = append(c.rounds, r)
	placement.Write(roundKey, r)
	return c, r
}

// Planned reports whether a cycle belongs to an attempt in which the nodes of pods are planned.
func Planned(cs fwk.CycleState) bool {
	_, r := roundOf(cs)
	return r != nil && r.index%(maxTries+1) != 0
}

// Placed records that a pod was reserved. The plugin that books what pods hold has to call it. Within a group cycle,
// Placed calls cost for the cost of the pod's place; a nil cost is none.
func Placed(cs fwk.CycleState, uid string, cost func() int64) {
	if _, r := roundOf(cs); r != nil {
		r.placed.Insert(uid)
	}
	if cost != nil && cs.IsPodGroupSchedulingCycle() {
		cs.Write(costKey, one(cost()))
	}
}
