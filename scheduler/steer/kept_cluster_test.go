package steer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/promise"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

const draDriver = "gpu.example.com"

// dra has slices and claims as kube-scheduler's manager would have them. The allocator is kube-scheduler's own.
type dra struct {
	fwk.SharedDRAManager // what no test calls
	slices               []*resourcev1.ResourceSlice
	claims               map[string]*resourcev1.ResourceClaim // of pods, by name
	pending              map[types.UID]*resourcev1.AllocationResult
	// signaled, if not nil, is called once when devices are reserved.
	signaled  func()
	templates map[string]resourcev1.ResourceClaimSpec
}

func newDRA() *dra {
	return &dra{claims: map[string]*resourcev1.ResourceClaim{}, pending: map[types.UID]*resourcev1.AllocationResult{},
		templates: map[string]resourcev1.ResourceClaimSpec{}}
}

func (d *dra) ResourceClaims() fwk.ResourceClaimTracker { return draClaims{d} }
func (d *dra) ResourceSlices() fwk.ResourceSliceLister  { return draSlices{d} }
func (d *dra) DeviceClasses() fwk.DeviceClassLister     { return draClasses{d} }

type draSlices struct{ *dra }

func (l draSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return l.slices, nil
}

type draClasses struct{ *dra }

func (draClasses) List() ([]*resourcev1.DeviceClass, error) {
	return []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}, nil
}

func (draClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (draClasses) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass { return nil }

type draClaims struct{ *dra }

func (c draClaims) List() (out []*resourcev1.ResourceClaim, _ error) { return out, nil }

func (c draClaims) Get(_, name string) (*resourcev1.ResourceClaim, error) {
	if x := c.claims[name]; x != nil {
		return x, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), name)
}

// allocated returns the devices of claims, and fails the test if two have the same.
func (d *dra) allocated(t *testing.T) map[claims.ID]string {
	t.Helper()
	out := map[claims.ID]string{}
	for name, c := range d.claims {
		for _, a := range []*resourcev1.AllocationResult{c.Status.Allocation, d.pending[c.UID]} {
			for _, id := range claims.DevicesOf(a) {
				if out[id] != "" && out[id] != name {
					t.Fatalf("claims %s and %s have device %s", name, out[id], id)
				}
				out[id] = name
			}
		}
	}
	return out
}

func (c draClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	out := sets.New[structured.DeviceID]()
	for _, x := range c.claims {
		for _, a := range []*resourcev1.AllocationResult{x.Status.Allocation, c.pending[x.UID]} {
			for _, id := range claims.DevicesOf(a) {
				out.Insert(structured.MakeDeviceID(id.Driver, id.Pool, id.Name))
			}
		}
	}
	return out, nil
}

func (c draClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	all, err := c.ListAllAllocatedDevices()
	return &structured.AllocatedState{AllocatedDevices: all,
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection()}, err
}

func (c draClaims) SignalClaimPendingAllocation(uid types.UID, x *resourcev1.ResourceClaim) error {
	c.pending[uid] = x.Status.Allocation
	if do := c.signaled; do != nil {
		c.dra.signaled = nil
		do()
	}
	return nil
}

func (c draClaims) GetPendingAllocation(uid types.UID) *resourcev1.AllocationResult {
	return c.pending[uid]
}
func (c draClaims) ClaimHasPendingAllocation(uid types.UID) bool { return c.pending[uid] != nil }

func (c draClaims) RemoveClaimPendingAllocation(uid types.UID) bool {
	return c.MaybeRemoveClaimPendingAllocation(uid, true)
}

func (c draClaims) MaybeRemoveClaimPendingAllocation(uid types.UID, _ bool) bool {
	_, had := c.pending[uid]
	delete(c.pending, uid)
	return had
}

func (c draClaims) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error { return nil }
func (c draClaims) AssumedClaimRestore(_, _ string)                         {}

