package allocate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

var (
	cases = flag.Int("allocate.n", 2000, "random clusters that TestDevicesAreThoseOfAnExhaustiveSearch draws")
	seed  = flag.Uint64("allocate.seed", 1, "the first seed")
)

const driver = "gpu.example.com"

// device is a device as the exhaustive search sees it.
type device struct {
	name, model, board string
	numa               int // -1: unknown
	tainted            bool
	holder             string // the UID of the pod that has it by a claim of its own, "shared", or ""
	kept               string // the request for which it is kept
}

// ask is what a request, or an alternative of it, asks for. model is "" for any.
type ask struct {
	model string
	count int
}

// demand is a claim: for each request its alternatives. same: all its devices are on one board.
type demand struct {
	requests [][]ask
	same     bool
}

// cluster is one node with devices, and pods that wait with claims.
type cluster struct {
	devices []device
	waiting [][]demand
	request []string // of each pod that waits
}

func draw(r *rand.Rand) *cluster {
	c := &cluster{}
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	for i := range r.IntN(7) {
		d := device{name: fmt.Sprint("d", i), model: pick("x", "x", "y"), board: pick("1", "2"), numa: r.IntN(5) / 2}
		if d.numa == 2 {
			d.numa = -1
		}
		d.tainted = r.IntN(10) == 0
		switch r.IntN(6) {
		case 0, 1:
			d.holder = pick("held-0", "held-1", "shared")
		case 2:
			d.kept = pick("ml/other", "ml/own")
		}
		c.devices = append(c.devices, d)
	}
	one := func() ask { return ask{pick("", "", "x", "y"), 1 + r.IntN(5)/4} }
	for range 1 + r.IntN(3) {
		var pod []demand
		for range 1 + r.IntN(5)/4 {
			d := demand{same: r.IntN(5) == 0}
			for range 1 + r.IntN(4)/3 {
				request := []ask{one()}
				if r.IntN(5) == 0 {
					request = append(request, one())
				}
				d.requests = append(d.requests, request)
			}
			pod = append(pod, d)
		}
		c.waiting, c.request = append(c.waiting, pod), append(c.request, pick("", "ml/own"))
	}
	return c
}

func selecting(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func (a ask) selectors() []resourcev1.DeviceSelector {
	if a.model == "" {
		return nil
	}
	return selecting(fmt.Sprintf("device.attributes[%q].model == %q", driver, a.model))
}

// spec returns a claim as the API has it.
func (d demand) spec() (out resourcev1.ResourceClaimSpec) {
	for i, request := range d.requests {
		x := resourcev1.DeviceRequest{Name: fmt.Sprint("r", i)}
		if len(request) == 1 {
			x.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Selectors: request[0].selectors(),
				AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(request[0].count)}
		} else {
			for k, a := range request {
				x.FirstAvailable = append(x.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprint("s", k),
					DeviceClassName: "gpu", Selectors: a.selectors(), Count: int64(a.count),
					AllocationMode: resourcev1.DeviceAllocationModeExactCount})
			}
		}
		out.Devices.Requests = append(out.Devices.Requests, x)
	}
	if d.same {
		out.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(
			resourcev1.FullyQualifiedName(driver + "/board"))}}
	}
	return out
}

