package sched

import (
	"context"
	"fmt"
	"sync"

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

// narrow returns the nodes that can take the pod as far as this plugin knows, or nil where they are so many
// that a list of them costs more than it saves, and where there are none: then every node has to say why.
func (p *Plugin) narrow(s *state, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	// Without PostFilter nobody would ask the nodes that are left out. Pods of a group are tried on parts of
	// the cluster, and PostFilter is not told of which.
	if p.preemption == nil || p.preemption.runner == nil || pod.Spec.SchedulingGroup != nil {
		return nil
	}
	set := p.fitting(s, (len(nodes)-1)/2)
	if set == nil {
		return nil
	}
	names := make(sets.Set[string], set.Len())
	for n := range set.All() {
		if p.knows(n) && !p.shuns(n) {
			names.Insert(n.Name)
		}
	}
	if p.lets(s) {
		for _, info := range nodes {
			if name := info.Node().Name; s.snap.Node(name) == nil {
				names.Insert(name)
			}
		}
	}
	if len(names) == 0 || 2*len(names) >= len(nodes) {
		return nil
	}
	s.only = names
	return &fwk.PreFilterResult{NodeNames: names}
}

// fitting returns the nodes where the pod fits, or nil where that are none, or more than so many.
func (p *Plugin) fitting(s *state, most int) *ledger.Set {
	// Whether what a node gives satisfies a demand takes long to say of many nodes, and helps pods to come: not
	// those of a kind that comes once.
	if s.demand != (place.Demand{}) && p.index.Fitting(s.snap, s.key, s.pod, place.Demand{}).Len() > most &&
		p.demands.first(fmt.Sprintf("%s %+v", s.key, s.demand)) {
		return nil
	}
	set := p.index.Fitting(s.snap, s.key, s.pod, s.demand)
	if n := set.Len(); n == 0 || n > most {
		return nil
	}
	return set
}

// shuns reports whether the profile keeps pods away from a node because it is silent.
func (p *Plugin) shuns(n *ledger.Node) bool { return n.Silent && p.args.SilentNodes == config.Refuse }

// leftOut notes why the nodes that were left out do not take the pod, as far as anybody reads it: Filter was
// not called for them.
func (p *Plugin) leftOut(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, s *state) {
	if s.only == nil || !s.noting() {
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
func (pre *preemption) widen(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (fwk.CycleState, error) {
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
func (pre *preemption) ask(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, among *fwk.PreFilterResult, d *framework.Diagnosis) error {
	nodes, err := pre.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	if !among.AllNodes() {
		// These are kube-scheduler's words.
		absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(d.UnschedulablePlugins)))
	}
	d.NodeToStatus.SetAbsentNodesStatus(absent)
	said := map[string]bool{}
	d.NodeToStatus.ForEachExplicitNode(func(name string, _ *fwk.Status) { said[name] = true })
	statuses := make([]*fwk.Status, len(nodes))
	pre.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		name := nodes[i].Node().Name
		if !said[name] && (among.AllNodes() || among.NodeNames.Has(name)) {
			statuses[i] = pre.handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, nodes[i])
		}
	}, pre.plugin.name)
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