// publish adds a slice of a node with devices on these NUMA nodes.
func (d *dra) publish(node string, numas ...int64) {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: draDriver, NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for i, numa := range numas {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"resource.kubernetes.io/numaNode": {IntValue: &numa}}})
	}
	d.slices = append(d.slices, s)
}

// numaOf returns the NUMA node of a device.
func (d *dra) numaOf(id claims.ID) int {
	for _, s := range d.slices {
		for _, x := range s.Spec.Devices {
			if s.Spec.Pool.Name == id.Pool && x.Name == id.Name {
				return int(*x.Attributes["resource.kubernetes.io/numaNode"].IntValue)
			}
		}
	}
	return -1
}

func keptGPUs(n int64) (out resourcev1.ResourceClaimSpec) {
	out.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}}}
	return out
}

// gpuWorld is a world whose nodes have devices, with the plugin that allocates claims.
type gpuWorld struct {
	*keptWorld
	*dra
	planner *steer.Planner
	plugin  *steer.Plugin
	// now is the pod that is being scheduled.
	now promise.Coming
}

func newGPUWorld(t *testing.T, nodes int) *gpuWorld {
	t.Helper()
	w := &gpuWorld{keptWorld: newKeptWorld(t, nodes), dra: newDRA()}
	client := fake.NewClientset()
	h := handle{client: client, informers: informers.NewSharedInformerFactory(client, 0), dra: w.dra}
	var err error
	if w.planner, err = steer.NewPlanner(t.Context(), nil, h, nil); err != nil {
		t.Fatal(err)
	}
	if w.plugin, err = steer.New(t.Context(), nil, h, w, nil); err != nil {
		t.Fatal(err)
	}
	w.plugin.Heed(w)
	w.restart()
	return w
}

// restart starts the controller, in place of the one before.
func (w *gpuWorld) restart() {
	w.keptWorld.start()
	w.keeper.Check(w.planner.Taken)
	w.WithClaims(w)
}

// Look, Serves, Template and Node implement Claims.
func (w *gpuWorld) Look() (capacity.Look, error) {
	l, err := w.planner.Look()
	return gpuLook{l, w}, err
}

func (w *gpuWorld) Serves(*v1.Pod) (bool, error) { return false, nil }