// view returns the cluster as it is read.
func (c *cluster) view() *kube.View {
	v := &kube.View{Nodes: []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, Devices: &kube.Devices{},
		Kept: map[string]*kube.Kept{"a": {}}}
	class := resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = selecting(fmt.Sprintf("device.driver == %q", driver))
	v.Classes = []resourcev1.DeviceClass{class}
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: new("a"),
		Pool: resourcev1.ResourcePool{Name: "a", Generation: 1, ResourceSliceCount: 1}}
	var pods []v1.Pod
	held := map[string][]string{}
	for _, d := range c.devices {
		x := resourcev1.Device{Name: d.name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: &d.model}, "board": {StringValue: &d.board}}}
		if d.numa >= 0 {
			x.Attributes["resource.kubernetes.io/numaNode"] = resourcev1.DeviceAttribute{IntValue: new(int64(d.numa))}
		}
		if d.tainted {
			x.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
		s.Spec.Devices = append(s.Spec.Devices, x)
		if d.holder != "" {
			held[d.holder] = append(held[d.holder], d.name)
		}
		if d.kept != "" {
			v.Kept["a"].Devices = append(v.Kept["a"].Devices, kube.KeptDevice{Driver: driver, Pool: "a", Name: d.name,
				Request: d.kept})
		}
	}
	v.Devices.Slices = []resourcev1.ResourceSlice{s}
	for holder, devices := range held {
		p := pod(holder, 1)
		p.Spec.NodeName = "a"
		claim := owned(&p, 0, demand{}.spec())
		if holder == "shared" {
			claim.OwnerReferences = nil
		}
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		for _, name := range devices {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
				resourcev1.DeviceRequestAllocationResult{Driver: driver, Pool: "a", Device: name})
		}
		pods, v.Devices.Claims = append(pods, p), append(v.Devices.Claims, claim)
	}
	for i, list := range c.waiting {
		p := pod(fmt.Sprint("waiting-", i), len(list))
		if c.request[i] != "" {
			p.Annotations = map[string]string{podapi.ConsumeAnnotation: "own", podapi.ClassAnnotation: podapi.Class}
		}
		for k, d := range list {
			v.Devices.Claims = append(v.Devices.Claims, owned(&p, k, d.spec()))
		}
		pods = append(pods, p)
	}
	v.Pods = kube.StoreAll(pods)
	return v
}

// pod returns a pod of namespace ml with so many claims of a template.
func pod(name string, n int) v1.Pod {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	for i := range n {
		entry := fmt.Sprint("c", i)
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: entry,
			ResourceClaimTemplateName: new("t")})
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: entry,
			ResourceClaimName: new(name + "-" + entry)})
	}
	return p
}

// owned returns a claim of a pod.
func owned(p *v1.Pod, at int, spec resourcev1.ResourceClaimSpec) resourcev1.ResourceClaim {
	return resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace,
		Name: fmt.Sprint(p.Name, "-c", at), OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", UID: p.UID,
			Controller: new(true)}}}, Spec: spec}
}

// can reports whether the claims of a pod can get devices of a list, by trying all choices.
func can(list []demand, free []device) bool {
	if len(list) == 0 {
		return true
	}
	return list[0].each(0, free, nil, func(rest []device) bool { return can(list[1:], rest) })
}

// each calls next with the devices that are left for each choice for the requests from one on, until it returns true.
func (d demand) each(from int, free, got []device, next func(rest []device) bool) bool {
	if from == len(d.requests) {
		if d.same && slices.ContainsFunc(got, func(x device) bool { return x.board != got[0].board }) {
			return false
		}
		return next(free)
	}
	for _, a := range d.requests[from] {
		if d.choose(a, a.count, from, free, got, next) {
			return true
		}
	}
	return false
}

// choose tries all devices for what is left of a request.
func (d demand) choose(a ask, left, from int, free, got []device, next func(rest []device) bool) bool {
	if left == 0 {
		return d.each(from+1, free, got, next)
	}
	for i, x := range free {
		if a.model != "" && x.model != a.model || x.tainted {
			continue
		}
		rest := slices.Concat(free[:i], free[i+1:])
		if d.choose(a, left-1, from, rest, append(slices.Clone(got), x), next) {
			return true
		}
	}
	return false
}

