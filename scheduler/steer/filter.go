package steer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// PreFilter runs the wrapped plugin, and keeps what it has read about the cluster's devices.
func (p *Plugin) PreFilter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if p.dra == nil {
		return p.DynamicResources.PreFilter(ctx, cs, pod, nodes)
	}
	pod, shares := sharedLast(pod, p.dra.SharedDRAManager.ResourceClaims())
	p.dra.take()
	cs.Delete(stateKey) // of an earlier PreFilter in this cycle, whose allocations count no more
	p.dra.use(&p.index, p.hiding(cs, pod))
	named, status := p.DynamicResources.PreFilter(ctx, cs, pod, nodes)
	p.dra.use(nil, nil)
	if !status.IsSuccess() && !status.IsSkip() {
		return named, status
	}
	d, err := p.readDemand(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if status.IsSkip() {
		return named, status
	}
	c := newCycle(p.dra.take())
	if shares && c.seen.claims != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, exchanged)
	}
	c.pod, c.demand, c.kept = pod, d, c.seen.kept
	c.seen.owned(pod.UID)
	c.readClaims(pod, p.dra.SharedDRAManager.ResourceClaims())
	c.open = c.seen.open
	if !c.open {
		// Nothing is to be allocated, so the wrapped plugin read no slices.
		all, err := p.dra.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("list slices of devices: %w", err))
		}
		c.seen.slices = all
		p.index.update(all)
	}
	c.nodes, c.rest = p.index.nodes, p.index.rest
	cs.Write(stateKey, c)
	return named, status
}

// Filter allocates devices near the pod's CPUs and memory. Where there are none, it lets the wrapped plugin choose; if
// devices must be near, it then refuses the node.
func (p *Plugin) Filter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	c := read(cs)
	return c.explain(info.Node().Name, p.filter(ctx, cs, pod, info, c))
}

// filter is Filter, without the remark that devices are kept.
func (p *Plugin) filter(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
) *fwk.Status {
	if c == nil {
		return p.DynamicResources.Filter(ctx, cs, pod, info)
	}
	pod = c.pod
	name := info.Node().Name
	n := c.nodes[name]
	located := n != nil && n.located
	if !located && c.demand.empty() {
		return p.DynamicResources.Filter(ctx, cs, pod, info)
	}
	if located && n.standIns != nil {
		n.standIns.mu.Lock()
		defer n.standIns.mu.Unlock()
	}
	near := p.places.Predicted(cs, name)
	if status := c.unmet(n, near); !status.IsSuccess() {
		return status
	}
	if !located || near.Unknown {
		status := p.DynamicResources.Filter(ctx, cs, pod, info)
		if status.IsSuccess() && c.open && c.demand.limits() && !near.Unknown && len(near.NUMAs) > 0 {
			return p.filterUnlocated(ctx, cs, pod, info, c, near)
		}
		return status
	}
	return p.filterNear(ctx, cs, pod, info, c, near)
}

// filterUnlocated is Filter for a node without located devices, if the pod demands devices of classes, claims or
// requests. Where a device plugin serves the resource, or an alternative is not demanded, it may get others.
func (p *Plugin) filterUnlocated(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near Near,
) *fwk.Status {
	name := info.Node().Name
	a, _, fault := p.runLimited(ctx, cs, pod, info, c, near.NUMAs, c.asIs(name))
	switch {
	case fault != nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unclear(near.NUMAs, fault))
	case a == nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the node has no device with a known NUMA node"+asDemanded)
	}
	c.choose(name, choice{attempt: a, near: near.NUMAs})
	return nil
}

