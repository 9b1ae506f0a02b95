package steer

import (
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file has the managers of claims that the wrapped plugins see.

// seen is what one PreFilter of the wrapped plugin has read about the cluster's devices. It never changes.
type seen struct {
	slices  []*resourcev1.ResourceSlice
	devices sets.Set[structured.DeviceID] // allocated ones; nil if state was read
	state   *structured.AllocatedState
	kept    sets.Set[structured.DeviceID] // of them, those that no claim holds and that are kept from the pod
	open    bool                          // devices or state was read, because there is something to allocate
	claims  []*resourcev1.ResourceClaim   // all of them, for pods with extended resources
}

// owned keeps of the claims those that a pod owns. The wrapped plugin looks for one that it made for extended
// resources.
func (s *seen) owned(pod types.UID) {
	var own []*resourcev1.ResourceClaim
	for _, c := range s.claims {
		if slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod }) {
			own = append(own, c)
		}
	}
	s.claims = own
}

// allocated returns the devices that claims hold alone.
func (s *seen) allocated() sets.Set[structured.DeviceID] {
	if s.state != nil {
		return s.state.AllocatedDevices
	}
	return s.devices
}

// uses reports whether a claim holds a device, alone or with other claims.
func (s *seen) uses(id structured.DeviceID) bool {
	if s.allocated().Has(id) {
		return true
	}
	if s.state == nil {
		return false
	}
	if _, in := s.state.AggregatedCapacity[id]; in {
		return true
	}
	for share := range s.state.AllocatedSharedDeviceIDs {
		if share.Driver == id.Driver && share.Pool == id.Pool && share.Device == id.Device {
			return true
		}
	}
	return false
}

// recorder is kube-scheduler's manager. It keeps what the wrapped plugin reads in PreFilter, and which devices it
// signals in Reserve. The scheduling loop runs both one after the other.
type recorder struct {
	fwk.SharedDRAManager
	mu      sync.Mutex
	seen    seen
	signals []*resourcev1.ResourceClaim
	// index, if not nil, is brought up to date when slices are read, and shows stand-ins of them.
	index *index
	// hidden, if not nil, returns devices that count as allocated.
	hidden func() sets.Set[structured.DeviceID]
}

// use sets the index, and what is hidden.
func (r *recorder) use(x *index, hidden func() sets.Set[structured.DeviceID]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index, r.hidden = x, hidden
}

// hide adds the hidden devices to allocated ones, and returns them.
func (r *recorder) hide(allocated sets.Set[structured.DeviceID]) (all, hidden sets.Set[structured.DeviceID]) {
	r.mu.Lock()
	f := r.hidden
	r.mu.Unlock()
	if f == nil {
		return allocated, nil
	}
	if hidden = f(); len(hidden) == 0 {
		return allocated, nil
	}
	return allocated.Union(hidden), hidden
}

func (r *recorder) ResourceClaims() fwk.ResourceClaimTracker {
	return recordedClaims{r.SharedDRAManager.ResourceClaims(), r}
}

func (r *recorder) ResourceSlices() fwk.ResourceSliceLister {
	return recordedSlices{r.SharedDRAManager.ResourceSlices(), r}
}

// take returns what was read since the last take.
func (r *recorder) take() seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.seen
	r.seen = seen{}
	return out
}

// signaled returns the claims that were signaled since the last call, with their allocations.
func (r *recorder) signaled() []*resourcev1.ResourceClaim {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.signals
	r.signals = nil
	return out
}

type recordedClaims struct {
	fwk.ResourceClaimTracker
	r *recorder
}

func (c recordedClaims) List() ([]*resourcev1.ResourceClaim, error) {
	out, err := c.ResourceClaimTracker.List()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.seen.claims = out
	return out, err
}

func (c recordedClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	out, err := c.ResourceClaimTracker.ListAllAllocatedDevices()
	if err != nil {
		return out, err
	}
	out, kept := c.r.hide(out)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.seen.devices, c.r.seen.kept, c.r.seen.open = out, kept, true
	return out, nil
}

func (c recordedClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	out, err := c.ResourceClaimTracker.GatherAllocatedState()
	if err != nil || out == nil {
		return out, err
	}
	devices, kept := c.r.hide(out.AllocatedDevices)
	if kept != nil {
		copied := *out
		copied.AllocatedDevices, out = devices, &copied
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.seen.state, c.r.seen.kept, c.r.seen.open = out, kept, true
	return out, nil
}

func (c recordedClaims) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	c.r.mu.Lock()
	c.r.signals = append(c.r.signals, claim)
	c.r.mu.Unlock()
	return c.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

type recordedSlices struct {
	fwk.ResourceSliceLister
	r *recorder
}

func (l recordedSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	out, err := l.ResourceSliceLister.ListWithDeviceTaintRules()
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.r.seen.slices = out
	if err == nil && l.r.index != nil {
		l.r.index.update(out)
		out = l.r.index.shown
	}
	return out, err
}

// snapshot is a manager that shows an offer.
type snapshot struct {
	fwk.SharedDRAManager
	mu sync.Mutex
	// offer is what PreFilter sees; nil outside of it, when the manager shows what there is.
	offer *offer
	seen  *seen // by the wrapped plugin in this cycle
	// signals are claims that were signaled. Nothing is reserved for them.
	signals []*resourcev1.ResourceClaim
}

// show sets the offer.
func (s *snapshot) show(o *offer, by *seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offer, s.seen = o, by
}

func (s *snapshot) shown() (*offer, *seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer, s.seen
}

func (s *snapshot) ResourceClaims() fwk.ResourceClaimTracker {
	return snapshotClaims{s.SharedDRAManager.ResourceClaims(), s}
}

func (s *snapshot) ResourceSlices() fwk.ResourceSliceLister {
	return snapshotSlices{s.SharedDRAManager.ResourceSlices(), s}
}

func (s *snapshot) DeviceClasses() fwk.DeviceClassLister {
	if o, _ := s.shown(); o != nil && len(o.classes) > 0 {
		return limitedClasses{s.SharedDRAManager.DeviceClasses(), o.classes}
	}
	return s.SharedDRAManager.DeviceClasses()
}

type snapshotClaims struct {
	fwk.ResourceClaimTracker
	s *snapshot
}

func (c snapshotClaims) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	if o, _ := c.s.shown(); o != nil && o.claims[name].seen != nil {
		return o.claims[name].seen, nil
	}
	return c.ResourceClaimTracker.Get(namespace, name)
}

func (c snapshotClaims) SignalClaimPendingAllocation(_ types.UID, claim *resourcev1.ResourceClaim) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.signals = append(c.s.signals, claim)
	return nil
}

func (c snapshotClaims) List() ([]*resourcev1.ResourceClaim, error) {
	if o, by := c.s.shown(); o != nil {
		return by.claims, nil
	}
	return c.ResourceClaimTracker.List()
}

func (c snapshotClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	if o, _ := c.s.shown(); o != nil {
		return o.devices, nil
	}
	return c.ResourceClaimTracker.ListAllAllocatedDevices()
}

func (c snapshotClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	o, by := c.s.shown()
	if o == nil {
		return c.ResourceClaimTracker.GatherAllocatedState()
	}
	out := *by.state
	out.AllocatedDevices = o.devices
	return &out, nil
}

type snapshotSlices struct {
	fwk.ResourceSliceLister
	s *snapshot
}

func (l snapshotSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	if o, _ := l.s.shown(); o != nil {
		return o.slices, nil
	}
	return l.ResourceSliceLister.ListWithDeviceTaintRules()
}
