package steer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Reserve reserves the devices that Filter chose. It fails if other pods have changed where the pod will be on the
// node, and the devices, which must be near it, are not any more. It has to run after the plugin that reserves CPUs.
func (p *Plugin) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	c := read(cs)
	if c == nil {
		return p.DynamicResources.Reserve(ctx, cs, pod, node)
	}
	chosen, _ := c.choice(node)
	c.reserved = true
	chosen.attempt.writeTo(cs)
	p.dra.signaled()
	if status := p.DynamicResources.Reserve(ctx, cs, pod, node); !status.IsSuccess() {
		return status
	}
	signaled := p.dra.signaled()
	var got []claims.ID
	for _, claim := range signaled {
		got = append(got, claims.DevicesOf(claim.Status.Allocation)...)
	}
	if p.promises != nil && len(got) > 0 && !p.promises.Take(cs, pod, got) {
		p.places.Allocated(pod, node, Near{}, false)
		return fwk.NewStatus(fwk.Unschedulable, KeptText)
	}
	p.trial.share(ctx, cs, pod, node)
	devices, bound := slices.Concat(c.held, got), slices.Clone(c.bound)
	for _, claim := range signaled {
		bound = append(bound, c.demand.of(claim, claim.Status.Allocation)...)
	}
	n, near := c.nodes[node], p.places.Reserved(cs, node)
	if n == nil || near.Unknown || len(near.NUMAs) == 0 {
		return nil
	}
	if _, far := n.apart(devices, near.NUMAs); far && !near.Must {
		devices = nil
	}
	devices = append(devices, bound...)
	if id, apart := n.apart(devices, near.NUMAs); apart {
		if slices.Equal(chosen.near, near.NUMAs) { // the next attempt would end in the same way
			return fwk.NewStatus(fwk.Unschedulable, refusal(near.NUMAs))
		}
		p.places.Allocated(pod, node, near, false)
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("device %s is on %s, and the pod's CPUs and memory "+
			"will be on %s, since other pods came first", id, numaNodes(n.where[id]), numaNodes(near.NUMAs)))
	}
	if slices.ContainsFunc(devices, func(id claims.ID) bool { return n.where[id] != nil }) {
		p.places.Allocated(pod, node, near, true)
	}
	return nil
}

// PostFilter lets the wrapped plugin give back devices of claims. Where another plugin has refused the pod in
// PreFilter, the wrapped plugin has not begun; it would fail then, and the pod's event would end in "not found".
func (p *Plugin) PostFilter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	nodes fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	result, status := p.DynamicResources.PostFilter(ctx, cs, pod, nodes)
	if errors.Is(status.AsError(), fwk.ErrNotFound) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return result, status
}

// bonus marks the scores of nodes with devices near the pod. It is more than the wrapped plugin gives, which is at most
// 8 for a request.
const bonus = 1 << 40

// score adds the bonus to a score of the wrapped plugin, if devices lie elsewhere than the pod on some other node. run
// computes that score from the state that has the node's allocation.
func score(cs fwk.CycleState, node string, run func(fwk.CycleState) (int64, *fwk.Status)) (int64, *fwk.Status) {
	c := read(cs)
	if c == nil {
		return run(cs)
	}
	chosen, anyApart := c.choice(node)
	if a := chosen.attempt; a != nil {
		cs = a.state
	}
	out, status := run(cs)
	if status.IsSuccess() && anyApart && !chosen.apart {
		out += bonus
	}
	return out, status
}

// EventsToRegister adds to the wrapped plugin's events that a pod of the node ends: the CPUs that it leaves may be
// beside free devices.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	out, err := p.DynamicResources.EventsToRegister(ctx)
	if err != nil {
		return nil, fmt.Errorf("events of plugin %s: %w", names.DynamicResources, err)
	}
	if p.dra == nil {
		return out, nil
	}
	return append(out, fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}}), nil
}
