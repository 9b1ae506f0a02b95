//go:build !upto1.36

package preempt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file evicts pods so that a whole group fits. The cheapest pods over all nodes are chosen, and kube-scheduler's
// evaluator (PodGroupEvaluator, pkg/scheduler/framework/preemption of 1.37) gets no others to choose from. It runs the
// group cycle without them, spares the pods that are not needed, and evicts the rest. If the group does not fit then,
// or if no pods were chosen, the evaluator chooses among all pods that may be evicted.

// PodGroupPostFilter evicts pods so that a group fits. For composite groups, and for groups whose pods hold nothing
// exclusively, kube-scheduler does it alone.
func (pre *Preemption) PodGroupPostFilter(ctx context.Context, cs upstream.PodGroupCycleState,
	group upstream.PodGroupInfo, schedule upstream.PodGroupSchedulingFunc) (
	result *upstream.PodGroupPostFilterResult, status *fwk.Status) {
	plugin, ok := pre.plugin.(GroupPlugin)
	g := group.GetPodGroup()
	if !ok || pre.KeepVictims || g == nil || !slices.ContainsFunc(group.GetUnscheduledPods(), holds) {
		return pre.upstream.PodGroupPostFilter(ctx, cs, group, schedule)
	}
	defer func() { metrics.WorkloadPreemptionAttempts.WithLabelValues(status.Code().String()).Inc() }()
	if never(g, group.GetUnscheduledPods()) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption for the group: not eligible due to preemptionPolicy=Never.")
	}
	snapshot := pre.Handle.MutableSnapshotSharedLister()
	if err := snapshot.StartMutations(); err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("preempt for group %s: %w", group.GetKey(), err))
	}
	l := &lister{MutableSnapshotSharedLister: snapshot, away: map[types.UID]*v1.Pod{}}
	var end func()
	l.gone, l.back, end = plugin.Suppose()
	defer func() {
		end()
		if err := snapshot.EndMutations(); err != nil {
			status = fwk.AsStatus(fmt.Errorf("preempt for group %s: %w", group.GetKey(), err))
		}
	}()
	a := &groupAttempt{pre: pre, plugin: plugin, info: group, group: g, lister: l}
	if result, status = a.preempt(ctx, schedule); status.IsSuccess() {
		a.doubted = nil
	}
	if since := pre.waits.note(string(g.UID), a.doubted, pre.now()); len(a.doubted) > 0 {
		pre.retry(group.GetUnscheduledPods()[0], since) // the queue has the pods of a group as one
	}
	if text := status.Message(); text != "" {
		status = fwk.NewStatus(status.Code(), "preemption for the group: "+text)
	}
	return result, status
}

// never reports whether the policy of a group, or of one of its pods, keeps it from evicting others. kube-scheduler's
// evaluator would refuse it too, but only after the search for victims.
func never(g *schedulingv1beta1.PodGroup, pods []*v1.Pod) bool {
	if utilfeature.DefaultFeatureGate.Enabled(features.PodGroupPreemptionPolicy) {
		return g.Spec.PreemptionPolicy != nil && *g.Spec.PreemptionPolicy == schedulingv1beta1.PreemptNever
	}
	return slices.ContainsFunc(pods, func(p *v1.Pod) bool {
		return p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever
	})
}

// holds reports whether a pod would hold something exclusively.
func holds(p *v1.Pod) bool {
	cp, err := pod.ToPlace(p)
	return err == nil && !cp.Plain()
}

// groupAttempt is one attempt to evict pods for a group.
type groupAttempt struct {
	pre    *Preemption
	plugin GroupPlugin
	info   upstream.PodGroupInfo
	group  *schedulingv1beta1.PodGroup
	lister *lister
	// doubted has the nodes whose pods were passed over because their next report may change what fits.
	doubted []string
}

