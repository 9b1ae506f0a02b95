package steer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file allocates devices for pods that have not come. It runs a [Plugin] of its own, on claims that no API server
// has, and on the devices that one node can use.

// Planner allocates devices for pods that have not come. Its methods may be called by any goroutine.
type Planner struct {
	real fwk.SharedDRAManager

	mu     sync.Mutex // held while the plugin runs
	plugin *Plugin
	shown  shown
	near   Near // where the pod would be
}

// NewPlanner makes a planner. args are arguments of DynamicResources, or nil. It returns nil if dynamic resource
// allocation is off, and an error if the arguments are invalid.
func NewPlanner(ctx context.Context, args runtime.Object, h fwk.Handle, functions Functions) (*Planner, error) {
	if h.SharedDRAManager() == nil {
		return nil, nil
	}
	p := &Planner{real: h.SharedDRAManager()}
	p.shown.SharedDRAManager = p.real
	var err error
	p.plugin, err = New(ctx, args, handle{h, &p.shown, fwk.ProfileName(h) + "/kept"}, planned{p}, functions)
	return p, err
}

// planned implements Places.
type planned struct{ *Planner }

func (p planned) Predicted(fwk.CycleState, string) Near { return p.near }
func (p planned) Reserved(fwk.CycleState, string) Near  { return p.near }
func (p planned) Allocated(*v1.Pod, string, Near, bool) {}
func (s *shown) ResourceClaims() fwk.ResourceClaimTracker {
	return shownClaims{s.SharedDRAManager.ResourceClaims(), s}
}
func (s *shown) ResourceSlices() fwk.ResourceSliceLister {
	return shownSlices{s.SharedDRAManager.ResourceSlices(), s}
}

// shown is a manager that shows the devices that a node can use, and the claims of one pod.
type shown struct {
	fwk.SharedDRAManager
	slices []*resourcev1.ResourceSlice
	state  structured.AllocatedState
	claims map[string]*resourcev1.ResourceClaim
	// results is what the plugin has allocated.
	results []*resourcev1.AllocationResult
}

type shownClaims struct {
	fwk.ResourceClaimTracker
	s *shown
}

func (c shownClaims) List() ([]*resourcev1.ResourceClaim, error) { return nil, nil }

func (c shownClaims) Get(_, name string) (*resourcev1.ResourceClaim, error) {
	if claim := c.s.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), name)
}

func (c shownClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return c.s.state.AllocatedDevices.Clone(), nil
}

func (c shownClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	out := c.s.state
	return &out, nil
}

func (c shownClaims) SignalClaimPendingAllocation(_ types.UID, claim *resourcev1.ResourceClaim) error {
	c.s.results = append(c.s.results, claim.Status.Allocation)
	return nil
}

type shownSlices struct {
	fwk.ResourceSliceLister
	s *shown
}

func (l shownSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return l.s.slices, nil
}

// Look is what the cluster has of devices at one moment. It belongs to one goroutine.
type Look struct {
	*Planner
	state  *structured.AllocatedState
	pools  map[poolID][]*resourcev1.ResourceSlice
	of     map[string][]poolID // the pools with slices of a node
	common []poolID            // the pools with slices for several nodes
	there  map[structured.DeviceID]bool
}

// Look reads slices and allocations. A nil planner has none.
func (p *Planner) Look() (*Look, error) {
	if p == nil {
		return nil, errors.New("dynamic resource allocation is off")
	}
	all, err := p.real.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list slices of devices: %w", err)
	}
	l := &Look{Planner: p, pools: map[poolID][]*resourcev1.ResourceSlice{}, of: map[string][]poolID{},
		there: map[structured.DeviceID]bool{}}
	if l.state, err = p.allocated(); err != nil {
		return nil, err
	}
	known := map[string]map[poolID]bool{}
	for _, s := range all {
		pool, node := poolOf(s), ""
		if s.Spec.NodeName != nil {
			node = *s.Spec.NodeName
		}
		for _, id := range idsOf(s) {
			l.there[id] = true
		}
		l.pools[pool] = append(l.pools[pool], s)
		switch {
		case known[node][pool]:
			continue
		case known[node] == nil:
			known[node] = map[poolID]bool{}
		}
		if known[node][pool] = true; node == "" {
			l.common = append(l.common, pool)
		} else {
			l.of[node] = append(l.of[node], pool)
		}
	}
	return l, nil
}

// tries bounds how often allocations are read while others change.
const tries = 100

