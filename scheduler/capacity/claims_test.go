package capacity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// gpu is a device of a node.
type gpu struct {
	id   claims.ID
	numa int
}

// gpus are devices as a driver publishes them, and templates for claims of them. A claim gets the first free ones, and
// only near ones if the pod demands that. Package steer's tests have kube-scheduler's allocator instead.
type gpus struct {
	*world
	all       []gpu
	templates map[string]*resourcev1.ResourceClaimTemplate
	read      atomic.Int32  // how often templates were read
	allocated int           // how often devices were allocated
	slow      string        // pods with this name take the time of all their Allocate calls
	takes     time.Duration // how long that is
}

func newGPUs(t *testing.T, nodes int, numas ...int) *gpus {
	t.Helper()
	g := &gpus{world: newWorld(t, nodes, 8), templates: map[string]*resourcev1.ResourceClaimTemplate{}}
	for _, n := range g.nodes {
		for i, numa := range numas {
			g.all = append(g.all, gpu{claims.ID{Driver: "gpu.example.com", Pool: n.Name, Name: fmt.Sprint("gpu-", i)}, numa})
		}
	}
	g.restart()
	return g
}

func (g *gpus) restart() {
	g.start()
	g.WithClaims(g)
}

// asks stores a request for equal pods with a claim for some devices.
func (g *gpus) asks(name string, count, cpus int, devices int64, annotations map[string]string) {
	g.ask(name, count, cpus)
	template := fmt.Sprint("gpus-", devices)
	t := &resourcev1.ResourceClaimTemplate{}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: devices}}}
	g.templates[template] = t
	at := &g.stored.templates[name].Template
	at.Annotations = annotations
	at.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
}

// look lets some time pass, and looks at the requests.
func (g *gpus) look(t *testing.T, after time.Duration) {
	g.time = g.time.Add(after)
	g.round(t.Context())
}

// keptFor returns the names of the devices that are kept for a request on a node.
func (g *gpus) keptFor(name, node string) (out []string) {
	for _, x := range g.keeper.On(node) {
		if x.Request == "ml/"+name {
			for _, id := range x.IDs {
				out = append(out, id.Name)
			}
		}
	}
	return out
}

// Look, Serves, Template and Node implement Claims.
func (g *gpus) Look() (Look, error)          { return g, nil }
func (g *gpus) Serves(*v1.Pod) (bool, error) { return false, nil }
func (g *gpus) Node(name string) *state.Node { return g.book.Snapshot().Node(name) }

func (g *gpus) Template(_ context.Context, _, name string) (*resourcev1.ResourceClaimTemplate, error) {
	g.read.Add(1)
	if t := g.templates[name]; t != nil {
		return t, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplates"), name)
}

// Publishes, Mark, Lost and Allocate implement Look.
func (g *gpus) Publishes(string) bool { return true }

func (g *gpus) Mark(node string, kept func(claims.ID) bool) (mark uint64) {
	for _, x := range g.all {
		mark *= 2
		if x.id.Pool == node && !kept(x.id) {
			mark++
		}
	}
	return mark
}

func (g *gpus) Lost(id claims.ID) bool {
	return !slices.ContainsFunc(g.all, func(x gpu) bool { return x.id == id })
}

func (g *gpus) Allocate(ctx context.Context, p *Claiming, n *state.Node, holdings []place.Holding,
	kept func(claims.ID) bool) (out promise.Devices, why string) {
	g.allocated++
	if g.slow != "" && p.Pod.Name == g.slow {
		g.time = g.time.Add(g.takes)
	}
	if ctx.Err() != nil {
		return out, ctx.Err().Error()
	}
	on, near := place.Exclusive(n.Machine, holdings), pod.NearDevices(p.Pod).Any()
	out.IDs = []claims.ID{}
	for _, c := range p.Claims {
		want := len(out.IDs) + int(c.Spec.Devices.Requests[0].Exactly.Count)
		for _, x := range g.all {
			there := slices.ContainsFunc(n.Machine.IDs(on), func(id idset.NUMA) bool { return int(id) == x.numa })
			if len(out.IDs) < want && x.id.Pool == n.Name && !kept(x.id) && !slices.Contains(out.IDs, x.id) && (there || !near) {
				out.IDs = append(out.IDs, x.id)
			}
		}
		if len(out.IDs) < want {
			return promise.Devices{}, "no device is free"
		}
	}
	if near {
		out.On = on
	}
	return out, ""
}

// nearGPUs demands the devices of the claim near the pod's CPUs.
func nearGPUs() map[string]string { return map[string]string{pod.AlignAnnotation: "claim:gpus"} }

// Where a device is gone and no other one is free, only the bookings end that had it.
func TestALostDeviceEndsOnlyItsBooking(t *testing.T) {
	g := newGPUs(t, 1, 0, 0, 0)
	g.asks("others", 1, 2, 1, nil)
	g.look(t, time.Second)
	g.asks("has-it", 1, 2, 2, nil)
	g.look(t, time.Second)
	g.ask("cpus", 1, 2)
	for range 3 {
		g.look(t, time.Second)
	}
	for _, name := range []string{"others", "has-it", "cpus"} {
		g.wants(t, name, provisioning.Provisioned, "True")
	}
	lost := g.keptFor("has-it", "n0000")[1]
	g.all = slices.DeleteFunc(g.all, func(x gpu) bool { return x.id.Name == lost })
	for range 10 {
		g.look(t, tick)
	}
	g.wants(t, "has-it", provisioning.BookingExpired, "True")
	if got := g.said("has-it", provisioning.BookingExpired); !strings.Contains(got, "n0000/"+lost) {
		t.Errorf("the end of the booking does not name device %s: %s", lost, got)
	}
	for _, name := range []string{"others", "cpus"} {
		if got := g.said(name, provisioning.BookingExpired); got != "" {
			t.Errorf("request %s had not the device, and its booking ended: %s", name, got)
		}
	}
}

// Pods exchange devices only if TenonClaims treats them alike: with the same demands, in the same profile.
func TestClaimsOfTellsPodsApart(t *testing.T) {
	claimsOf := func(change func(p *v1.Pod)) string {
		p := &v1.Pod{}
		p.Namespace, p.Spec.SchedulerName = "ml", "tenon-scheduler"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")},
			{Name: "nic", ResourceClaimTemplateName: new("u")}}
		change(p)
		return ClaimsOf(p, nil)
	}
	demands := func(value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations = map[string]string{pod.AlignAnnotation: value} }
	}
	plain := claimsOf(func(*v1.Pod) {})
	for name, other := range map[string]func(*v1.Pod){
		"a demanded claim":  demands("claim:gpu"),
		"a demanded driver": demands("driver:gpu.example.com"),
		"a demanded class":  demands("class:gpu"),
		"another profile":   func(p *v1.Pod) { p.Spec.SchedulerName = "near" },
		"another namespace": func(p *v1.Pod) { p.Namespace = "other" },
		"templates of the other claims": func(p *v1.Pod) {
			p.Spec.ResourceClaims[0].Name, p.Spec.ResourceClaims[1].Name = "nic", "gpu"
		},
	} {
		if claimsOf(other) == plain {
			t.Errorf("%s makes no difference", name)
		}
	}
	if a, b := claimsOf(demands("claim:gpu,class:gpu")), claimsOf(demands("class:gpu,cpu,claim:gpu")); a != b {
		t.Errorf("the order of demands makes a difference: %q, %q", a, b)
	}
	if got := claimsOf(func(p *v1.Pod) { p.Spec.ResourceClaims = nil }); got != "" {
		t.Errorf("a pod without claims has %q", got)
	}
}

