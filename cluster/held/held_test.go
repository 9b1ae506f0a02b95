package held_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/held"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
)

const driver = "gpu.example.com"

// world is a cluster with the node "node", on which the pod "one" holds CPUs of NUMA node 0.
type world struct {
	pods []v1.Pod
	kube.Devices
	kept   []kube.KeptDevice
	owners map[string]kube.KeptOwner
	served map[string]bool
}

// newWorld returns a world whose driver publishes two GPUs on each NUMA node: d0 and d1 on 0, d2 and d3 on 1; d4 is at
// an unknown place.
func newWorld() *world {
	w := &world{pods: []v1.Pod{*kubetest.Admitted(kubetest.CPUs("one", 2), "node")}}
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: new("node"),
		Pool: resourcev1.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1}}
	for i, numa := range []int64{0, 0, 1, 1, -1} {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("d%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"resource.kubernetes.io/numaNode": {IntValue: &numa}}})
	}
	w.Slices = append(w.Slices, s)
	return w
}

// claim gives devices to a pod by a claim that the pod names.
func (w *world) claim(pod int, devices ...string) *resourcev1.ResourceClaim {
	p := &w.pods[pod]
	c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "of-" + p.Name}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: driver, Pool: "node", Device: d})
	}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &c.Name}}
	w.Claims = append(w.Claims, c)
	return &w.Claims[len(w.Claims)-1]
}

func (w *world) of(t *testing.T) *document.Claims {
	t.Helper()
	l := kubetest.Layout(t, "node", kubetest.Two, place.SingleNUMA, 1, kubetest.Holding(&w.pods[0], "1-2"))
	n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	v := kube.ViewOf([]v1alpha1.NodeLayout{*l}, []v1.Node{n}, w.pods, nil, time.Now())
	v.Devices, v.Served = &w.Devices, w.served
	v.Kept = map[string]*kube.Kept{"node": {Devices: w.kept, Owners: w.owners}}
	return held.Of(v)
}

// node returns the devices of the node as text: "d0@0 free" or "d2@1 default/of-one(one)".
func (w *world) node(t *testing.T) (out []string) {
	t.Helper()
	n := w.of(t).Nodes["node"]
	if n == nil {
		return nil
	}
	for _, d := range n.Devices {
		text := d.Device + "@" + place0(d.NUMA)
		if d.Unpublished {
			text += "!"
		}
		for _, h := range d.Holders {
			var pods []string
			for _, p := range h.Pods {
				pods = append(pods, p.Name)
			}
			text += fmt.Sprintf(" %s/%s(%s)", h.Namespace, h.Claim, strings.Join(pods, " "))
		}
		if d.Kept != nil {
			text += " for " + d.Kept.Request + " until " + d.Kept.Until
		}
		out = append(out, text)
	}
	return out
}

func place0(numa *int32) string {
	if numa == nil {
		return "?"
	}
	return fmt.Sprint(*numa)
}

// pod returns the devices of a pod as text: "d0@0", or "d2@1 apart"; and then why claims have none.
func (w *world) pod(t *testing.T, at int) (out []string) {
	t.Helper()
	p := w.of(t).Pods[string(w.pods[at].UID)]
	if p == nil {
		return nil
	}
	for _, d := range p.Devices {
		text := d.Device + "@" + place0(d.NUMA)
		if d.Apart {
			text += " apart"
		}
		out = append(out, text)
	}
	return append(out, p.Without...)
}

func TestDevicesOfClaimsHavePlacesAndPods(t *testing.T) {
	w := newWorld()
	w.claim(0, "d1", "d2", "d4")
	if got, want := w.pod(t, 0), []string{"d1@0", "d2@1 apart", "d4@?"}; !slices.Equal(got, want) {
		t.Errorf("the pod holds %q, want %q", got, want)
	}
	want := []string{"d0@0", "d1@0 default/of-one(one)", "d2@1 default/of-one(one)", "d3@1", "d4@? default/of-one(one)"}
	if got := w.node(t); !slices.Equal(got, want) {
		t.Errorf("the node has %q, want %q", got, want)
	}
}