func (w *gpuWorld) Template(_ context.Context, _, name string) (*resourcev1.ResourceClaimTemplate, error) {
	if spec, has := w.dra.templates[name]; has {
		return &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplates"), name)
}

func (w *gpuWorld) Node(name string) *state.Node { return w.book.Snapshot().Node(name) }

type gpuLook struct {
	*steer.Look
	*gpuWorld
}

func (l gpuLook) Allocate(ctx context.Context, x *capacity.Claiming, n *state.Node, holdings []place.Holding,
	kept func(claims.ID) bool) (out promise.Devices, why string) {
	out.On = place.Exclusive(n.Machine, holdings)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	out.IDs, _, why = l.Look.Allocate(ctx, x.Pod, x.Claims, node, nearOf(n.Machine, out.On), kept)
	return out, why
}

func nearOf(m *topo.Machine, on topo.Mask) (out steer.Near) {
	for _, id := range m.IDs(on) {
		out.NUMAs = append(out.NUMAs, int(id))
	}
	out.Must = true
	return out
}

// Predicted, Reserved and Allocated implement steer.Places.
func (w *gpuWorld) Predicted(_ fwk.CycleState, node string) steer.Near {
	n, _, _ := w.Node(node).Redeem(w.now.Request, w.now.Pod, w.now.Demand, w.now.Claims)
	return nearOf(n.Machine, n.Landing(w.now.Pod, w.now.Demand))
}

func (w *gpuWorld) Reserved(_ fwk.CycleState, node string) steer.Near {
	n := w.Node(node)
	e, _ := n.Entry(w.now.UID)
	return nearOf(n.Machine, place.Exclusive(n.Machine, e.Holdings))
}

func (w *gpuWorld) Allocated(*v1.Pod, string, steer.Near, bool) {}

// Hidden, Offers and Take implement steer.Promises.
func (w *gpuWorld) Hidden() map[claims.ID]bool { return w.keeper.Hidden() }

func (w *gpuWorld) Offers(fwk.CycleState, *v1.Pod, map[claims.ID]bool) map[string][][]claims.ID {
	return w.keeper.Offers(w.now)
}

func (w *gpuWorld) Take(_ fwk.CycleState, pod *v1.Pod, devices []claims.ID) bool {
	return w.keeper.Take(string(pod.UID), devices)
}

// try tries to place a pod on a node, as the scheduler's plugins do one after the other. between runs after devices
// were chosen, and before they are reserved. bind is false if the pod cannot be bound in the end.
func (w *gpuWorld) try(ctx context.Context, c promise.Coming, pod *v1.Pod, between func(), bind bool) (why string) {
	w.now = c
	n := w.Node(c.Node)
	if with, _, _ := n.Redeem(c.Request, c.Pod, c.Demand, c.Claims); !with.Takes(c.Pod, c.Demand) {
		return "no room on NUMA nodes"
	}
	cs, info := framework.NewCycleState(), framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Node}})
	if _, s := w.plugin.PreFilter(ctx, cs, pod, []fwk.NodeInfo{info}); s.IsSkip() {
		cs = nil
	} else if !s.IsSuccess() {
		return s.Message()
	}
	if cs != nil {
		if s := w.plugin.Filter(ctx, cs, pod, info); !s.IsSuccess() {
			return s.Message()
		}
	}
	between()
	w.now = c
	fits := false
	c.On = w.Node(c.Node).Landing(c.Pod, c.Demand)
	w.keeper.Use(c, func(whatif.Amounts) bool {
		v, known := w.book.Reserve(c.Node, state.PodID{UID: c.UID, Name: pod.Name, Namespace: "ml"}, c.Pod, c.Demand)
		fits = known && v.Fits()
		return fits
	})
	if !fits {
		return "reserve: no room on NUMA nodes"
	}
	s := (*fwk.Status)(nil)
	if cs != nil {
		s = w.plugin.Reserve(ctx, cs, pod, c.Node)
	}
	if !s.IsSuccess() || !bind {
		if cs != nil {
			w.plugin.Unreserve(ctx, cs, pod, c.Node)
		}
		w.keeper.GiveBack(c.UID)
		w.book.Unreserve(c.UID)
		return "reserve: " + s.Message()
	}
	for _, x := range w.claims(pod) {
		x.Status.Allocation = w.pending[x.UID]
		delete(w.pending, x.UID)
	}
	w.keeper.Came(c.UID)
	w.report(c.Node)
	return ""
}

// claims returns the claims of a pod.
func (w *gpuWorld) claims(pod *v1.Pod) (out []*resourcev1.ResourceClaim) {
	for _, x := range pod.Status.ResourceClaimStatuses {
		out = append(out, w.dra.claims[*x.ResourceClaimName])
	}
	return out
}

// report has a node report what was predicted.
func (w *gpuWorld) report(node string) {
	n := w.Node(node)
	l := state.Layout{Machine: n.Machine, Rules: n.Rules}
	for _, e := range n.Entries {
		e.Source = state.Observed
		l.Entries = append(l.Entries, e)
	}
	w.book.Report(node, l)
}

// end ends a pod, and deletes its claims.
func (w *gpuWorld) end(pod *v1.Pod, node string) {
	w.book.Release(string(pod.UID))
	for _, x := range w.claims(pod) {
		delete(w.dra.claims, x.Name)
	}
	w.report(node)
}

// keptOn returns the devices that are kept on a node.
func (w *gpuWorld) keptOn(node string) (out []claims.ID) {
	for _, x := range w.keeper.On(node) {
		out = append(out, x.IDs...)
	}
	slices.SortFunc(out, claims.ID.Compare)
	return out
}