// A pod gets devices where an exhaustive search finds some that no claim of a pod that stays has, that are kept for no
// other request, and that are near where they must be; and no others. Otherwise the reason is what that search finds.
func TestDevicesAreThoseOfAnExhaustiveSearch(t *testing.T) {
	counts := map[string]int{}
	for k := range uint64(*cases) {
		r := rand.New(rand.NewPCG(*seed+k, 3))
		c := draw(r)
		all := New(c.view(), time.Now)
		site := whatif.Site{Node: "a"}
		for _, uid := range []string{"held-0", "held-1"} {
			if r.IntN(2) == 0 {
				site.Freed = append(site.Freed, uid)
			}
		}
		free := slices.DeleteFunc(slices.Clone(c.devices), func(d device) bool {
			return d.holder != "" && !slices.Contains(site.Freed, d.holder)
		})
		for i, list := range c.waiting {
			d, why := all.Of(types.UID(fmt.Sprint("waiting-", i)))
			if why != "" {
				t.Fatalf("seed %d: %s", *seed+k, why)
			}
			site.Near = whatif.Near{NUMAs: [][]int{nil, {0}, {1}, {0, 1}}[r.IntN(4)], Must: r.IntN(2) == 0}
			of, _ := d.(*kind)
			got := of.at(site)
			why = c.check(list, c.request[i], free, site.Near, got)
			if why != "" {
				t.Fatalf("seed %d: pod %d wants %+v near %+v of %+v, and gets %+v: %s", *seed+k, i, list, site.Near, free, got, why)
			}
			if len(got.why) > 0 {
				counts[string(got.why[0].Code)]++
				continue
			}
			counts["devices"]++
			free = slices.DeleteFunc(free, func(x device) bool {
				return slices.ContainsFunc(got.devices, func(id structured.DeviceID) bool { return id.Device.String() == x.name })
			})
			site.Given = append(site.Given, whatif.Given{Devices: d, Near: site.Near})
		}
	}
	t.Logf("%d clusters: %v", *cases, counts)
	for _, code := range []place.Code{"devices", place.NoDevices, place.FarDevices, place.Promised, place.ByPlugin} {
		if counts[string(code)] < *cases/50 {
			t.Errorf("only %d answers are %q: the clusters test too little", counts[string(code)], code)
		}
	}
}

// check returns what is wrong with a result.
func (c *cluster) check(list []demand, request string, free []device, near whatif.Near, got result) string {
	close := func(from []device) []device {
		return slices.DeleteFunc(slices.Clone(from), func(d device) bool {
			return len(near.NUMAs) > 0 && d.numa >= 0 && !slices.Contains(near.NUMAs, d.numa)
		})
	}
	open := slices.DeleteFunc(slices.Clone(free), func(d device) bool { return d.kept != "" && d.kept != request })
	must := near.Must && len(near.NUMAs) > 0
	allowed := open
	if must || can(list, close(open)) {
		allowed = close(open)
	}
	if len(got.why) == 0 {
		var names []string
		for _, id := range got.devices {
			if name := id.Device.String(); slices.Contains(names, name) ||
				!slices.ContainsFunc(allowed, func(d device) bool { return d.name == name }) {
				return "device " + name + " is not free for it"
			}
			names = append(names, id.Device.String())
		}
		if !can(list, allowed) {
			return "there are none"
		}
		return ""
	}
	near2 := free
	if must {
		near2 = close(free)
	}
	want := place.ByPlugin
	switch {
	case can(list, allowed):
		return "there are some"
	case can(list, near2):
		want = place.Promised
	case can(list, open):
		want = place.FarDevices
	case can(list, c.devices):
		want = place.NoDevices
	}
	if got.why[0].Code != want {
		return "the reason is " + string(want)
	}
	if want == place.Promised && !strings.HasPrefix(got.why[0].With, "ml/") {
		return "the request is not named"
	}
	return ""
}

