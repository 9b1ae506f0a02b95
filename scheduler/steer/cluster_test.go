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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/featuregate"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// cluster holds the claims, classes and slices of one node, as kube-scheduler's manager of claims would have them. The
// plugins that run on it are kube-scheduler's own ones.
type cluster struct {
	fwk.SharedDRAManager // what other releases have, and no test calls

	slices  []*resourcev1.ResourceSlice
	classes map[string]*resourcev1.DeviceClass
	claims  map[string]*resourcev1.ResourceClaim
	taken   sets.Set[structured.DeviceID]
	// consumed is what other claims have of devices that several claims share.
	consumed structured.ConsumedCapacityCollection
	pending  map[types.UID]*resourcev1.AllocationResult
	// extended is the resource that a class serves.
	extended map[v1.ResourceName]string
	// reading, if not nil, is called whenever a plugin reads a class.
	reading func()
	// lists is how often a plugin listed all claims.
	lists int
}

func (c *cluster) ResourceClaims() fwk.ResourceClaimTracker                     { return tracker{c} }
func (c *cluster) ResourceSlices() fwk.ResourceSliceLister                      { return lister{c} }
func (c *cluster) DeviceClasses() fwk.DeviceClassLister                         { return classes{c} }
func (l lister) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) { return l.slices, nil }

type lister struct{ *cluster }

type classes struct{ *cluster }

func (c classes) List() (out []*resourcev1.DeviceClass, _ error) {
	for _, class := range c.classes {
		out = append(out, class)
	}
	return out, nil
}

func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if c.reading != nil {
		c.reading()
	}
	if class := c.classes[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "deviceclasses"}, name)
}

func (c classes) GetDeviceClass(r v1.ResourceName) *resourcev1.DeviceClass {
	return c.classes[c.extended[r]]
}

type tracker struct{ *cluster }

func (t tracker) List() (out []*resourcev1.ResourceClaim, _ error) {
	t.lists++
	for _, c := range t.claims {
		out = append(out, c)
	}
	return out, nil
}

func (t tracker) Get(_, name string) (*resourcev1.ResourceClaim, error) {
	if c := t.claims[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, name)
}

func (t tracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return t.taken, nil
}

func (t tracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{AllocatedDevices: t.taken,
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       t.consumed}, nil
}

func (t tracker) SignalClaimPendingAllocation(uid types.UID, c *resourcev1.ResourceClaim) error {
	if t.pending[uid] == nil { // another pod of a group may have reserved it
		t.pending[uid] = c.Status.Allocation
	}
	return nil
}

func (t tracker) GetPendingAllocation(uid types.UID) *resourcev1.AllocationResult {
	return t.pending[uid]
}

func (t tracker) ClaimHasPendingAllocation(uid types.UID) bool { return t.pending[uid] != nil }

func (t tracker) RemoveClaimPendingAllocation(uid types.UID) bool {
	return t.MaybeRemoveClaimPendingAllocation(uid, true)
}

func (t tracker) MaybeRemoveClaimPendingAllocation(uid types.UID, _ bool) bool {
	_, had := t.pending[uid]
	delete(t.pending, uid)
	return had
}

func (t tracker) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error { return nil }
func (t tracker) AssumedClaimRestore(_, _ string)                         {}

// needs skips a test if this release of kube-scheduler does not have a feature by default.
func needs(t *testing.T, gate featuregate.Feature) {
	t.Helper()
	if !has(gate) {
		t.Skipf("feature gate %s is off in this release", gate)
	}
}

var gates = utilfeature.DefaultMutableFeatureGate.GetAll()

func has(gate featuregate.Feature) bool {
	_, known := gates[gate]
	return known && utilfeature.DefaultFeatureGate.Enabled(gate)
}

const (
	partitions featuregate.Feature = "DRAPartitionableDevices"
	capacities featuregate.Feature = "DRAConsumableCapacity"
	extended   featuregate.Feature = "DRAExtendedResource"
	admins     featuregate.Feature = "DRAAdminAccess"
	lists      featuregate.Feature = "DRAPrioritizedList"
	taints     featuregate.Feature = "DRADeviceTaints"
)

// handle is what the plugins need of kube-scheduler.
type handle struct {
	fwk.Handle
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	dra       fwk.SharedDRAManager
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h handle) SharedDRAManager() fwk.SharedDRAManager                 { return h.dra }
func (h handle) ProfileName() string                                    { return "default-scheduler" }