// filterNear is Filter for a node with located devices. Where no devices are near the pod, it looks for another place
// for the pod, and then the wrapped plugin looks for other devices.
func (p *Plugin) filterNear(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near Near,
) *fwk.Status {
	name := info.Node().Name
	found, fault := p.beside(ctx, cs, pod, info, c, near)
	if found.apart && near.Elsewhere != nil {
		found = p.elsewhere(ctx, cs, pod, info, c, near, found)
		if near.Elsewhere = nil; !found.moved {
			if status := c.unmet(c.nodes[name], near); !status.IsSuccess() {
				return status
			}
		}
	}
	if a := found.attempt; a != nil {
		c.choose(name, found)
		if a.state != cs && a.takesAmounts(ctx, name) {
			// kube-scheduler reads the amounts before Reserve, where only the wrapped plugin can store them.
			return p.DynamicResources.Filter(ctx, cs, pod, info)
		}
		return nil
	}
	if status := p.DynamicResources.Filter(ctx, cs, pod, info); !status.IsSuccess() {
		return status
	}
	must := near.Must && len(near.NUMAs) > 0
	demands := !c.demand.empty() && len(near.NUMAs) > 0
	switch {
	case found.apart && must:
		return fwk.NewStatus(fwk.Unschedulable, refusal(near.NUMAs))
	case fault != nil && (must || demands): // Reserve would refuse far devices, in each attempt anew
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unclear(near.NUMAs, fault))
	case c.open && found.apart && demands:
		found.attempt, fault = p.demanded(ctx, cs, pod, info, c, near.NUMAs)
		if fault != nil {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unclear(near.NUMAs, fault))
		}
		if found.attempt == nil {
			return fwk.NewStatus(fwk.Unschedulable, refusal(near.NUMAs)+asDemanded)
		}
	case c.open && found.apart && len(near.NUMAs) > 0:
		found.attempt, _, _ = p.trial.run(ctx, cs, pod, info, &c.seen, c.ordered(c.nodes[name], near.NUMAs))
	}
	c.choose(name, found)
	return nil
}

// demanded tries to allocate the devices that the pod demands on the given NUMA nodes, and the others anywhere. It
// returns nil if that is not possible.
func (p *Plugin) demanded(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near []int,
) (a *attempt, fault *fwk.Status) {
	o := c.demanded(c.nodes[info.Node().Name], near)
	if c.demand.limits() {
		a, _, fault = p.runLimited(ctx, cs, pod, info, c, near, o)
	} else {
		a, _, fault = p.trial.run(ctx, cs, pod, info, &c.seen, o)
	}
	return a, fault
}

// beside looks for devices beside a pod. The result is apart if there are none, or if devices that the pod holds
// already are elsewhere. fault is not nil if it could not find out.
func (p *Plugin) beside(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near Near,
) (found choice, fault *fwk.Status) {
	found.near = near.NUMAs
	_, found.apart = c.nodes[info.Node().Name].apart(c.held, near.NUMAs)
	found.apart = found.apart && len(near.NUMAs) > 0
	if !c.open || found.apart && near.Must {
		return found, nil
	}
	a, tried, fault := p.allocateNear(ctx, cs, pod, info, c, near)
	found.attempt, found.apart = a, found.apart || a == nil && tried
	return found, fault
}

// elsewhere looks for another place for a pod that has devices beside it. It returns found if there is none.
func (p *Plugin) elsewhere(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near Near,
	found choice,
) choice {
	for _, numas := range near.Elsewhere() {
		other := Near{NUMAs: numas, Must: true}
		if !c.unmet(c.nodes[info.Node().Name], other).IsSuccess() {
			continue
		}
		// Without an attempt, every choice is near, or there is nothing to choose.
		if x, fault := p.beside(ctx, cs, pod, info, c, other); fault == nil && !x.apart {
			x.moved = true
			return x
		}
	}
	return found
}

// asDemanded ends the reason of a node that only the pod's demand excludes.
const asDemanded = ", as " + apipod.AlignAnnotation + " demands"

// unmet refuses a node that cannot meet the pod's demand for devices, as far as that is known before devices are
// allocated. A pod without exclusive CPUs and pinned memory is nowhere, so it demands nothing.
func (c *cycle) unmet(n *ofNode, near Near) *fwk.Status {
	if near.Unknown || len(near.NUMAs) == 0 {
		return nil
	}
	for _, driver := range c.demand.drivers {
		if !n.locates(driver) {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
				fmt.Sprintf("no device of driver %s has a known NUMA node%s", driver, asDemanded))
		}
	}
	for _, id := range c.bound {
		if near.Elsewhere == nil && !n.near(id, near.NUMAs) {
			return fwk.NewStatus(fwk.Unschedulable, refusal(near.NUMAs)+asDemanded)
		}
	}
	return nil
}

// refusal returns why a node is refused: no devices of the pod's claims are near its CPUs and memory.
func refusal(numas []int) string {
	return noneNear + numaNodes(numas) + ", where its CPUs and memory would be"
}

// unclear returns why a node is refused where the wrapped plugin met an error with the devices near the pod, as with an
// expression that fails on one of them.
func unclear(numas []int, fault *fwk.Status) string {
	return "cannot find out whether the pod's claims get devices on " + numaNodes(numas) +
		", where its CPUs and memory would be: " + fault.Message()
}

