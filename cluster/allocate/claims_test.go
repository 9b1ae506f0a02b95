package allocate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// waiting returns the view of a node with devices, and of so many pods that wait for one device each.
func waiting(pods int, devices ...device) *kube.View {
	c := &cluster{devices: devices, request: make([]string, pods)}
	for range pods {
		c.waiting = append(c.waiting, []demand{{requests: [][]ask{{{count: 1}}}}})
	}
	return c.view()
}

// The devices of a claim that another pod uses stay taken when the owner of the claim leaves, and the owner cannot get
// others in its place.
func TestClaimsThatOtherPodsUse(t *testing.T) {
	for name, x := range map[string]struct {
		named, reserved, ended, free bool
	}{
		"alone":                          {free: true},
		"named by another pod":           {named: true},
		"reserved for another pod":       {reserved: true},
		"both":                           {named: true, reserved: true},
		"named by a pod that has ended":  {named: true, ended: true, free: true},
		"reserved for one that is ended": {named: true, reserved: true, ended: true},
	} {
		v := waiting(1, device{name: "d0", model: "x", numa: -1, holder: "held-0"})
		at := slices.IndexFunc(v.Devices.Claims, func(c resourcev1.ResourceClaim) bool {
			return c.Status.Allocation != nil
		})
		status := &v.Devices.Claims[at].Status
		status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", UID: "held-0"}}
		if x.reserved {
			status.ReservedFor = append(status.ReservedFor,
				resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: "other"})
		}
		if x.named {
			other := pod("other", 0)
			other.Spec.NodeName = "a"
			other.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimName: new("held-0-c0")}}
			if x.ended {
				other.Status.Phase = v1.PodSucceeded
			}
			v.Pods = append(v.Pods, kube.StoreAll([]v1.Pod{other})...)
		}
		all := New(v, time.Now)
		d, why := all.Of("waiting-0")
		if why != "" {
			t.Fatal(why)
		}
		if free := d.Lacks(whatif.Site{Node: "a", Freed: []string{"held-0"}}) == nil; free != x.free {
			t.Errorf("%s: the device is free after its owner: %t", name, free)
		}
		_, why = all.Of("held-0")
		if x.free != (why == "") || why != "" && why != "another pod uses claim held-0-c0" {
			t.Errorf("%s: the owner is not judged because %q", name, why)
		}
	}
}

// kube-scheduler schedules no pod whose claim is being deleted. A pod on a node keeps such a claim until it ends.
func TestClaimsThatAreBeingDeleted(t *testing.T) {
	v := waiting(1, device{name: "d0", model: "x", numa: -1, holder: "held-0"})
	now := metav1.Unix(1, 0)
	for i := range v.Devices.Claims {
		v.Devices.Claims[i].DeletionTimestamp = &now
	}
	all := New(v, time.Now)
	if _, why := all.Of("waiting-0"); why != "claim waiting-0-c0 is being deleted" {
		t.Errorf("not judged because %q", why)
	}
	if _, why := all.Of("held-0"); why != "" {
		t.Errorf("the claim of a pod on a node is not judged because %q", why)
	}
}

// What a claim asks for that the allocator is not asked about here is not judged: new kinds of requests too.
func TestRequestsThatAreNotKnown(t *testing.T) {
	for name, change := range map[string]func(r *resourcev1.DeviceRequest){
		"neither": func(r *resourcev1.DeviceRequest) { r.Exactly = nil },
		"no mode": func(r *resourcev1.DeviceRequest) { r.Exactly.AllocationMode = "" },
		"a field of an alternative": func(r *resourcev1.DeviceRequest) {
			r.Exactly, r.FirstAvailable = nil, []resourcev1.DeviceSubRequest{{Name: "s", DeviceClassName: "gpu", Count: 1}}
		},
	} {
		v := waiting(1, device{name: "d0", model: "x", numa: -1})
		change(&v.Devices.Claims[0].Spec.Devices.Requests[0])
		if d, why := New(v, time.Now).Of("waiting-0"); d != nil || why == "" {
			t.Errorf("%s: judged", name)
		}
	}
}