func (a *groupAttempt) preempt(ctx context.Context, schedule upstream.PodGroupSchedulingFunc) (
	*upstream.PodGroupPostFilterResult, *fwk.Status) {
	nodes, err := a.lister.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("list nodes: %w", err))
	}
	if a.isEvicting(nodes) {
		nominated := map[types.NamespacedName]*upstream.NominatingInfo{}
		for _, p := range a.info.GetUnscheduledPods() {
			nominated[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = &upstream.NominatingInfo{
				NominatingMode: upstream.ModeOverride, NominatedNodeName: p.Status.NominatedNodeName}
		}
		return &upstream.PodGroupPostFilterResult{NominatingInfos: nominated},
			fwk.NewStatus(fwk.Success, "pods that it evicted are leaving")
	}
	units, victims := a.units(nodes)
	if len(units) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "no pods of lower priority to evict")
	}
	if wait, status := a.awaitLeaving(ctx, nodes, schedule); wait || !status.IsSuccess() {
		return nil, status
	}
	few, err := a.cheapest(nodes, units, victims)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	all := map[types.UID]bool{}
	for _, u := range units {
		for _, h := range u.Pods {
			all[types.UID(h.UID)] = true
		}
	}
	e := preemption.NewPodGroupEvaluator(handle{a.pre.Handle, a.lister}, a.pre.upstream.Executor,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if len(few) > 0 {
		a.lister.offer(few)
		if result, status := e.Preempt(ctx, a.info, schedule); !status.IsRejected() {
			return result, status
		}
		if err := a.lister.restore(); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	a.lister.offer(all)
	return e.Preempt(ctx, a.info, schedule)
}

// isEvicting reports whether victims of the group are still leaving a node to which one of its pods is nominated.
func (a *groupAttempt) isEvicting(nodes []fwk.NodeInfo) bool {
	nominated := map[string]bool{}
	for _, p := range a.info.GetUnscheduledPods() {
		nominated[p.Status.NominatedNodeName] = true
	}
	return slices.ContainsFunc(nodes, func(info fwk.NodeInfo) bool {
		return nominated[info.Node().Name] && slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool {
			return a.isLower(p.GetPod()) && preemption.PodTerminatingByPreemption(p.GetPod())
		})
	})
}

func (a *groupAttempt) isLower(p *v1.Pod) bool {
	return preemption.GetPodPriority(p, a.lister.PodGroups(), nil) < schedutil.PodGroupPriority(a.group)
}

// isComposite reports whether a pod belongs to a composite group (alpha). Such pods are not evicted.
func (a *groupAttempt) isComposite(p *v1.Pod) bool {
	g := a.groupOf(p)
	return g != nil && g.Spec.ParentCompositePodGroupName != nil
}

// awaitLeaving removes the pods that will be gone soon. wait is true if the group fits then, so that no pod has to be
// evicted.
func (a *groupAttempt) awaitLeaving(ctx context.Context, nodes []fwk.NodeInfo,
	schedule upstream.PodGroupSchedulingFunc) (wait bool, status *fwk.Status) {
	some := false
	for _, info := range nodes {
		for _, p := range slices.Clone(info.GetPods()) {
			if a.pre.isLeaving(p) {
				some = true
				if err := a.lister.RemovePod(klog.FromContext(ctx), p.GetPod(), info.Node().Name); err != nil {
					return false, fwk.AsStatus(fmt.Errorf("remove pod %s: %w", klog.KObj(p.GetPod()), err))
				}
			}
		}
	}
	if !some {
		return false, nil
	}
	_, status = schedule(ctx)
	switch {
	case status.IsSuccess():
		return true, fwk.NewStatus(fwk.Unschedulable, "evicts no pod: it fits once pods that are being deleted have gone")
	case status.Code() == fwk.Error:
		return false, status
	}
	return false, nil
}

