package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/metrics"
)

// PreFilter converts the pod once, takes a snapshot of the ledger, and names the nodes where the pod fits if these are
// few. Pods that no kubelet aligns skip the plugin.
func (p *Plugin) PreFilter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if s, again := read(cs); again && s.unnarrowed {
		return nil, nil
	}
	s, status := translate(pod)
	if status != nil {
		if exceedsBudget(pod) {
			p.metrics.Exceeded(metrics.BudgetPod)
		}
		return nil, p.begin(pod).failed(status)
	}
	if s.pod.Plain() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s.strategy = p.scoring(s.wish)
	s.attempt = p.begin(pod)
	s.attempt.read(s)
	if err := p.waitReady(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	p.learn(s)
	p.waiting.begin(p, pod, s)
	p.look(s, nodes)
	p.retries.begin(p, pod, s)
	cs.Write(stateKey, s)
	p.last.Store(&current{cs, s})
	return p.narrow(ctx, cs, s, pod, nodes), nil
}

// look takes a snapshot, and finds the answers to the pod's kind.
func (p *Plugin) look(s *state, nodes []fwk.NodeInfo) {
	s.snap = p.Book.Snapshot()
	s.nodes = p.nodes.Of(s.snap, nodes)
	p.ask(s)
	s.backoff = p.backoff.of(s.uid)
}

// PreFilterExtensions returns the plugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod evaluates the node as if the pod were on it too: a nominated pod, or a victim spared.
func (p *Plugin) AddPod(
	_ context.Context,
	cs fwk.CycleState,
	_ *v1.Pod,
	add fwk.PodInfo,
	info fwk.NodeInfo,
) *fwk.Status {
	s, ok := read(cs)
	if !ok {
		return nil
	}
	cp, err := apipod.ToPlace(add.GetPod())
	if err != nil {
		return nil // no machine could take it: it holds nothing
	}
	s.change(info.Node().Name, func(o *overlay) { o.add(kube.ID(add.GetPod()), cp, p.leaving(add.GetPod(), info)) })
	return nil
}

// RemovePod evaluates the node as if the pod were not on it: a victim.
func (p *Plugin) RemovePod(
	_ context.Context,
	cs fwk.CycleState,
	_ *v1.Pod,
	remove fwk.PodInfo,
	info fwk.NodeInfo,
) *fwk.Status {
	s, ok := read(cs)
	if !ok || p.args.KeepVictims {
		return nil
	}
	s.change(info.Node().Name, func(o *overlay) { o.remove(string(remove.GetPod().UID)) })
	return nil
}