// allocated returns which devices claims have, or are about to have.
func (p *Planner) allocated() (state *structured.AllocatedState, err error) {
	for range tries {
		if state, err = p.real.ResourceClaims().GatherAllocatedState(); err == nil && state != nil {
			return state, nil
		}
	}
	return nil, fmt.Errorf("read the devices of claims: %w", err)
}

// Taken reports whether claims have one of some devices, or are about to, or whether that cannot be read.
func (p *Planner) Taken(devices []claims.ID) bool {
	state, err := p.allocated()
	if err != nil {
		return true
	}
	by := seen{state: state}
	for _, id := range devices {
		if by.uses(deviceID(id)) {
			return true
		}
	}
	return false
}

// Publishes reports whether a node may use devices.
func (l *Look) Publishes(node string) bool { return len(l.common)+len(l.of[node]) > 0 }

// Lost reports whether a device is not published any more, or claims have it.
func (l *Look) Lost(id claims.ID) bool {
	by := seen{state: l.state}
	return !l.there[deviceID(id)] || by.uses(deviceID(id))
}

// usable returns the slices that count for a node: all slices of each pool that has devices for it.
func (l *Look) usable(node string) (out []*resourcev1.ResourceSlice) {
	known := map[poolID]bool{}
	for _, list := range [][]poolID{l.of[node], l.common} {
		for _, pool := range list {
			if !known[pool] {
				known[pool] = true
				out = append(out, l.pools[pool]...)
			}
		}
	}
	return out
}

// Mark returns a number that stays the same while the devices that a node can use, and the ones of them that are taken,
// do.
func (l *Look) Mark(node string, kept func(claims.ID) bool) uint64 {
	sum, by := fnv.New64a(), seen{state: l.state}
	for _, s := range l.usable(node) {
		fmt.Fprint(sum, s.UID, s.ResourceVersion, "\n")
		for _, id := range idsOf(s) {
			if by.uses(id) || kept(claimsID(id)) {
				fmt.Fprint(sum, id.String(), "\n")
			}
		}
	}
	return sum.Sum64()
}

func claimsID(id structured.DeviceID) claims.ID {
	return claims.ID{Driver: id.Driver.String(), Pool: id.Pool.String(), Name: id.Device.String()}
}

// Allocate allocates devices on a node for a pod that would be at near, without the devices that are kept. The pod
// names the claims. why is not empty if it gets none; devices is not nil otherwise. located is true if the NUMA node
// of one of them is known.
func (l *Look) Allocate(
	ctx context.Context,
	pod *v1.Pod,
	of []*resourcev1.ResourceClaim,
	node *v1.Node,
	near Near,
	kept func(claims.ID) bool,
) (devices []claims.ID, located bool, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := *l.state
	state.AllocatedDevices = sets.New[structured.DeviceID]()
	s := shown{SharedDRAManager: l.real, slices: l.usable(node.Name), state: state,
		claims: map[string]*resourcev1.ResourceClaim{}}
	for _, slice := range s.slices {
		for _, id := range idsOf(slice) {
			if l.state.AllocatedDevices.Has(id) || kept(claimsID(id)) {
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	for _, c := range of {
		s.claims[c.Name] = c
	}
	l.shown, l.near = s, near
	defer func() { l.shown = shown{SharedDRAManager: l.real} }()
	cs, info := framework.NewCycleState(), framework.NewNodeInfo()
	info.SetNode(node)
	switch _, status := l.plugin.PreFilter(ctx, cs, pod, []fwk.NodeInfo{info}); {
	case status.IsSkip():
		return []claims.ID{}, false, ""
	case !status.IsSuccess():
		return nil, false, status.Message()
	}
	if status := l.plugin.Filter(ctx, cs, pod, info); !status.IsSuccess() {
		return nil, false, status.Message()
	}
	if status := l.plugin.Reserve(ctx, cs, pod, node.Name); !status.IsSuccess() {
		return nil, false, status.Message()
	}
	devices = []claims.ID{}
	for _, a := range l.shown.results {
		for _, r := range a.Devices.Results {
			if r.ShareID != nil || len(r.ConsumedCapacity) > 0 {
				return nil, false, "its claims get a part of a device, for which no room can be kept"
			}
		}
		devices = append(devices, claims.DevicesOf(a)...)
	}
	if n := l.plugin.index.nodes[node.Name]; n != nil {
		located = slices.ContainsFunc(devices, func(id claims.ID) bool { return n.where[id] != nil })
	}
	return devices, located, ""
}
