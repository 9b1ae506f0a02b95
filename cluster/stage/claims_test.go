package stage

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// claimOf gives a pod a claim of a template for one device; device is the one that it has, or "".
func claimOf(p *v1.Pod, device string) resourcev1.ResourceClaim {
	name := p.Name + "-gpu"
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("one-gpu")}}
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", UID: p.UID, Controller: new(true)}}}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	if device != "" {
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "a", Device: device}}}}
	}
	return c
}

// withGPUs returns a stage of the nodes a, with two devices, and b, without any. On a, the pod moves has one by a claim
// of a template, and the pod shares the other one by a claim that others may use. The pod waits has a claim, too.
func withGPUs(t *testing.T, change func(v *kube.View)) *Stage {
	t.Helper()
	moves := running("moves", "a", "1", controlled("ReplicaSet"))
	shares := running("shares", "a", "1", controlled("ReplicaSet"))
	waits := running("waits", "", "1", nil)
	v := &kube.View{Nodes: []v1.Node{node("a", nil), node("b", nil)}, Served: map[string]bool{},
		Classes: []resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}, Devices: &kube.Devices{}}
	v.Devices.Claims = []resourcev1.ResourceClaim{claimOf(&moves, "g0"), claimOf(&shares, "g1"), claimOf(&waits, "")}
	shares.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shares-gpu")}}
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: new("a"),
		Pool:    resourcev1.ResourcePool{Name: "a", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "g0"}, {Name: "g1"}}}
	v.Devices.Slices, v.Pods = []resourcev1.ResourceSlice{s}, kube.StoreAll([]v1.Pod{moves, shares, waits})
	change(v)
	out, err := Of(v)
	if err != nil {
		t.Fatal(err)
	}
	one := resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "one-gpu"}}
	one.Spec.Spec = *v.Devices.Claims[0].Spec.DeepCopy()
	out.templates = newTemplates([]resourcev1.ResourceClaimTemplate{one}, v.Devices)
	return out
}

// A pod that waits gets the device of a pod that leaves. Pods with claims of their own may move, and pods that share
// one may not.
func TestPodsWithClaimsWaitAndMove(t *testing.T) {
	s := withGPUs(t, func(*kube.View) {})
	w := s.Pending()[0]
	if w.Want.Devices == nil || len(w.Unjudged) > 0 {
		t.Fatalf("the claims of the pod that waits are not judged: %v", w.Unjudged)
	}
	var rules whatif.Rules
	for i, n := range s.Nodes() {
		if j := rules.Judge(&n, w.Want, nil); j.Fits() {
			t.Errorf("no device is free, and the pod fits on %s", s.Nodes()[i].Name)
		}
	}
	if n := s.Leaving(map[string]bool{"uid-moves": true}).Nodes()[0]; !rules.Judge(&n, w.Want, nil).Fits() {
		t.Errorf("a device is free, and the pod does not fit: %v", rules.Judge(&n, w.Want, nil).Reasons)
	}
	f, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
	if err != nil || len(f.Movers) != 1 || f.Movers[0].Pod.Name != "moves" || f.Movers[0].Want.Devices == nil {
		t.Errorf("%+v may move (%v)", f.Movers, err)
	}
	if len(f.Fixed) != 1 || !strings.HasPrefix(f.Fixed[0].Why, "has devices of claims (DRA), whose new devices are not "+
		"predicted: resource claims (several pods may share claim shares-gpu)") {
		t.Errorf("may not move: %+v", f.Fixed)
	}
	p := defrag.Problem{Nodes: s.Nodes(), Pods: []defrag.Goal{{Member: whatif.Member{ID: w.ID(0, 0), Want: w.Want}}},
		Movers: f.Movers, Most: 3, Trials: 100, Looks: 1000}
	if r, err := defrag.Find(p, func() error { return nil }); err != nil || r.Plan != nil {
		t.Errorf("the successor has no device, and there is a plan: %+v (%v)", r.Plan, err)
	}
}

// stateOf returns the state of a node with two NUMA nodes and no pods that hold anything.
func stateOf(t *testing.T, name string, arbiter place.Arbiter) *state.Node {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 8Gi\nnuma 1 socket 1 cpus 8-15 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Arbiter: arbiter, CPU: place.CPURules{Static: true},
		Topology: place.TopologyRules{Policy: place.SingleNUMA}}
	return &state.Node{Name: name, Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
}