// A template is read once for a request, however often its pods name it. Requests with too many of them fail.
func TestTemplatesAreReadOnce(t *testing.T) {
	g := newGPUs(t, 1, 0, 1)
	names := func(request string, of func(i int) string) {
		g.asks(request, 1, 1, 0, nil)
		at := &g.stored.templates[request].Template.Spec
		at.ResourceClaims = nil
		for i := range maxClaims {
			at.ResourceClaims = append(at.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint("c", i),
				ResourceClaimTemplateName: new(of(i))})
		}
	}
	add := func(request, more string) {
		a, _, _ := g.objects.GetByKey("ml/" + request)
		b, _, _ := g.objects.GetByKey("ml/" + more)
		_ = g.objects.Delete(b)
		to, _ := a.(*provisioning.Request)
		from, _ := b.(*provisioning.Request)
		to.Spec.PodSets = append(to.Spec.PodSets, from.Spec.PodSets...)
	}
	names("same", func(int) string { return "gpus-0" })
	names("same-2", func(int) string { return "gpus-0" })
	add("same", "same-2")
	g.look(t, time.Second)
	g.wants(t, "same", provisioning.Provisioned, "True")
	if n := g.read.Load(); n != 1 {
		t.Errorf("one template of a request was read %d times", n)
	}
	for i := range 3 * maxClaims {
		g.templates[fmt.Sprint("t", i)] = g.templates["gpus-0"]
	}
	large := g.templates["gpus-0"].DeepCopy()
	large.Spec.Annotations = map[string]string{"text": strings.Repeat("x", maxTemplateBytes)}
	g.templates["large"] = large
	names("many", func(i int) string { return fmt.Sprint("t", i) })
	for k := 1; k < 3; k++ {
		more := fmt.Sprint("more", k)
		names(more, func(i int) string { return fmt.Sprint("t", k*maxClaims+i) })
		add("many", more)
	}
	names("large", func(int) string { return "large" })
	g.look(t, time.Second)
	g.wants(t, "many", provisioning.Failed, "True: PodTemplate more2: the pods name more than 64 ResourceClaimTemplates")
	g.wants(t, "large", provisioning.Failed,
		"True: PodTemplate large: the ResourceClaimTemplates of the pods have more than 524288 bytes")
}

