package sched

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// This file names the nodes where the pod fits, if they are few, in PreFilter's result: kube-scheduler then filters
// no others. It needs more than the framework's public interfaces, so only schedulers that are set up by Extend do it:
// the diagnosis of a failed attempt is replaced. BenchmarkAgainstPlain pays for it: on 5,000 nodes that are 95 % full a
// cycle takes a quarter of kube-scheduler's own.
//
// Invariant: Filter would refuse every node that is left out. If no named node takes the pod, the others are filtered
// as well, and the attempt ends as if none had been left out: with every node's own reason, and with every node where
// preemption may help.

// narrow returns the nodes where the pod fits by this plugin, or nil if a list of them costs more than it saves. It is
// nil for no nodes, too: every node has to give its reason.
func (p *Plugin) narrow(ctx context.Context, cs fwk.CycleState, s *state, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	// Without PostFilter nobody would ask the nodes that are left out. Pods of a group are tried on parts of
	// the cluster, and PostFilter is not told of which.
	if p.preemption == nil || p.preemption.runner == nil || pod.Spec.SchedulingGroup != nil {
		return nil
	}
	if s.large() {
		return s.name(p.few(ctx, cs, s, pod, nodes))
	}
	if s.fits == nil {
		return nil
	}
	count := s.fits.Len()
	if names := p.sample(ctx, cs, s, pod, count, len(nodes)); names != nil {
		return s.name(names)
	}
	if count == 0 || !p.pays(count, len(nodes)) {
		return nil
	}
	return s.name(p.fit(s, len(nodes)))
}

// name returns a result that names some nodes, or nil if there are none.
func (s *state) name(names sets.Set[string]) *fwk.PreFilterResult {
	if len(names) == 0 {
		return nil
	}
	s.named = names
	return &fwk.PreFilterResult{NodeNames: names}
}

// fit returns the nodes that Filter lets the pod on, or nil where there are too many to be named.
func (p *Plugin) fit(s *state, all int) sets.Set[string] {
	names := make(sets.Set[string], s.fits.Len())
	for n := range s.fits.All() {
		if at, waited := s.backoff[n.Name]; p.knows(n) && !p.shuns(n) && !(waited && at == n.News) && p.guards(s, n) == nil {
			names.Insert(n.Name)
		}
	}
	if p.lets(s) {
		names.Insert(s.index.unknown...)
	}
	if !p.pays(len(names), all) {
		return nil
	}
	return names
}

// Costs of naming a node, filtering it and scoring it in kube-scheduler, relative to each other.
const (
	naming  = 2
	asking  = 5
	scoring = 5
)

// pays reports whether naming so many nodes costs less than filtering all until enough are found.
func (p *Plugin) pays(named, all int) bool { return p.toName(named) < p.toLook(named, all) }

// toName is the cost of naming nodes that fit, and of filtering as many of them as kube-scheduler would.
func (p *Plugin) toName(named int) int {
	return naming*named + (asking+scoring)*p.enough(named)
}

// toLook is the cost of finding enough nodes among all if so many fit.
func (p *Plugin) toLook(fit, all int) int {
	found := min(fit, p.enough(all))
	return asking*min(all, found*all/max(1, fit)) + scoring*found
}

// enough returns how many nodes that fit kube-scheduler looks for among so many, as its configuration says or, where
// that says nothing, by the rule in its documentation of percentageOfNodesToScore.
func (p *Plugin) enough(nodes int) int {
	percent := p.percent()
	if percent == 0 {
		percent = max(5, 50-nodes/125)
	}
	return min(nodes, max(100, nodes*percent/100))
}

// percent is percentageOfNodesToScore of the profile, or of all profiles; 0 leaves it to kube-scheduler.
func (p *Plugin) percent() int {
	if f, ok := p.handle.(interface{ PercentageOfNodesToScore() *int32 }); ok && f.PercentageOfNodesToScore() != nil {
		return int(*f.PercentageOfNodesToScore())
	}
	return int(p.options.PercentageOfNodesToScore)
}

// fitting returns the nodes where the pod fits, or nil if that costs too much.
func (p *Plugin) fitting(s *state) *ledger.Set {
	if s.large() {
		return nil
	}
	// Whether what a node gives satisfies a demand takes long to say of many nodes, and helps pods to come: not
	// those of a kind that comes once.
	if s.demand != (place.Demand{}) && 2*p.index.Fitting(s.snap, s.key, s.pod, place.Demand{}).Len() > s.snap.Len() &&
		p.demands.first(fmt.Sprintf("%s %+v", s.key, s.demand)) {
		return nil
	}
	return p.index.Fitting(s.snap, s.key, s.pod, s.demand)
}

// shuns reports whether the profile keeps pods from a node because its agent is silent.
func (p *Plugin) shuns(n *ledger.Node) bool { return n.Silent && p.args.SilentNodes == config.Refuse }

// leftOut records why the pod does not fit on the nodes that were left out, as far as records and logs have room.
func (p *Plugin) leftOut(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, s *state) {
	if s.named == nil || !s.noting() || s.large() {
		return
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return // nothing depends on it
	}
	for _, info := range nodes {
		if !s.noting() {
			return
		}
		if !s.named.Has(info.Node().Name) {
			p.Filter(ctx, cs, pod, info)
		}
	}
}