// The status of a claim may name any pod, and a slice any pool.
func TestWhoMayNotGiveDevicesToAPod(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   []string
	}{
		"a claim that names another pod's UID": {func(w *world) {
			w.claim(0, "d0").Status.ReservedFor[0].UID = "another"
		}, []string{"claim of-one is allocated, and not reserved for the pod"}},
		"a claim that the pod does not name": {func(w *world) {
			w.claim(0, "d0")
			w.pods[0].Spec.ResourceClaims = nil
		}, nil},
		"a claim of another namespace": {func(w *world) { w.claim(0, "d0").Namespace = "evil" },
			[]string{"claim of-one does not exist"}},
		"a claim of a template that another pod owns": {func(w *world) {
			c := w.claim(0, "d0")
			w.pods[0].Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: new("t")}
			w.pods[0].Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: &c.Name}}
			c.OwnerReferences = []metav1.OwnerReference{{Controller: new(true), UID: "another"}}
		}, []string{"claim of-one does not belong to the pod"}},
		"admin access": {func(w *world) {
			w.claim(0, "d0").Status.Allocation.Devices.Results[0].AdminAccess = new(true)
		}, []string{"claim of-one is allocated and holds no device for the pod alone"}},
		"a claim that waits": {func(w *world) { w.claim(0).Status = resourcev1.ResourceClaimStatus{} },
			[]string{"claim of-one is not allocated"}},
		"a template that is not carried out": {func(w *world) {
			w.pods[0].Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: new("t")}}
		}, []string{"claim gpus is not made from its template yet"}},
		"claims that may not be read": {func(w *world) {
			w.claim(0, "d0")
			w.Claims, w.ClaimsOf = nil, &kube.Seen{}
		}, []string{"claim of-one was not read"}},
		"a node that publishes the devices of another node": {func(w *world) {
			s := *w.Slices[0].DeepCopy()
			s.Spec.NodeName, s.Spec.Pool.Generation = new("evil"), 9
			s.Spec.Devices[0].Attributes = nil
			w.Slices = append(w.Slices, s)
			w.claim(0, "d0")
		}, []string{"d0@0"}},
		"a claim of a template": {func(w *world) {
			c := w.claim(0, "d3")
			w.pods[0].Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: new("t")}
			w.pods[0].Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: &c.Name}}
			c.OwnerReferences = []metav1.OwnerReference{{Controller: new(true), UID: w.pods[0].UID}}
		}, []string{"d3@1 apart"}},
	} {
		w := newWorld()
		c.change(w)
		if got := w.pod(t, 0); !slices.Equal(got, c.want) {
			t.Errorf("%s: the pod holds %q, want %q", name, got, c.want)
		}
		if n := w.of(t).Nodes["evil"]; n != nil && slices.ContainsFunc(n.Devices,
			func(d document.ClaimDevice) bool { return len(d.Holders) > 0 }) {
			t.Errorf("%s: the other node holds devices: %+v", name, n.Devices)
		}
	}
}

// A claim whose pods cannot be read still holds its device, and a device that no driver publishes is not lost.
func TestHoldersThatAreNotKnown(t *testing.T) {
	w := newWorld()
	w.claim(0, "d0", "gone")
	w.pods = append(w.pods, *kubetest.Admitted(kubetest.CPUs("two", 2), "node"))
	c := w.claim(1, "d3")
	c.Namespace = "secret"
	w.pods = w.pods[:1]
	want := []string{"d0@0 default/of-one(one)", "d1@0", "d2@1", "d3@1 secret/of-two()", "d4@?",
		"gone@?! default/of-one(one)"}
	if got := w.node(t); !slices.Equal(got, want) {
		t.Errorf("the node has %q, want %q", got, want)
	}
	w.Slices = nil
	if got := w.node(t); !slices.Equal(got, []string{"d0@?! default/of-one(one)", "gone@?! default/of-one(one)"}) {
		t.Errorf("without slices the node has %q", got)
	}
}

// One node cannot fill an answer, and the devices that are held stay in it.
func TestMoreDevicesThanAnAnswerHas(t *testing.T) {
	w := newWorld()
	w.claim(0, "d3")
	for i := range 4000 {
		w.Slices[0].Spec.Devices = append(w.Slices[0].Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("a%d", i)})
	}
	n := w.of(t).Nodes["node"]
	if len(n.Devices) != 2048 || n.Omitted != 4005-2048 || !slices.ContainsFunc(n.Devices,
		func(d document.ClaimDevice) bool { return d.Device == "d3" && len(d.Holders) == 1 }) {
		t.Errorf("%d devices are shown, and %d left out", len(n.Devices), n.Omitted)
	}
	w = newWorld()
	for i := range 100 {
		p := kubetest.Admitted(kubetest.CPUs(fmt.Sprintf("p%d", i), 1), "node")
		p.UID = types.UID(p.Name)
		w.pods = append(w.pods, *p)
		w.claim(1+i, "d0")
	}
	if d := w.of(t).Nodes["node"].Devices[0]; len(d.Holders) != 32 || d.MoreHolders != 68 {
		t.Errorf("%d holders are shown, and %d left out", len(d.Holders), d.MoreHolders)
	}
}