// units returns the pods that may be evicted, by what has to end together, and these pods by UID. Pods on nodes whose
// holdings are not known stay, and so do their groups.
func (a *groupAttempt) units(nodes []fwk.NodeInfo) (units []assign.Unit, victims map[string]*v1.Pod) {
	victims = map[string]*v1.Pod{}
	at := map[string]int{} // the unit of a group
	stays := map[string]bool{}
	for i, info := range nodes {
		for _, x := range info.GetPods() {
			p := x.GetPod()
			isPartner := func(q *v1.Pod) bool { return partners(p, q) }
			if !a.isLower(p) || slices.ContainsFunc(a.info.GetUnscheduledPods(), isPartner) ||
				p.DeletionTimestamp != nil || a.isComposite(p) {
				continue
			}
			key := a.together(p)
			n := a.plugin.Node(info.Node().Name)
			if n == nil || doubtful(n, info) != "" {
				stays[key] = key != ""
				if n != nil && !n.Silent && !slices.Contains(a.doubted, n.Name) {
					a.doubted = append(a.doubted, n.Name)
				}
				continue
			}
			victims[string(p.UID)] = p
			held := assign.Held{Node: i, UID: string(p.UID)}
			k, known := at[key]
			if known && key != "" {
				units[k].Pods = append(units[k].Pods, held)
				units[k].Victim.Pods++
				units[k].Started = min(units[k].Started, started(p))
				continue
			}
			at[key] = len(units)
			units = append(units, assign.Unit{Pods: []assign.Held{held}, Victim: evict.Victim{Pods: 1, Started: started(p),
				Priority: preemption.GetPodPriority(p, a.lister.PodGroups(), nil)}})
		}
	}
	return slices.DeleteFunc(units, func(u assign.Unit) bool { return stays[a.together(victims[u.Pods[0].UID])] }), victims
}

// together returns a key of the pods that end together with a pod, or "".
func (a *groupAttempt) together(p *v1.Pod) string {
	g := a.groupOf(p)
	if g == nil || g.Spec.DisruptionMode == nil || g.Spec.DisruptionMode.All == nil {
		return ""
	}
	return g.Namespace + "/" + g.Name
}

// groupOf returns the group of a pod, or nil.
func (a *groupAttempt) groupOf(p *v1.Pod) *schedulingv1beta1.PodGroup {
	if p.Spec.SchedulingGroup == nil || p.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	g, err := a.lister.PodGroups().Get(p.Namespace, *p.Spec.SchedulingGroup.PodGroupName)
	if err != nil {
		return nil
	}
	return g
}

// maxChoices bounds the values of a topology label for which victims are sought.
const maxChoices = 64

// cheapest returns the UIDs of the cheapest pods that the search finds whose eviction makes room for a gang, on the
// nodes of one value of its topology label if it has one. For groups of other policies it returns none.
func (a *groupAttempt) cheapest(nodes []fwk.NodeInfo, units []assign.Unit, victims map[string]*v1.Pod) (
	map[types.UID]bool, error) {
	if a.group.Spec.SchedulingPolicy.Gang == nil {
		return nil, nil
	}
	policies := a.pre.Handle.SharedInformerFactory().Policy().V1()
	pdbs, err := policies.PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list disruption budgets: %w", err)
	}
	b := newBudgets(pdbs)
	cost := evict.Problem{Budgets: b.allowed}
	for i := range units {
		for _, h := range units[i].Pods {
			units[i].Budgets = append(units[i].Budgets, b.of(victims[h.UID])...)
		}
		cost.Victims = append(cost.Victims, units[i].Victim)
	}
	scheduled, err := a.lister.PodGroupStates().Get(a.group.Namespace, a.group.Name)
	if err != nil {
		return nil, fmt.Errorf("read the pods of the group: %w", err)
	}
	g := Group{Pods: a.info.GetUnscheduledPods(), Nodes: nodes, Units: units, Victims: victims, Budgets: b.allowed,
		Least: int(a.group.Spec.SchedulingPolicy.Gang.MinCount) - scheduled.ScheduledPodsCount()}
	g.Closed = a.closed(nodes, scheduled.ScheduledPods())
	g.Closed = g.Closed[:min(len(g.Closed), maxChoices)]
	sets, err := a.plugin.Cheapest(g)
	if err != nil {
		return nil, fmt.Errorf("find victims: %w", err)
	}
	var best []int
	for _, set := range sets {
		if len(set) > 0 && (best == nil || cost.Cost(set).Compare(cost.Cost(best)) < 0) {
			best = set
		}
	}
	only := map[types.UID]bool{}
	for _, i := range best {
		for _, h := range units[i].Pods {
			only[types.UID(h.UID)] = true
		}
	}
	return only, nil
}

