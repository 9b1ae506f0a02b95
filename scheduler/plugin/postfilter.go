package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/wake"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/metrics"
	"github.com/tenon-numa/tenon/scheduler/preempt"
	"github.com/tenon-numa/tenon/scheduler/report"
)

var (
	_ fwk.PostFilterPlugin = (*Plugin)(nil)
	_ fwk.PreEnqueuePlugin = (*Plugin)(nil)
)

// newPreemption returns the preemption of a profile, which chooses victims by this plugin's verdicts.
func newPreemption(ctx context.Context, p *Plugin, args *schedapi.DefaultPreemptionArgs) (*preempt.Preemption, error) {
	words := report.Words(p.name)
	return preempt.New(ctx, victims{p}, preempt.Config{
		Name:        p.name,
		Args:        args,
		Handle:      p.handle,
		Logger:      p.logger,
		Recorder:    report.QuotedEvents(p.handle.EventRecorder()),
		Texts:       preempt.Texts{NoVictims: words.NoVictims(), Waits: words.NotHelpful()},
		KeepVictims: p.args.KeepVictims,
	})
}

// PreEnqueue keeps a pod out of the queue while its victims are being evicted. If DefaultPreemption preempts for the
// profile, PreEnqueue admits every pod.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if p.preemption == nil {
		return nil
	}
	return p.preemption.PreEnqueue(ctx, pod)
}

// PostFilter evicts pods to make room for a pod that fits nowhere. If the plugin has no preemption of its own,
// PostFilter evicts none, and leaves that to DefaultPreemption.
func (p *Plugin) PostFilter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	m fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	if p.afterFailure(cs, pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if p.alone {
		p.reportFailure(pod, m)
	}
	if p.preemption == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	cs, err := p.askAll(ctx, cs, pod, m)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return p.preemption.PostFilter(ctx, cs, pod, m)
}

// reportFailure reports to the queue of waiting pods how an attempt ended. In a scheduler without Extend, nothing
// else reports that. If another plugin's PostFilter ended the attempt earlier, reportFailure is not called, and the
// attempt lapses; see package waiting.
func (p *Plugin) reportFailure(pod *v1.Pod, m fwk.NodeToStatusReader) {
	others := &wake.Nodes{}
	if all, ok := m.(*framework.NodeToStatus); ok {
		var refused bool
		if others, refused = p.othersOf(all); !refused {
			others = nil
		}
	}
	p.waiting.Failed(waiter{p}, pod, p.waiting.Attempt(string(pod.UID)), others)
}

// othersOf returns the nodes on which other plugins refused the pod of an attempt. refused is true if this plugin
// refused the pod on at least one node.
func (p *Plugin) othersOf(nodes *framework.NodeToStatus) (out *wake.Nodes, refused bool) {
	out = &wake.Nodes{Names: map[string]bool{}}
	if nodes == nil {
		return out, false
	}
	// If plugins ruled nodes out in advance, the framework gives the absent nodes a reason, too. The result is then the
	// complement: all nodes but those that this plugin refused.
	out.But = len(nodes.AbsentNodesStatus().Reasons()) > 0
	nodes.ForEachExplicitNode(func(node string, s *fwk.Status) {
		byThis := s.Plugin() == p.name
		refused = refused || byThis
		if byThis == out.But {
			out.Names[node] = true
		}
	})
	return out, refused
}

// victims implements preempt.Plugin.
type victims struct{ *Plugin }

// Attempt implements preempt.Plugin.
func (p victims) Attempt(cs fwk.CycleState) (preempt.Attempt, bool) {
	s, ok := read(cs)
	if !ok {
		return preempt.Attempt{}, false
	}
	judged := func(name string) *state.Node {
		if n := s.node(name); p.guard.Knows(n) {
			return n
		}
		return nil
	}
	log := func(msg string, pairs ...any) { s.Log.Info(report.LevelDecision, msg, pairs...) }
	return preempt.Attempt{Pod: s.pod, Demand: s.demand, Node: judged, Log: log}, true
}

// Reasons implements preempt.Plugin.
func (p victims) Reasons(pod *place.Pod, v place.Verdict) []string {
	return p.refusal(pod, v).Reasons()
}

// CutShort implements preempt.Plugin.
func (p victims) CutShort() { p.metrics.Exceeded(metrics.BudgetVictims) }

// evicting returns the plugin's preemption, which may be nil: its methods Awaits, Evicts and Victims then report
// none.
func (p *Plugin) evicting() *preempt.Preemption { return p.preemption }

// permanent reports whether the pod would not fit on the empty node either, so that no eviction helps there. It ignores
// the pod's demand, because the pods on a node influence whether a demand is met.
func (p *Plugin) permanent(s *podState, n *state.Node) bool { return !n.FitsEmpty(s.pod) }
