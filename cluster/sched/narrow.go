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

// This file has kube-scheduler look only at nodes that can take the pod, where these are few. The index knows
// them, so that nobody asks one node after the other.
//
// Invariant: a node that is left out is one that Filter would refuse. If none of the others takes the pod, the
// left out are asked as well, and the attempt ends as if none had been: with every node's own reason, and with
// every node where preemption may help.

// narrow returns the nodes that can take the pod as far as this plugin knows, or nil where a list of them costs
// more than it saves, and where there are none: then every node has to say why.
func (p *Plugin) narrow(
	ctx context.Context,
	cs fwk.CycleState,
	s *state,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) *fwk.PreFilterResult {
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

// name has kube-scheduler look at no others than some nodes, if there are any.
func (s *state) name(names sets.Set[string]) *fwk.PreFilterResult {
	if len(names) == 0 {
		return nil
	}
	s.only = names
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
		names.Insert(s.spots.unknown...)
	}
	if !p.pays(len(names), all) {
		return nil
	}
	return names
}

// What it takes kube-scheduler, compared with each other, to have a node named, to filter it, and to score it.
const (
	naming  = 2
	asking  = 5
	scoring = 5
)

// pays reports whether it takes less to name so many nodes than to look for enough of them among all.
func (p *Plugin) pays(named, all int) bool { return p.toName(named) < p.toLook(named, all) }

// toName is what it takes to name nodes that fit, and to look at as many of them as kube-scheduler would.
func (p *Plugin) toName(named int) int {
	return naming*named + (asking+scoring)*p.enough(named)
}

// toLook is what it takes to look for enough nodes among all if so many fit.
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
	return int(p.percentage)
}

// fitting returns the nodes where the pod fits, or nil where it takes too long to say.
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

// shuns reports whether the profile keeps pods away from a node because it is silent.
func (p *Plugin) shuns(n *ledger.Node) bool { return n.Silent && p.args.SilentNodes == config.Refuse }

// leftOut notes why the nodes that were left out do not take the pod, as far as anybody reads it: Filter was
// not called for them.
func (p *Plugin) leftOut(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, s *state) {
	if s.only == nil || !s.noting() || s.large() {
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
		if !s.only.Has(info.Node().Name) {
			p.Filter(ctx, cs, pod, info)
		}
	}
}

// prefilters is what of kube-scheduler's framework begins an attempt.
type prefilters interface {
	RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// widened is how an attempt would have ended if no nodes had been left out.
type widened struct {
	mu   sync.Mutex
	last *framework.Diagnosis
}

// widen asks the nodes that were left out, if any, and adds what they say to what is known of the others. It
// returns the state of an attempt that leaves nobody out. The attempt is begun again on the same snapshot:
// where what another plugin and this one leave over is nothing, the framework has not begun it with all plugins.
func (pre *preemption) widen(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	m fwk.NodeToStatusReader,
) (fwk.CycleState, error) {
	s, narrowed := read(cs)
	all, ok := m.(*framework.NodeToStatus)
	if !narrowed || s.only == nil || !ok {
		return cs, nil
	}
	cs = cs.Clone() // the plugins that come after this one shall find what they have left
	s, _ = read(cs)
	s.only, s.whole = nil, true
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
	pre.widened.mu.Lock()
	pre.widened.last = d
	pre.widened.mu.Unlock()
	return cs, nil
}

// ask has all plugins filter the nodes that have not said anything yet, but those that other plugins leave out.
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
		pre.retry(pod, pre.now()) // something has changed since nodes were named, and nobody will tell
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

// overtaken widens an attempt whose PostFilter did not get to this plugin, because another plugin's before it had
// the last word. A rejection at Reserve or later is another matter: it tells of one node only, and leaves nobody out.
func (pre *preemption) overtaken(ctx context.Context, pod *v1.Pod, why *framework.FitError) error {
	c, all := pre.plugin.last.Load(), why.Diagnosis.NodeToStatus
	if c == nil || c.state.uid != string(pod.UID) || c.state.only == nil || all == nil ||
		len(all.AbsentNodesStatus().Reasons()) == 0 {
		return nil
	}
	pre.widened.mu.Lock()
	done := pre.widened.last != nil && pre.widened.last.NodeToStatus == all
	pre.widened.mu.Unlock()
	if done {
		return nil
	}
	_, err := pre.widen(ctx, c.cs, pod, all)
	return err
}

// mend makes the report of an attempt that left nodes out what it would be had it not. PostFilter can add what
// nodes say, and not who refuses them.
func (pre *preemption) mend(why *framework.FitError) {
	pre.widened.mu.Lock()
	d := pre.widened.last
	mine := d != nil && d.NodeToStatus == why.Diagnosis.NodeToStatus
	if mine {
		pre.widened.last = nil
	}
	pre.widened.mu.Unlock()
	if mine {
		why.Diagnosis.PreFilterMsg = d.PreFilterMsg
		why.Diagnosis.UnschedulablePlugins = why.Diagnosis.UnschedulablePlugins.Union(d.UnschedulablePlugins)
		why.Diagnosis.PendingPlugins = why.Diagnosis.PendingPlugins.Union(d.PendingPlugins)
	}
}