// Pods whose claims take long to judge leave time for the others, which get an answer.
func TestClaimsThatTakeLong(t *testing.T) {
	v := waiting(40, device{name: "d0", model: "x", numa: -1})
	for i := range v.Devices.Claims { // each of another kind, and no device for the hard ones
		if r := &v.Devices.Claims[i].Spec.Devices.Requests[0]; i < 39 {
			r.Name, r.Exactly.Selectors = fmt.Sprint("r", i), ask{model: "y"}.selectors()
		}
	}
	at, slow := time.Unix(0, 0), true
	all := New(v, func() time.Time {
		if slow {
			at = at.Add(950 * time.Millisecond)
		}
		return at
	})
	for i := range 39 {
		hard, _ := all.Of(types.UID(fmt.Sprint("waiting-", i)))
		if hard.Lacks(whatif.Site{Node: "a"}) == nil {
			t.Errorf("pod %d gets devices that are not there", i)
		}
	}
	slow = false
	if easy, _ := all.Of("waiting-39"); easy.Lacks(whatif.Site{Node: "a"}) != nil || easy.Unsure() {
		t.Error("the claims of others have used up the time of a pod for which a device is free")
	}
}

// A claim that asks for no device gets none, also where there are none.
func TestClaimsWithoutRequests(t *testing.T) {
	for name, change := range map[string]func(v *kube.View){
		"no slices": func(v *kube.View) { v.Devices.Slices = nil },
		"slices":    func(*kube.View) {},
	} {
		v := waiting(1, device{name: "d0", model: "x", numa: -1})
		v.Devices.Claims[0].Spec.Devices.Requests = nil
		change(v)
		d, why := New(v, time.Now).Of("waiting-0")
		if why != "" {
			t.Fatal(why)
		}
		if lacks := d.Lacks(whatif.Site{Node: "a"}); lacks != nil {
			t.Errorf("%s: %v", name, lacks)
		}
	}
}

// The allocator uses no pool until its driver has published all slices, which passes by itself.
func TestPoolsThatAreNotWhole(t *testing.T) {
	v := waiting(1, device{name: "d0", model: "x", numa: -1})
	v.Devices.Slices[0].Spec.Pool.ResourceSliceCount = 2
	d, _ := New(v, time.Now).Of("waiting-0")
	if why := d.Lacks(whatif.Site{Node: "a"}); len(why) != 1 || why[0].Text() != notWhole || why[0].When() != place.Later {
		t.Errorf("refused because %v", why)
	}
}

// What pods have got before is looked up, so that a node fills up without a repetition of all that came before.
func TestManyPodsOnOneNode(t *testing.T) {
	const pods = 120
	var devices []device
	for i := range pods {
		devices = append(devices, device{name: fmt.Sprintf("d%03d", i), model: "x", numa: -1})
	}
	v := waiting(pods, devices...)
	for i := range v.Devices.Claims { // each of another kind
		v.Devices.Claims[i].Spec.Devices.Requests[0].Name = fmt.Sprint("r", i)
	}
	asked := 0
	all := New(v, func() time.Time { asked++; return time.Unix(0, 0) })
	site := whatif.Site{Node: "a"}
	for i := range pods {
		d, _ := all.Of(types.UID(fmt.Sprint("waiting-", i)))
		if d.Lacks(site) != nil {
			t.Fatalf("pod %d gets no device", i)
		}
		site.Given = append(site.Given, whatif.Given{Devices: d})
	}
	if asked != 2*pods {
		t.Errorf("the allocator ran %d times for %d pods", asked/2, pods)
	}
	if d, _ := all.Of("waiting-0"); d.Lacks(site) == nil {
		t.Error("one more pod gets a device")
	}
}