// bench is a plugin on a cluster that a test changes between pods.
type bench struct {
	*cluster
	plugin *steer.Plugin
	near   steer.Near
	// moved, if not nil, is where the pod is once its CPUs are reserved.
	moved  *steer.Near
	undone int
	// predictions is how often the plugin asked where the pod would be.
	predictions int
	kept        []int // where a pod must stay
	// functions are what agents report.
	functions kube.Functions
}

func newBench(t testing.TB) *bench {
	t.Helper()
	client := fake.NewClientset()
	b := &bench{cluster: &cluster{}}
	h := handle{client: client, informers: informers.NewSharedInformerFactory(client, 0), dra: b}
	var err error
	if b.plugin, err = steer.New(context.Background(), nil, h, b, &b.functions); err != nil {
		t.Fatal(err)
	}
	b.clear()
	return b
}

// clear removes everything from the cluster.
func (b *bench) clear() {
	*b.cluster = cluster{classes: map[string]*resourcev1.DeviceClass{}, claims: map[string]*resourcev1.ResourceClaim{},
		taken: sets.New[structured.DeviceID](), pending: map[types.UID]*resourcev1.AllocationResult{},
		extended: map[v1.ResourceName]string{}, consumed: structured.NewConsumedCapacityCollection()}
	b.moved = nil
}

func (b *bench) Predicted(fwk.CycleState, string) steer.Near {
	b.predictions++
	return b.near
}

func (b *bench) Allocated(_ *v1.Pod, _ string, at steer.Near, near bool) {
	if !near {
		b.undone++
		return
	}
	b.kept = at.NUMAs
}

func (b *bench) Reserved(fwk.CycleState, string) steer.Near {
	if b.moved != nil {
		return *b.moved
	}
	return b.near
}

// claim adds a claim, and lets a pod use it.
func (b *bench) claim(pod *v1.Pod, spec resourcev1.DeviceClaim) {
	name := fmt.Sprintf("claim-%d", len(b.claims))
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	c.Spec.Devices = spec
	b.claims[name] = c
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: name, ResourceClaimName: &name})
}

// forExtended stands for the claim that kube-scheduler makes for extended resources.
const forExtended = "extended"

// outcome is what the plugin did with a pod on the node.
type outcome struct {
	devices []string // driver/pool/device, ascending
	granted []string // the same with the claim and the request in front
	why     string   // why it was refused
}

// schedule runs a pod through the plugin's extension points. The pod gets no devices if a point refuses it.
func (b *bench) schedule(ctx context.Context, t testing.TB, pod *v1.Pod) outcome {
	t.Helper()
	return b.scheduleIn(ctx, t, framework.NewCycleState(), pod)
}

// scheduleIn is schedule in a cycle that has a state already.
func (b *bench) scheduleIn(ctx context.Context, t testing.TB, cs fwk.CycleState, pod *v1.Pod) outcome {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	if _, status := b.plugin.PreFilter(ctx, cs, pod, []fwk.NodeInfo{info}); !status.IsSuccess() {
		return outcome{why: status.Message()}
	}
	if status := b.plugin.Filter(ctx, cs, pod, info); !status.IsSuccess() {
		if status.Code() == fwk.Error {
			t.Fatalf("Filter fails: %v", status.AsError())
		}
		return outcome{why: status.Message()}
	}
	if status := b.plugin.Reserve(ctx, cs, pod, "node"); !status.IsSuccess() {
		if status.Code() == fwk.Error {
			t.Fatalf("Reserve fails: %v", status.AsError())
		}
		b.plugin.Unreserve(ctx, cs, pod, "node")
		return outcome{why: status.Message()}
	}
	var out outcome
	for uid, a := range b.pending {
		claim := string(uid)
		if b.claims[claim] == nil {
			claim = forExtended
		}
		for _, r := range a.Devices.Results {
			out.devices = append(out.devices, r.Driver+"/"+r.Pool+"/"+r.Device)
			out.granted = append(out.granted, claim+"/"+r.Request+" "+out.devices[len(out.devices)-1])
		}
	}
	slices.Sort(out.devices)
	slices.Sort(out.granted)
	return out
}