// Where the agent decides, the scheduler refuses a pod if no NUMA node has both its CPUs and a device. No answer tries
// all places, so the claims of pods with exclusive CPUs are named as not judged there, and such pods do not move.
func TestClaimsAreNotJudgedWhereTheAgentDecides(t *testing.T) {
	for name, c := range map[string]struct {
		arbiter place.Arbiter
		plain   bool
		only    string
		judged  bool
	}{
		"the agent":                    {arbiter: place.ByAgent},
		"the agent, on another node":   {arbiter: place.ByAgent, only: "b", judged: true},
		"the agent, nothing exclusive": {arbiter: place.ByAgent, plain: true, judged: true},
		"the kubelet":                  {arbiter: place.ByKubelet, judged: true},
	} {
		s := withGPUs(t, func(v *kube.View) {
			v.States = []*state.Node{stateOf(t, "a", c.arbiter)}
			v.Nodes[1].Labels = map[string]string{"only": "b"}
			for _, kept := range v.Pods {
				p := kept.Pod()
				if amounts := p.Spec.Containers[0].Resources.Requests; !c.plain && p.Name == "waits" {
					amounts["memory"] = resource.MustParse("1Gi")
					p.Spec.Containers[0].Resources.Limits = amounts
				}
				if c.only != "" {
					p.Spec.NodeSelector = map[string]string{"only": c.only}
				}
			}
		})
		w := s.Pending()[0]
		if got := len(w.Unjudged) == 0; got != c.judged || w.Want.Devices == nil {
			t.Errorf("%s: judged %t, %q", name, got, w.Unjudged)
		}
		if !c.judged && !strings.Contains(w.Unjudged[0], "where Tenon's agent decides, such as a") {
			t.Errorf("%s: not judged: %q", name, w.Unjudged)
		}
	}
}

// A kubelet takes new rules once its node was drained, which frees the devices of the pods that left it.
func TestChangedRulesFreeTheDevicesOfDrainedPods(t *testing.T) {
	s := withGPUs(t, func(v *kube.View) { v.States = []*state.Node{stateOf(t, "a", place.ByKubelet)} })
	out, _, err := s.Vary(whatif.Variation{Alter: func(r place.Rules) (place.Rules, error) { return r, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var rules whatif.Rules
	if j := rules.Judge(&out.Nodes()[0], out.Pending()[0].Want, nil); !j.Fits() {
		t.Errorf("the node is empty, and the pod does not fit: %v", j.Reasons)
	}
	if j := rules.Judge(&s.Nodes()[0], s.Pending()[0].Want, nil); j.Fits() {
		t.Error("the pod fits before the drain")
	}
}

// What is kept for a request is free once the request is released, devices as well as amounts.
func TestReleasingFreesKeptDevices(t *testing.T) {
	const first, second = "ml/first", "ml/second"
	s := withGPUs(t, func(v *kube.View) {
		devices := v.Devices.Slices[0].Spec.Devices
		v.Devices.Slices[0].Spec.Devices = append(devices, resourcev1.Device{Name: "g2"})
		v.Kept = map[string]*kube.Kept{"a": {Amounts: map[string]whatif.Amounts{first: {"pods": 1}},
			Devices: []kube.KeptDevice{{Driver: "gpu.example.com", Pool: "a", Name: "g2", Request: first}}}}
	})
	fits := func(s *Stage) bool {
		return (whatif.Rules{}).Judge(&s.Nodes()[0], s.Pending()[0].Want, nil).Fits()
	}
	if fits(s) || fits(s.Releasing(map[string]bool{second: true})) {
		t.Error("the device is kept for a request, and another pod gets it")
	}
	released := s.Releasing(map[string]bool{first: true})
	if !fits(released) || !fits(released.Releasing(map[string]bool{second: true})) {
		t.Error("nothing is kept for the request, and the pod does not get the device")
	}
	if fits(s) {
		t.Error("the stage itself has changed")
	}
}

// The successor of a pod gets claims of the templates as they are now. If one is gone, the successor waits for ever, so
// its pod does not move; nor does it where the template asks for something else.
func TestPodsWhoseTemplatesChangedDoNotMove(t *testing.T) {
	const template = "one-gpu"
	other := resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: template}}
	other.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "other"}}}
	for want, list := range map[string][]resourcev1.ResourceClaimTemplate{
		"has a claim of a ResourceClaimTemplate that does not exist: one-gpu":                  {},
		"has a claim that asks for something else than its ResourceClaimTemplate now: one-gpu": {other},
		"has claims of templates (ResourceClaimTemplate), which were not read":                 nil,
	} {
		s := withGPUs(t, func(*kube.View) {})
		if s.templates = nil; list != nil {
			s.templates = newTemplates(list, s.published)
		}
		f, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
		if err != nil || len(f.Movers) > 0 {
			t.Errorf("%s: %+v may move (%v)", want, f.Movers, err)
		}
		if !slices.ContainsFunc(f.Fixed, func(x defrag.Fixed) bool { return x.Pod.Name == "moves" && x.Why == want }) {
			t.Errorf("want %q, may not move: %+v", want, f.Fixed)
		}
	}
}

// Without the classes of devices, no claim is judged, and that is named.
func TestClaimsWithoutClasses(t *testing.T) {
	s := withGPUs(t, func(v *kube.View) { v.Classes = nil })
	if w := s.Pending()[0]; w.Want.Devices != nil || len(w.Unjudged) != 1 || w.Unjudged[0] != UnjudgedClaims {
		t.Errorf("not judged: %q", w.Unjudged)
	}
}
