package sched

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
)

// PreFilter reads the pod once and takes a snapshot. Pods that nobody would align skip the plugin.
func (p *Plugin) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s, status := translate(pod)
	if status != nil {
		return nil, status
	}
	if s.pod.Plain() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := p.waitReady(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	s.snap = p.book.Snapshot()
	cs.Write(stateKey, s)
	return nil, nil
}

// PreFilterExtensions returns the plugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod evaluates the node as if the pod were on it too: a nominated pod, or a victim spared.
func (p *Plugin) AddPod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, add fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, ok := read(cs)
	if !ok {
		return nil
	}
	node, uid := info.Node().Name, string(add.GetPod().UID)
	n := s.node(node)
	if n == nil {
		return nil
	}
	if i := slices.Index(s.removed[node], uid); i >= 0 {
		s.without(node, slices.Delete(slices.Clone(s.removed[node]), i, i+1))
		return nil
	}
	if _, there := n.Entry(uid); there {
		return nil
	}
	cp, err := kube.Pod(add.GetPod())
	if err != nil {
		return fwk.AsStatus(err)
	}
	if next, fits := n.With(kube.ID(add.GetPod()), cp); fits {
		s.lay(node, next)
	}
	return nil
}

// RemovePod evaluates the node as if the pod were not on it: a victim.
func (p *Plugin) RemovePod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, remove fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	s, ok := read(cs)
	if !ok {
		return nil
	}
	node := info.Node().Name
	s.without(node, append(slices.Clone(s.removed[node]), string(remove.GetPod().UID)))
	return nil
}

// without evaluates a node without these pods.
func (s *state) without(node string, uids []string) {
	removed := maps.Clone(s.removed)
	if removed == nil {
		removed = map[string][]string{}
	}
	removed[node] = uids
	s.removed = removed
	if n := s.snap.Node(node); n != nil {
		s.lay(node, n.Without(uids...))
	}
}

func (s *state) lay(node string, n *ledger.Node) {
	overlay := maps.Clone(s.overlay)
	if overlay == nil {
		overlay = map[string]*ledger.Node{}
	}
	overlay[node] = n
	s.overlay = overlay
}