// Claims that cannot be judged are named.
func TestClaimsThatAreNotJudged(t *testing.T) {
	of := func(change func(v *kube.View, p *v1.Pod, c *resourcev1.ResourceClaim)) string {
		p := pod("p", 1)
		c := owned(&p, 0, demand{requests: [][]ask{{{count: 1}}}}.spec())
		v := (&cluster{devices: []device{{name: "d", model: "x"}}}).view()
		change(v, &p, &c)
		v.Pods, v.Devices.Claims = kube.StoreAll([]v1.Pod{p}), []resourcev1.ResourceClaim{c}
		d, why := New(v, time.Now).Of("p")
		if (d == nil) != (why != "") {
			t.Errorf("judged by %v, and not judged because %q", d, why)
		}
		return why
	}
	for want, change := range map[string]func(v *kube.View, p *v1.Pod, c *resourcev1.ResourceClaim){
		"": func(*kube.View, *v1.Pod, *resourcev1.ResourceClaim) {},
		"several pods may share claim c": func(_ *kube.View, p *v1.Pod, _ *resourcev1.ResourceClaim) {
			p.Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "c0", ResourceClaimName: new("c")}
		},
		"claim c0 is not made yet": func(_ *kube.View, p *v1.Pod, _ *resourcev1.ResourceClaim) {
			p.Status.ResourceClaimStatuses = nil
		},
		"claim p-c0 has its devices already": func(_ *kube.View, _ *v1.Pod, c *resourcev1.ResourceClaim) {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		},
		"claim p-c0 asks for access for administrators (adminAccess)": func(_ *kube.View, _ *v1.Pod,
			c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
		},
		"claim p-c0 asks for a constraint other than matchAttribute": func(_ *kube.View, _ *v1.Pod,
			c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: new(
				resourcev1.FullyQualifiedName(driver + "/board"))}}
		},
		"claim p-c0 asks for devices in a way that is not known here (request r0)": func(_ *kube.View, _ *v1.Pod,
			c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly = nil
		},
		"the pod demands devices near its CPUs": func(_ *kube.View, p *v1.Pod, _ *resourcev1.ResourceClaim) {
			p.Annotations = map[string]string{podapi.AlignAnnotation: "claim:c0"}
		},
		"some devices are for several nodes": func(v *kube.View, _ *v1.Pod, _ *resourcev1.ResourceClaim) {
			v.Devices.Slices[0].Spec.NodeName, v.Devices.Slices[0].Spec.AllNodes = nil, new(true)
		},
		"some devices can be shared, or share something": func(v *kube.View, _ *v1.Pod, _ *resourcev1.ResourceClaim) {
			v.Devices.Slices[0].Spec.Devices[0].AllowMultipleAllocations = new(true)
		},
	} {
		if got := of(change); got != want {
			t.Errorf("not judged because %q, want %q", got, want)
		}
	}
}

// An expression that fails is a reason of its own, and the search for devices ends with its time.
func TestFaultsOfClaims(t *testing.T) {
	v := (&cluster{devices: []device{{name: "d", model: "x"}}, waiting: [][]demand{{{requests: [][]ask{{{count: 1}}}}}},
		request: []string{""}}).view()
	v.Devices.Claims[0].Spec.Devices.Requests[0].Exactly.Selectors = selecting(`device.attributes["no"].such == 1`)
	d, _ := New(v, time.Now).Of("waiting-0")
	if why := d.Lacks(whatif.Site{Node: "a"}); len(why) != 1 || why[0].Code != place.ByPlugin ||
		why[0].When() != place.Changed {
		t.Errorf("an expression that fails: %v", why)
	}
	hour := time.Duration(0)
	v.Devices.Claims[0].Spec.Devices.Requests[0].Exactly.Selectors = ask{model: "y"}.selectors()
	d, _ = New(v, func() time.Time { hour += time.Hour; return time.Unix(0, 0).Add(hour) }).Of("waiting-0")
	if why := d.Lacks(whatif.Site{Node: "a"}); len(why) != 1 || why[0].When() != place.Later ||
		why[0].Resource != "not judged: "+errLong.Error() || !d.Unsure() {
		t.Errorf("a search without time: %v", why)
	}
}
