package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/candidates"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// This file connects the plugin with package candidates, which leaves nodes out of an attempt. A scheduler that was not
// set up by Extend leaves no nodes out.

// narrow returns the nodes for kube-scheduler to filter, or nil for all nodes. Usually it chooses among the nodes where
// the pod is known to fit (s.fits). For a large pod these are not computed, so a few nodes are judged one after the
// other. Any other pod whose fits were not computed gets all nodes.
func (p *Plugin) narrow(ctx context.Context, cs fwk.CycleState, s *podState, pod *v1.Pod,
	nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	if p.candidates == nil {
		return nil
	}
	if s.together != "" {
		s.named = sets.New(s.together)
		return &fwk.PreFilterResult{NodeNames: s.named}
	}
	if s.fits == nil && !s.large() {
		return nil
	}
	a := &candidates.Attempt{Pod: pod, Again: func() fwk.CycleState { return withAllNodes(cs, report.Attempt{}) },
		Snap: s.snap, Nodes: s.nodes, Fits: s.fits, Answers: s.answers, Devices: devicesOf(s.pod),
		Lets: func(n *state.Node) bool { return p.lets(s, n) }, Picky: s.backoff != nil || p.guard.Picky(),
		Unknown: p.guard.LetsUnknown(s.demand)}
	var names sets.Set[string]
	if s.large() {
		names = p.candidates.Few(ctx, a, nodes, len(s.pod.Containers), func(info fwk.NodeInfo) bool {
			name := info.Node().Name
			slot := s.slot(info, name)
			return slot >= 0 && p.judge(s, name, slot).IsSuccess()
		})
	} else {
		names = p.candidates.Names(ctx, a, len(nodes))
	}
	if names == nil {
		return nil
	}
	s.named = names
	return &fwk.PreFilterResult{NodeNames: names}
}

// devicesOf returns the names of the device resources that a pod requests.
func devicesOf(p *place.Pod) (names []string) {
	for i := range p.Containers {
		for _, d := range p.Containers[i].Devices {
			if d.N > 0 && !slices.Contains(names, d.Resource) {
				names = append(names, d.Resource)
			}
		}
	}
	return names
}

// lets reports whether Filter accepts the pod on a node where it fits. It does not if the guard keeps the pod away,
// or if the pod's wait for its turn timed out on the node and no news of the node has arrived since then.
func (p *Plugin) lets(s *podState, n *state.Node) bool {
	news, timedOut := s.backoff[n.Name]
	backsOff := timedOut && news == n.News
	return p.guard.Distrusts(n) == 0 && !backsOff && p.guard.Refuses(n, s.pod, s.demand) == 0
}

// recordLeftOut calls Filter for the nodes that were left out, only to record why the pod does not fit there. It ends
// when neither the record nor the log takes more answers.
func (p *Plugin) recordLeftOut(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, s *podState) {
	if s.named == nil || !s.Open() || s.large() {
		return
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return // the record then lacks these nodes
	}
	for _, info := range nodes {
		if !s.Open() {
			return
		}
		if !s.named.Has(info.Node().Name) {
			p.Filter(ctx, cs, pod, info)
		}
	}
}