// A request whose devices take long to allocate does not hold up others, and is tried less often each time.
func TestSlowClaimsDoNotHoldUpOthers(t *testing.T) {
	g := newGPUs(t, 5, 0, 1)
	g.slow, g.takes = "slow", 10*time.Second
	g.asks("slow", 1, 2, 3, nil)
	g.look(t, 0)
	g.asks("fast", 1, 2, 1, nil)
	for range 2 {
		g.look(t, time.Second)
	}
	g.wants(t, "fast", provisioning.Provisioned, "True")
	g.wants(t, "slow", provisioning.Provisioned, "False: not now: no devices: to allocate devices for its claims")
	if took := g.time.Sub(time.Unix(1e9, 0)); took > 2*g.takes {
		t.Errorf("it took %s until another request was answered", took)
	}
	before := g.allocated
	for range 360 {
		g.look(t, tick)
	}
	if n := g.allocated - before; n > 20 {
		t.Errorf("in half an hour, slow devices were allocated %d times", n)
	}
	g.slow = ""
	g.all = append(g.all, gpu{claims.ID{Driver: "gpu.example.com", Pool: "n0001", Name: "gpu-2"}, 0})
	for range 200 {
		g.look(t, tick)
	}
	g.wants(t, "slow", provisioning.Provisioned, "True")
}

// Each look may allocate so many devices to count. A request that uses all of them up in each look does not keep others
// from their answers, and gets its own one in the end.
func TestManyNodesAreCountedInTurn(t *testing.T) {
	g := newGPUs(t, 3*maxAllocations, 0)
	last := len(g.all) - 1
	g.all = append(g.all, gpu{claims.ID{Driver: "gpu.example.com", Pool: g.all[last].id.Pool, Name: "gpu-1"}, 0})
	g.asks("large", 1, 2, 2, nil)
	g.look(t, time.Second)
	g.asks("small", 1, 2, 1, nil)
	for range 2 {
		g.look(t, countsLast/4)
	}
	g.wants(t, "small", provisioning.Provisioned, "True")
	for range 3 {
		g.look(t, countsLast/4)
	}
	g.wants(t, "large", provisioning.Provisioned, "True")
}

// While one request cannot be counted within the time for which counts last, others get their turns.
func TestARequestThatIsNeverCountedHoldsUpNoOther(t *testing.T) {
	g := newGPUs(t, maxAllocations+10, 0)
	g.asks("large", 1, 2, 2, nil)
	g.look(t, time.Second)
	g.asks("small", 1, 2, 1, nil)
	for range 3 {
		g.look(t, 2*countsLast)
	}
	g.wants(t, "small", provisioning.Provisioned, "True")
}

// After a restart, pods that need devices near their CPUs get theirs again, also if pods of requests with names before
// and behind theirs would take any.
func TestNearDevicesAreKeptAgainFirst(t *testing.T) {
	g := newGPUs(t, 1, 0, 0, 1, 1, 1)
	g.asks("b", 1, 2, 2, nearGPUs())
	g.look(t, time.Second)
	g.asks("a", 1, 2, 2, nil)
	g.asks("c", 1, 2, 1, nil)
	for range 3 {
		g.look(t, time.Second)
		for name, want := range map[string]int{"a": 2, "b": 2, "c": 1} {
			g.wants(t, name, provisioning.Provisioned, "True")
			if n := len(g.keptFor(name, "n0000")); n != want {
				t.Errorf("%d devices are kept for request %s, want %d", n, name, want)
			}
		}
		g.restart()
	}
}

// shown returns the names of the devices that the status of a request has.
func (g *gpus) shown(t *testing.T, name string) (out []string) {
	t.Helper()
	o, _, _ := g.objects.GetByKey("ml/" + name)
	r, _ := o.(*provisioning.Request)
	list, err := r.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		out = append(out, x.Devices...)
	}
	return out
}

// The status of a request has the devices that are kept: from its answer on, after others were kept in their place, and
// without those whose pods have come.
func TestTheStatusHasTheDevices(t *testing.T) {
	g := newGPUs(t, 1, 0, 0, 0, 0)
	g.asks("job", 2, 2, 1, nil)
	g.look(t, time.Second)
	g.wants(t, "job", provisioning.Provisioned, "True")
	same := func(what string, n int) {
		t.Helper()
		want := g.keptFor("job", "n0000")
		slices.Sort(want)
		if got := g.shown(t, "job"); len(want) != n || !slices.Equal(got, want) {
			t.Errorf("%s: the status has devices %q, and %q are kept", what, got, want)
		}
	}
	same("at first", 2)
	version := g.version
	g.look(t, time.Minute/2)
	if same("later", 2); g.version != version {
		t.Errorf("the same devices were written again")
	}
	lost := g.keptFor("job", "n0000")[0]
	g.all = slices.DeleteFunc(g.all, func(x gpu) bool { return x.id.Name == lost })
	for range 3 {
		g.look(t, tick)
	}
	if same("after one was lost", 2); slices.Contains(g.shown(t, "job"), lost) {
		t.Errorf("the status has the lost device %s", lost)
	}
	g.keeper.Spend(promise.Coming{UID: "p", Request: "ml/job", Node: "n0000", Pod: g.known["ml/job"].sets[0].Pod.Pod,
		Claims: g.known["ml/job"].sets[0].Claims})
	for range 3 {
		g.look(t, tick)
	}
	same("after one has come", 1)
}