// prefilters runs PreFilter of all plugins. kube-scheduler's framework implements it, though not its Handle.
type prefilters interface {
	RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// fullDiagnosis is the diagnosis of the last attempt that left nodes out, with these filtered as well.
type fullDiagnosis struct {
	mu   sync.Mutex
	last *framework.Diagnosis
}

// askAll filters the nodes that were left out, if any, and adds their results to m. It returns the state of an attempt
// that leaves no node out. PreFilter of all plugins runs again on the same snapshot: if the nodes that this plugin and
// another one name have none in common, the framework did not run PreFilter of all plugins.
func (pre *preemption) askAll(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	m fwk.NodeToStatusReader,
) (fwk.CycleState, error) {
	s, narrowed := read(cs)
	all, ok := m.(*framework.NodeToStatus)
	if !narrowed || s.named == nil || !ok {
		return cs, nil
	}
	cs = cs.Clone() // the plugins that come after this one shall find what they have left
	s, _ = read(cs)
	s.named, s.unnarrowed = nil, true
	d := &framework.Diagnosis{NodeToStatus: all}
	result, status, narrowers := pre.runner.RunPreFilterPlugins(ctx, cs, pod)
	d.UnschedulablePlugins = narrowers
	if !status.IsSuccess() && !status.IsRejected() {
		return cs, fmt.Errorf("begin the attempt for pod %s/%s with all nodes: %w", pod.Namespace, pod.Name, status.AsError())
	}
	switch {
	case status.IsRejected():
		all.SetAbsentNodesStatus(status)
		d.PreFilterMsg = status.Message()
		d.AddPluginStatus(status)
	default:
		if err := pre.ask(ctx, cs, pod, result, d); err != nil {
			return cs, err
		}
	}
	pre.full.mu.Lock()
	pre.full.last = d
	pre.full.mu.Unlock()
	return cs, nil
}

// ask filters the nodes that have no result yet, except those that other plugins leave out.
func (pre *preemption) ask(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	among *fwk.PreFilterResult,
	d *framework.Diagnosis,
) error {
	nodes, err := pre.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	if !among.AllNodes() {
		// These are kube-scheduler's words.
		absent = fwk.NewStatus(
			fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(d.UnschedulablePlugins)),
		)
	}
	d.NodeToStatus.SetAbsentNodesStatus(absent)
	said := map[string]bool{}
	d.NodeToStatus.ForEachExplicitNode(func(name string, _ *fwk.Status) { said[name] = true })
	statuses, fits := make([]*fwk.Status, len(nodes)), atomic.Bool{}
	pre.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		name := nodes[i].Node().Name
		if !said[name] && (among.AllNodes() || among.NodeNames.Has(name)) {
			statuses[i] = pre.handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, nodes[i])
			if statuses[i].IsSuccess() {
				fits.Store(true)
			}
		}
	}, pre.plugin.name)
	if fits.Load() {
		pre.Retry(pod) // something has changed since nodes were named, and nobody will tell
	}
	for i, status := range statuses {
		switch name := nodes[i].Node().Name; {
		case status.Code() == fwk.Error:
			return fmt.Errorf("filter node %s: %w", name, status.AsError())
		case !status.IsSuccess():
			d.NodeToStatus.Set(name, status)
			d.AddPluginStatus(status)
		}
	}
	return nil
}

// askAllUnlessDone is askAll for an attempt whose PostFilter did not reach this plugin, because an earlier plugin ended
// it. A rejection at Reserve or later concerns one node only: there no node was left out.
func (pre *preemption) askAllUnlessDone(ctx context.Context, pod *v1.Pod, why *framework.FitError) error {
	c, all := pre.plugin.last.Load(), why.Diagnosis.NodeToStatus
	if c == nil || c.state.uid != string(pod.UID) || c.state.named == nil || all == nil ||
		len(all.AbsentNodesStatus().Reasons()) == 0 {
		return nil
	}
	pre.full.mu.Lock()
	done := pre.full.last != nil && pre.full.last.NodeToStatus == all
	pre.full.mu.Unlock()
	if done {
		return nil
	}
	_, err := pre.askAll(ctx, c.cs, pod, all)
	return err
}

// amend makes the diagnosis of an attempt that left nodes out what it would be otherwise. PostFilter can add results of
// nodes, but not the plugins that refused them.
func (pre *preemption) amend(why *framework.FitError) {
	pre.full.mu.Lock()
	d := pre.full.last
	mine := d != nil && d.NodeToStatus == why.Diagnosis.NodeToStatus
	if mine {
		pre.full.last = nil
	}
	pre.full.mu.Unlock()
	if mine {
		why.Diagnosis.PreFilterMsg = d.PreFilterMsg
		why.Diagnosis.UnschedulablePlugins = why.Diagnosis.UnschedulablePlugins.Union(d.UnschedulablePlugins)
		why.Diagnosis.PendingPlugins = why.Diagnosis.PendingPlugins.Union(d.PendingPlugins)
	}
}