// closed returns, for each choice that the group's topology label leaves, whether a node is closed to the group.
func (a *groupAttempt) closed(nodes []fwk.NodeInfo, scheduled []*v1.Pod) (out []func(node int) bool) {
	c := a.group.Spec.SchedulingConstraints
	if c == nil || len(c.Topology) == 0 {
		return []func(int) bool{func(int) bool { return false }}
	}
	key := c.Topology[0].Key
	var all, taken []string
	for _, info := range nodes {
		v, labelled := info.Node().Labels[key]
		if !labelled {
			continue
		}
		all = append(all, v)
		if slices.ContainsFunc(scheduled, func(p *v1.Pod) bool { return p.Spec.NodeName == info.Node().Name }) {
			taken = append(taken, v)
		}
	}
	if len(scheduled) > 0 {
		all = taken
	}
	slices.Sort(all)
	for _, want := range slices.Compact(all) {
		out = append(out, func(i int) bool {
			v, labelled := nodes[i].Node().Labels[key]
			return !labelled || v != want
		})
	}
	return out
}

// handle is a Handle with another view of the nodes.
type handle struct {
	upstream.Handle
	lister *lister
}

// MutableSnapshotSharedLister returns the other view.
func (h handle) MutableSnapshotSharedLister() upstream.MutableSnapshotSharedLister { return h.lister }

// lister is the scheduler's snapshot. It tells the plugin which pods are gone. Once victims are offered, and until the
// first of them has gone, the listed nodes have only these pods.
type lister struct {
	upstream.MutableSnapshotSharedLister
	gone, back func(node, uid string)
	only       map[types.UID]bool    // the offered victims; nil before
	began      bool                  // they are being removed
	away       map[types.UID]*v1.Pod // those that are gone
}

func (l *lister) offer(only map[types.UID]bool) { l.only, l.began = only, false }

// restore puts the offered victims back.
func (l *lister) restore() error {
	for _, p := range slices.SortedFunc(maps.Values(l.away), func(a, b *v1.Pod) int {
		return cmp.Compare(a.UID, b.UID)
	}) {
		info, err := framework.NewPodInfo(p)
		if err == nil {
			err = l.AddPod(info, p.Spec.NodeName)
		}
		if err != nil {
			return fmt.Errorf("put pod %s back: %w", klog.KObj(p), err)
		}
	}
	return nil
}

// RemovePod removes a pod from a node.
func (l *lister) RemovePod(log klog.Logger, p *v1.Pod, node string) error {
	l.began = l.only != nil
	if err := l.MutableSnapshotSharedLister.RemovePod(log, p, node); err != nil {
		return fmt.Errorf("remove pod %s from the snapshot: %w", klog.KObj(p), err)
	}
	if p.Spec.NodeName != "" { // otherwise it is a pod of the group
		l.gone(node, string(p.UID))
		if l.began {
			l.away[p.UID] = p
		}
	}
	return nil
}

// AddPod puts a pod on a node.
func (l *lister) AddPod(p fwk.PodInfo, node string) error {
	if err := l.MutableSnapshotSharedLister.AddPod(p, node); err != nil {
		return fmt.Errorf("add pod %s to the snapshot: %w", klog.KObj(p.GetPod()), err)
	}
	if p.GetPod().Spec.NodeName != "" {
		l.back(node, string(p.GetPod().UID))
		delete(l.away, p.GetPod().UID)
	}
	return nil
}

// NodeInfos returns the lister of nodes.
func (l *lister) NodeInfos() upstream.NodeInfoLister {
	return nodeLister{l.MutableSnapshotSharedLister.NodeInfos(), l}
}

type nodeLister struct {
	upstream.NodeInfoLister
	of *lister
}

// List returns the nodes.
func (n nodeLister) List() ([]fwk.NodeInfo, error) {
	list, err := n.NodeInfoLister.List()
	if err != nil || n.of.only == nil {
		return list, err
	}
	out := make([]fwk.NodeInfo, len(list))
	for i, info := range list {
		out[i] = nodeInfo{info, n.of}
	}
	return out, nil
}

type nodeInfo struct {
	fwk.NodeInfo
	of *lister
}

// GetPods returns the pods of a node.
func (n nodeInfo) GetPods() []fwk.PodInfo {
	pods := n.NodeInfo.GetPods()
	if n.of.began {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p fwk.PodInfo) bool { return !n.of.only[p.GetPod().UID] })
}
