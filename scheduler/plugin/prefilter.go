package plugin

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/overlay"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/metrics"
)

var errUnknown = errors.New("the API server has not said yet whether it stored the pod's last binding")

// PreFilter translates the pod once, takes a snapshot of the ledger, and may name the nodes to filter; see narrow. It
// skips pods that no kubelet aligns.
func (p *Plugin) PreFilter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if s, ok := read(cs); ok && s.unnarrowed {
		return nil, nil // a repeated attempt uses the state of the first one; see withAllNodes
	}
	if t := p.supposed.Load(); t != nil {
		return nil, t.preFilter(p, cs, pod, nodes)
	}
	if err := p.waitRestored(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if status := p.heldBack(pod); status != nil {
		return nil, status
	}
	s, status := translate(pod)
	if status != nil {
		if _, err := booking.Read(pod); isTooLarge(err) {
			p.metrics.Exceeded(metrics.BudgetPod)
		}
		a := p.begin(pod)
		a.Invalid(status.Message())
		return nil, status
	}
	if s.pod.Plain() {
		p.skipped.Store(&plainCycle{s.uid, cs})
		return p.preFilterPlain(cs, pod, nodes)
	}
	if p.turns.Unknown(s.uid) {
		return nil, fwk.AsStatus(errUnknown)
	}
	s.strategy = p.scoring(s.wish)
	s.Attempt = p.begin(pod)
	s.Read(booking.Bounded(s.shape), s.demand)
	if err := p.waitReady(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	p.learn(s)
	p.waiting.Begin(waiter{p}, pod, s.ask())
	p.takeSnapshot(s, pod, p.Book.Snapshot(), nodes)
	cs.Write(stateKey, s)
	p.last.Store(&current{cs, s})
	if a := p.asks(cs, pod); a != nil {
		if kept := p.redeem(cs, a, s, pod, nodes); kept != nil {
			s.named = kept
			return &fwk.PreFilterResult{NodeNames: kept}, nil
		}
	}
	named := p.narrow(ctx, cs, s, pod, nodes)
	if named == nil && s.snap.Len() <= fewNodes && s.fits != nil {
		p.cacheRefusals(s)
	}
	return named, nil
}

// fewNodes bounds the nodes for which PreFilter computes refusals. In so small a cluster, kube-scheduler filters all
// nodes.
const fewNodes = 100

// cacheRefusals computes and caches why nodes refuse the pod, except for nodes whose refusal is cached already. In
// Filter, this would cost more: Filter runs on new goroutines, and the runtime would have to copy and grow their
// small stacks.
func (p *Plugin) cacheRefusals(s *podState) {
	for slot := range s.snap.Slots() {
		if n, _ := s.snap.At(slot); n != nil && !s.fits.In(slot) && !s.answers.Has(s.snap, slot) {
			p.answer(s, slot)
		}
	}
}

// takeSnapshot sets the snapshot of the ledger, and finds the cached answers for pods of this kind.
func (p *Plugin) takeSnapshot(s *podState, pod *v1.Pod, snap *ledger.Snapshot, nodes []fwk.NodeInfo) {
	s.snap, s.together = snap, p.partnersOf(pod, s.demand.Together, nodes)
	s.nodes = p.nodes.Of(s.snap, nodes)
	p.readAnswers(s)
	s.backoff = p.turns.Of(s.uid)
}

// PreFilterExtensions returns the plugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod adds another pod to this cycle's view of the node: a nominated pod, or a possible victim that is spared.
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
		return nil // no machine could take the other pod, so it holds nothing
	}
	s.overlay = s.overlay.Change(s.snap.Node(info.Node().Name), func(o *overlay.Node) {
		o.Add(kube.ID(add.GetPod()), cp, apipod.Relations(add.GetPod()), p.leaving(add.GetPod(), info))
	})
	return nil
}

// RemovePod removes another pod, a possible victim, from this cycle's view of the node.
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
	s.overlay = s.overlay.Change(s.snap.Node(info.Node().Name), func(o *overlay.Node) {
		o.Remove(string(remove.GetPod().UID))
	})
	return nil
}

// leaving returns the UIDs of the pods that will have left a node when a nominated pod arrives: pods that are being
// deleted, and victims of the nominated pod.
func (p *Plugin) leaving(nominated *v1.Pod, info fwk.NodeInfo) (out []string) {
	for _, p := range info.GetPods() {
		if p.GetPod().DeletionTimestamp != nil {
			out = append(out, string(p.GetPod().UID))
		}
	}
	return append(out, p.evicting().Victims(nominated, info.Node().Name)...)
}

// scoring returns how nodes are scored for a pod: by the type that the pod requests, with the profile's weights.
func (p *Plugin) scoring(wish *score.Type) score.Strategy {
	s := p.strategy
	if wish != nil {
		s.Type = *wish
	}
	return s
}

// isTooLarge reports whether an error means that judging a pod costs too much.
func isTooLarge(err error) bool {
	_, ok := errors.AsType[booking.TooLarge](err)
	return ok
}
