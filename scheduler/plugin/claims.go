package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// NewClaims makes the plugin TenonClaims for a profile of any kube-scheduler:
//
//	app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New), app.WithPlugin(plugin.Claims, plugin.NewClaims))
//
// The profile disables DynamicResources by multiPoint, and enables TenonClaims behind Tenon. It takes the arguments of
// DynamicResources.
func NewClaims(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return schedulers.of(ctx, h.SharedInformerFactory()).Claims()(ctx, obj, h)
}

// Claims is the name of the plugin that NewClaims makes.
const Claims = steer.Name

// Claims returns the factory of the plugin TenonClaims.
func (s *Shared) Claims() Factory {
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		at := places{s, profileOf(h)}
		p, err := steer.New(ctx, obj, h, at, s.functions())
		if err != nil {
			return nil, err
		}
		p.Heed(promised{at})
		s.claiming = append(s.claiming, at.profile)
		if s.planner == nil && s.options.Informers != nil { // other main programs answer no requests
			if s.planner, err = steer.NewPlanner(ctx, obj, h, s.functions()); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
}

// functions returns where PCI functions are by the nodes' reports; nil in tests that follow no reports.
func (s *Shared) functions() steer.Functions {
	if s.sources == nil {
		return nil
	}
	return s.sources.Functions()
}

// places tells TenonClaims where the pods of a profile are and will be.
type places struct {
	*Shared
	profile string
}

// plugin returns the profile's plugin, or nil if the profile has none.
func (w places) plugin() *Plugin {
	for _, p := range w.plugins {
		if profileOf(p.handle) == w.profile {
			return p
		}
	}
	return nil
}

// Predicted returns where a pod would be on a node in its scheduling cycle. A pod that no kubelet aligns is nowhere.
func (w places) Predicted(cs fwk.CycleState, node string) steer.Near {
	p := w.plugin()
	if p == nil || p.args.Claims == config.Ignore {
		return steer.Near{Unknown: true}
	}
	s, ok := p.state(cs)
	if !ok {
		return steer.Near{}
	}
	n := s.snap.Node(node)
	if o := s.overlay[node]; o != nil {
		n = o.Base
	}
	if n == nil {
		return steer.Near{Unknown: true}
	}
	v := n.Place(s.pod, s.demand)
	if !v.Fits() {
		return steer.Near{Unknown: true}
	}
	out := p.near(n, v.Holdings)
	if decides(n, v.Holdings) {
		out.Elsewhere = func() [][]int { return p.elsewhere(n, s, place.Exclusive(n.Machine, v.Holdings)) }
	}
	return out
}

// decides reports whether the scheduler decides where a pod is that would get these holdings on a node.
func decides(n *state.Node, holdings []place.Holding) bool {
	return n.Rules.Arbiter == place.ByAgent && !slices.ContainsFunc(holdings, func(h place.Holding) bool {
		return len(h.Devices) > 0
	})
}

// maxElsewhere bounds how many other places of a pod are tried on a node.
const maxElsewhere = 16

// elsewhere returns where else a pod can be that would be on the NUMA nodes of a mask: other sets of equally many NUMA
// nodes.
func (p *Plugin) elsewhere(n *state.Node, s *podState, at topo.Mask) (out [][]int) {
	for _, mask := range n.Machine.WithCPUs().Choose(at.Len(), maxElsewhere) {
		if mask == at {
			continue
		}
		if v := n.On(mask).Place(s.pod, s.demand); v.Fits() && place.Exclusive(n.Machine, v.Holdings) == mask &&
			n.KeepsBeside(v) {
			out = append(out, p.near(n, v.Holdings).NUMAs)
		}
	}
	return out
}

// onNUMAs returns the mask of the NUMA nodes of a node on which a pod's devices want it, or 0.
func onNUMAs(m *topo.Machine, ids []int) topo.Mask {
	numas := make([]idset.NUMA, len(ids))
	for i, id := range ids {
		numas[i] = idset.NUMA(id)
	}
	mask, err := m.MaskOf(numas...)
	if err != nil { // its machine is another one now, and the node reports
		return 0
	}
	return mask
}

// Reserved returns where a pod will be on the node that is being reserved for it.
func (w places) Reserved(cs fwk.CycleState, node string) steer.Near {
	p := w.plugin()
	s, ok := read(cs)
	if p == nil || !ok || p.args.Claims == config.Ignore {
		return steer.Near{Unknown: true}
	}
	n := p.Book.Snapshot().Node(node)
	if n == nil {
		return steer.Near{Unknown: true}
	}
	if e, ok := n.Entry(s.uid); ok {
		return p.near(n, e.Holdings)
	}
	v := n.Place(s.pod, s.demand) // the profile has the plugin behind TenonClaims, and it reserves next
	if !v.Fits() {
		return steer.Near{Unknown: true}
	}
	return p.near(n, v.Holdings)
}

// Allocated keeps a pod where it was reserved, since it got devices there; a pod that did not is tried again. What is
// predicted for an estimated node cannot be kept.
func (w places) Allocated(pod *v1.Pod, node string, at steer.Near, near bool) {
	p := w.plugin()
	if p == nil {
		return
	}
	if !near {
		p.metrics.ClaimUndone()
		p.tryAgain(pod) // the queue of waiting pods dropped it when it was reserved
		return
	}
	n := p.Book.Snapshot().Node(node)
	if n == nil || n.Quality == state.Estimated {
		return
	}
	p.Book.Keep(string(pod.UID), onNUMAs(n.Machine, at.NUMAs))
}

// near returns where the CPUs and the memory of holdings are.
func (p *Plugin) near(n *state.Node, holdings []place.Holding) (out steer.Near) {
	for _, id := range n.Machine.IDs(place.Exclusive(n.Machine, holdings)) {
		out.NUMAs = append(out.NUMAs, int(id))
	}
	switch p.args.Claims {
	case config.Require:
		out.Must = true
	case config.AsPolicy:
		out.Must = n.Quality != state.Estimated && n.Rules.Topology.Policy.Refuses()
	}
	return out
}
