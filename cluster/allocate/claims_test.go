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

	podapi "github.com/tenon-numa/tenon/api/pod"
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

// keep has a request of an owner keep places and devices on node a.
func keep(v *kube.View, request, owner string, places int64, devices ...string) {
	k := &kube.Kept{Amounts: map[string]whatif.Amounts{request: {"pods": places}},
		Owners: map[string]kube.KeptOwner{request: {Owner: owner, Since: 100}}}
	for _, name := range devices {
		k.Devices = append(k.Devices, kube.KeptDevice{Driver: driver, Pool: "a", Name: name, Request: request})
	}
	v.Kept = map[string]*kube.Kept{"a": k}
}

// The devices of a request are for the pods of its owner that are not older, and for the pods that name it; a pod that
// names a request which keeps nothing is one of its owner's.
func TestDevicesOfAnOwner(t *testing.T) {
	for name, x := range map[string]struct {
		created int64
		names   string
		gets    bool
	}{
		"older":                     {created: 99},
		"not older":                 {created: 100, gets: true},
		"of a request that is over": {created: 100, names: "over", gets: true},
		"old, names the request":    {created: 1, names: "next", gets: true},
		"old, of one that is over":  {created: 1, names: "over"},
	} {
		v := waiting(1, device{name: "d0", model: "x", numa: -1})
		keep(v, "ml/next", "ml/rs", 1, "d0")
		for i := range v.Pods {
			p := v.Pods[i].Pod()
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs", Controller: new(true)}}
			p.CreationTimestamp = metav1.Unix(x.created, 0)
			if x.names != "" {
				p.Annotations = map[string]string{podapi.ConsumeAnnotation: x.names, podapi.ClassAnnotation: podapi.Class}
			}
		}
		d, why := New(v, time.Now).Of("waiting-0")
		if why != "" {
			t.Fatal(why)
		}
		if lacks := d.Lacks(whatif.Site{Node: "a"}); (lacks == nil) != x.gets {
			t.Errorf("%s: lacks %v", name, lacks)
		}
	}
}

// A pod gets the devices of one place of its request. Where it is not known which ones these are, it is not judged.
func TestDevicesOfSeveralPlaces(t *testing.T) {
	for name, x := range map[string]struct {
		wants          int
		places         int64
		kept           []string
		gets, unjudged bool
	}{
		"one place":                    {wants: 2, places: 1, kept: []string{"d0", "d1"}, gets: true},
		"two places of one device":     {wants: 1, places: 2, kept: []string{"d0", "d1"}, gets: true},
		"two devices of perhaps both":  {wants: 2, places: 2, kept: []string{"d0", "d1"}, unjudged: true},
		"perhaps of a place with none": {wants: 1, places: 2, kept: []string{"d0"}, unjudged: true},
		"more than all places have":    {wants: 3, places: 2, kept: []string{"d0", "d1"}},
	} {
		v := waiting(1, device{name: "d0", model: "x", numa: -1}, device{name: "d1", model: "x", numa: -1})
		if len(x.kept) == 1 {
			v.Devices.Slices[0].Spec.Devices = v.Devices.Slices[0].Spec.Devices[:1]
		}
		v.Devices.Claims[0].Spec.Devices.Requests[0].Exactly.Count = int64(x.wants)
		keep(v, "ml/own", "", x.places, x.kept...)
		for i := range v.Pods {
			v.Pods[i].Pod().Annotations = map[string]string{podapi.ConsumeAnnotation: "own",
				podapi.ClassAnnotation: podapi.Class}
		}
		d, why := New(v, time.Now).Of("waiting-0")
		if why != "" {
			t.Fatal(why)
		}
		if lacks := d.Lacks(whatif.Site{Node: "a"}); (lacks == nil) != x.gets || d.Unsure() != x.unjudged {
			t.Errorf("%s: lacks %v, unsure %t", name, lacks, d.Unsure())
		}
	}
}

// Once it is not known which devices a pod has got, no later pod of the node is judged.
func TestPodsAfterADoubtfulOne(t *testing.T) {
	v := waiting(2, device{name: "d0", model: "x", numa: 0}, device{name: "d1", model: "x", numa: 0},
		device{name: "d2", model: "x", numa: 1}, device{name: "d3", model: "x", numa: 1})
	keep(v, "ml/own", "", 2, "d1", "d3")
	for i := range v.Pods {
		if p := v.Pods[i].Pod(); p.Name == "waiting-0" {
			p.Annotations = map[string]string{podapi.ConsumeAnnotation: "own", podapi.ClassAnnotation: podapi.Class}
		}
	}
	all := New(v, time.Now)
	first, _ := all.Of("waiting-0")
	second, _ := all.Of("waiting-1")
	if why := first.Lacks(whatif.Site{Node: "a"}); why != nil {
		t.Fatal(why)
	}
	site := whatif.Site{Node: "a", Given: []whatif.Given{{Devices: first}}}
	if why := second.Lacks(site); len(why) != 1 || why[0].Resource != "not judged: "+before || !second.Unsure() {
		t.Errorf("judged: %v", why)
	}
}