const noneNear = "the pod's claims get no devices on "

// numaNodes names NUMA nodes.
func numaNodes(ids []int) string {
	if len(ids) == 1 {
		return fmt.Sprintf("NUMA node %d", ids[0])
	}
	return "NUMA nodes " + idset.Of(ids...).String()
}

// Far reports whether the plugin refused a node because devices are not near the pod; demanded is true if only the pod
// demands that they are.
func Far(status *fwk.Status) (far, demanded bool) {
	for _, why := range status.Reasons() {
		if strings.HasPrefix(why, noneNear) {
			return true, strings.HasSuffix(why, asDemanded)
		}
	}
	return false, false
}

// allocateNear tries to allocate only devices on the NUMA nodes where the pod will be, or else on as few as possible,
// and among equally few those that the claims prefer.
// It returns nil if there are none. If it could not find out, tried is false, and fault is what the wrapped plugin met.
func (p *Plugin) allocateNear(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near Near,
) (a *attempt, tried bool, fault *fwk.Status) {
	n, size, best, d := c.nodes[info.Node().Name], 0, int64(0), c.demand
	if len(near.NUMAs) == 0 {
		d = demand{} // the pod is nowhere, so it demands nothing
	}
	limited, deadline := ctx, time.Now().Add(p.limit) // the wrapped plugin bounds the first attempt itself
	for target := range c.targets(n, near.NUMAs) {
		if a != nil && len(target) > size {
			break
		}
		if tried && limited == ctx && p.limit > 0 {
			var cancel func()
			limited, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
		if err := limited.Err(); err != nil { // earlier releases of the wrapped plugin do not look
			if a != nil {
				return a, true, nil
			}
			return nil, false, fwk.AsStatus(fmt.Errorf("allocate near devices: %w", err))
		}
		one, failed, fault := p.try(limited, cs, pod, info, c, target, d)
		switch {
		case failed && a == nil:
			return nil, false, fault
		case failed:
			return a, true, nil
		}
		if tried = true; one == nil {
			continue
		}
		if c.lists == 0 {
			return one, true, nil
		}
		if got := p.prefers(ctx, one, pod, info); a == nil || got > best {
			a, size, best = one, len(target), got
		}
		if best >= resourcev1.FirstAvailableDeviceRequestMaxSize*int64(c.lists) {
			break
		}
	}
	return a, tried, nil
}

// trial runs a plugin DynamicResources on what a snapshot shows.
type trial struct {
	plugin *dynamicresources.DynamicResources
	mu     sync.Mutex // held while the plugin reads the snapshot, or signals to it
	dra    *snapshot
	// slow is true if Filter reads slices as well, and must not see what is shown for another node.
	slow bool
	one  sync.Mutex
}

// run allocates the claims of a pod on a node from an offer. It returns nil if that is not possible. failed is true if
// the plugin could not find out: the claims are not what the wrapped plugin saw, or an expression of a claim fails or
// takes too long, which is the fault.
func (t *trial) run(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	by *seen,
	o offer,
) (a *attempt, failed bool, fault *fwk.Status) {
	if t.slow {
		t.one.Lock()
		defer t.one.Unlock()
	}
	v := newView(cs)
	if status := t.prepare(ctx, v, pod, info, by, o); !status.IsSuccess() {
		return nil, true, nil
	}
	status := t.plugin.Filter(ctx, v, pod, info)
	for _, claim := range o.claims {
		*claim.seen = *claim.real // which the plugin writes if the attempt counts
	}
	switch status.Code() {
	case fwk.Success:
		return &attempt{v}, false, nil
	case fwk.Error:
		return nil, true, status
	default:
		return nil, false, nil
	}
}

// allocated returns the claims of an attempt with their allocations.
func (t *trial) allocated(
	ctx context.Context,
	a *attempt,
	pod *v1.Pod,
	node string,
) ([]*resourcev1.ResourceClaim, *fwk.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dra.signals = nil
	status := t.plugin.Reserve(ctx, &view{CycleState: a.state, alone: true}, pod, node)
	return t.dra.signals, status
}

func (t *trial) prepare(
	ctx context.Context,
	v *view,
	pod *v1.Pod,
	info fwk.NodeInfo,
	by *seen,
	o offer,
) *fwk.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dra.show(&o, by)
	defer t.dra.show(nil, nil)
	_, status := t.plugin.PreFilter(ctx, v, pod, []fwk.NodeInfo{info})
	return status
}
