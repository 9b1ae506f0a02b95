package steer_test

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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// asksGPUs stores a request for equal pods with CPUs, whose claims are made of a template.
func (w *gpuWorld) asksGPUs(name string, count, cpus int, template string) {
	w.ask(name, count, cpus)
	w.keptWorld.templates[name].Template.Spec.ResourceClaims = []v1.PodResourceClaim{
		{Name: "gpus", ResourceClaimTemplateName: &template}}
}

// Requests for pods with claims are answered like others. What cannot be kept fails with its reason.
func TestRequestsWithClaims(t *testing.T) {
	w := newGPUWorld(t, 2)
	w.publish("n0000", 0, 1, 1)
	w.publish("n0001", 0, 0)
	w.dra.templates["one"] = keptGPUs(1)
	w.dra.templates["three"] = keptGPUs(3)
	part, admin := keptGPUs(1), keptGPUs(1)
	part.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{
		Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}}
	admin.Devices.Requests[0].Exactly.AdminAccess = new(true)
	w.dra.templates["part"], w.dra.templates["admin"] = part, admin
	w.asksGPUs("a", 4, 4, "one") // on n0000 one on NUMA node 0 and one on 1, on n0001 two on NUMA node 0
	w.asksGPUs("b", 1, 4, "one")
	w.asksGPUs("many", 1, 4, "three")
	w.asksGPUs("missing", 1, 4, "none")
	w.asksGPUs("part", 1, 4, "part")
	w.asksGPUs("admin", 1, 4, "admin")
	w.ask("shared", 1, 4)
	w.keptWorld.templates["shared"].Template.Spec.ResourceClaims = []v1.PodResourceClaim{
		{Name: "x", ResourceClaimName: new("c")}}
	for range 3 {
		w.Round(t.Context(), w.objects)
	}
	for name, want := range map[string][2]string{
		"a":       {provisioning.Provisioned, "False: 2 of 4 pods fit now"},
		"b":       {provisioning.Provisioned, "True: the pod fits now"},
		"many":    {provisioning.Provisioned, "False: 0 of 1 pods fit now"},
		"missing": {provisioning.Provisioned, "False: not now: PodTemplate missing: there is no ResourceClaimTemplate none"},
		"part":    {provisioning.Failed, "True: PodTemplate part: ResourceClaimTemplate part asks for a part of a device"},
		"admin":   {provisioning.Failed, "True: PodTemplate admin: ResourceClaimTemplate admin asks for access"},
		"shared":  {provisioning.Failed, "True: PodTemplate shared: the pods share the claim x (resourceClaimName)"},
	} {
		w.wants(t, name, want[0], want[1])
	}
	if got := w.said("many", provisioning.Failed); got != "" {
		t.Errorf("a request without devices has Failed %s", got)
	}
}

// Where a kept device is gone, or another scheduler has allocated it, another one is kept in its place. If there is
// none for a while, the booking ends.
func TestKeptDevicesThatAreLost(t *testing.T) {
	w := newGPUWorld(t, 1)
	w.publish("n0000", 0, 0, 0)
	w.dra.templates["two"] = keptGPUs(2)
	w.asksGPUs("job", 1, 4, "two")
	look := func() []claims.ID {
		w.time = w.time.Add(5 * time.Second)
		w.Round(t.Context(), w.objects)
		return w.keptOn("n0000")
	}
	before := look()
	w.wants(t, "job", provisioning.Provisioned, "True")
	w.take("theirs", before[0])
	after := look()
	if len(after) != 2 || slices.Contains(after, before[0]) {
		t.Fatalf("kept were %v, another scheduler took the first, and now %v are", before, after)
	}
	w.dra.slices[0] = w.dra.slices[0].DeepCopy()
	w.dra.slices[0].Spec.Devices = w.dra.slices[0].Spec.Devices[:2]
	for range 5 {
		look()
	}
	w.wants(t, "job", provisioning.BookingExpired, "")
	if got := w.said("job", provisioning.BookingExpired); got != "" {
		t.Fatalf("the booking ended at once: %s", got)
	}
	delete(w.dra.claims, "theirs")
	if after := look(); len(after) != 2 || !slices.Contains(after, before[0]) {
		t.Fatalf("now kept are %v, and %v is free again", after, before[0])
	}
	w.take("again", before[0])
	for range 10 {
		look()
	}
	w.wants(t, "job", provisioning.BookingExpired, "True: node n0000 has no room for all pods")
	if w.keeper.Any() || len(w.Hidden()) > 0 {
		t.Errorf("after the end of the booking, %v are kept", w.Hidden())
	}
}

// take has another scheduler allocate a device.
func (w *gpuWorld) take(claim string, id claims.ID) {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: claim, UID: types.UID(claim)}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: id.Driver, Pool: id.Pool, Device: id.Name}}}}
	w.dra.claims[claim] = c
}

var (
	deviceRuns = flag.Int("devices.n", 60, "random clusters of TestKeptDevices")
	deviceSeed = flag.Uint64("devices.seed", 1, "seed of the first cluster")
)

// gpuPod is a pod of TestKeptDevices.
type gpuPod struct {
	*v1.Pod
	request string
	size    int
	node    string // "" until it is bound
}

// gpuRun is a random history of a cluster with devices.
type gpuRun struct {
	*gpuWorld
	t    *testing.T
	seed uint64
	r    *rand.Rand
	next int
	pods []*gpuPod
	// waiting are the requests whose pods have not come, by name: how many pods are left, their CPUs and devices.
	waiting map[string]gpuJob
	got     struct{ came, refused, lost, raced, accepted, expired, restarts, others int }
}

// gpuJob has the sets of pods of a request.
type gpuJob []gpuSet

type gpuSet struct{ left, size, devices int }

// left returns how many pods have not come.
func (j gpuJob) left() (n int) {
	for _, s := range j {
		n += s.left
	}
	return n
}

// Using returns the bound pods of a request.
func (g *gpuRun) Using(request string) (out []*v1.Pod) {
	for _, p := range g.pods {
		if p.request == request && p.node != "" {
			out = append(out, p.Pod)
		}
	}
	return out
}

func (g *gpuRun) restart() {
	g.gpuWorld.restart()
	g.got.restarts++
}

// pod makes a pod with a claim for some devices, or without a claim if there are none.
func (g *gpuRun) pod(request string, size, devices int) (*gpuPod, promise.Coming) {
	g.next++
	name := fmt.Sprint("p", g.next)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	amounts := v1.ResourceList{"cpu": *resource.NewQuantity(int64(size), resource.DecimalSI),
		"memory": resource.MustParse("1Gi")}
	p.Spec.SchedulerName = "tenon-scheduler"
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: amounts, Requests: amounts}}}
	template := fmt.Sprint("gpus-", devices)
	if devices > 0 {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
	}
	x, err := booking.Read(p)
	if err != nil {
		g.t.Fatal(err)
	}
	needs, _ := kube.Needs(p)
	text := capacity.ClaimsOf(p, needs)
	if devices > 0 {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: p.UID, Controller: new(true)}
		g.dra.claims[name] = &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name,
			UID: p.UID, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: g.dra.templates[template]}
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: &name}}
	}
	return &gpuPod{Pod: p, request: request, size: size}, promise.Coming{UID: name, Request: request, Pod: x.Pod,
		Demand: x.Demand, Claims: text}
}

// place gives a pod a node, or drops it.
func (g *gpuRun) place(p *gpuPod, c promise.Coming, nodes []string, between func(), bind bool) bool {
	for _, node := range nodes {
		c.Node = node
		if g.try(g.t.Context(), c, p.Pod, between, bind) == "" {
			p.node, p.Spec.NodeName = node, node
			g.pods = append(g.pods, p)
			g.near(p)
			return true
		}
		between = func() {}
	}
	for _, x := range g.gpuWorld.claims(p.Pod) {
		delete(g.dra.claims, x.Name)
	}
	return false
}

// near fails the test unless the devices of a pod are on the NUMA nodes of its CPUs.
func (g *gpuRun) near(p *gpuPod) {
	n := g.Node(p.node)
	e, _ := n.Entry(string(p.UID))
	on := nearOf(n.Machine, place.Exclusive(n.Machine, e.Holdings))
	for id, name := range g.allocated(g.t) {
		if name == p.Name && !slices.Contains(on.NUMAs, g.numaOf(id)) {
			g.t.Fatalf("seed %d: pod %s is on %v, and its device %s on NUMA node %d", g.seed, p.Name, on.NUMAs, id, g.numaOf(id))
		}
	}
}

func (g *gpuRun) names() (out []string) {
	for _, n := range g.nodes {
		out = append(out, n.Name)
	}
	g.r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}

// look lets a second pass, and looks at the requests.
func (g *gpuRun) look() {
	g.time = g.time.Add(time.Second)
	g.Round(g.t.Context(), g.objects)
	for name, j := range g.waiting {
		if strings.HasPrefix(g.said(name, provisioning.BookingExpired), "True") {
			if strings.Contains(g.said(name, provisioning.BookingExpired), "no room") {
				g.got.lost += j.left()
			}
			delete(g.waiting, name)
		}
	}
}

// broken reports whether a node does not keep what it has promised.
func (g *gpuRun) broken(node string) bool {
	bare := func(x promise.Kept) bool { return x.Claimed && x.IDs == nil }
	return g.keptStore.Broken(node) || slices.ContainsFunc(g.keeper.On(node), bare)
}

// comes has a pod of an accepted request come. It must get a node, unless the node has lost the room for a moment.
func (g *gpuRun) comes(name string, j gpuJob) {
	request, k := "ml/"+name, g.r.IntN(len(j))
	if k = max(k, slices.IndexFunc(j, func(s gpuSet) bool { return s.left > 0 })); j[k].left == 0 {
		k = 0
	}
	if !strings.HasPrefix(g.said(name, provisioning.Provisioned), "True") || len(g.keeper.Nodes(request)) == 0 {
		return
	}
	p, c := g.pod(request, j[k].size, j[k].devices)
	nodes := g.keeper.NodesFor(c)
	if g.r.IntN(5) == 0 { // it cannot be bound, and comes again
		_ = g.place(p, c, nodes, func() {}, false)
		p, c = g.pod(request, j[k].size, j[k].devices)
	}
	broken := slices.ContainsFunc(nodes, g.broken)
	switch {
	case g.place(p, c, nodes, func() {}, true):
		g.got.came++
		if j[k].left--; j.left() == 0 {
			delete(g.waiting, name)
		}
	case broken:
		g.got.refused++
	default:
		c.Node = nodes[0]
		p, c2 := g.pod(request, j[k].size, j[k].devices)
		c2.Node = nodes[0]
		g.t.Fatalf("seed %d: a pod of the accepted request %s gets none of the nodes %v: %s; kept are %v; allocated are %v",
			g.seed, name, nodes, g.try(g.t.Context(), c2, p.Pod, func() {}, true), g.keptOn(nodes[0]), g.allocated(g.t))
	}
}

// sound fails the test if a device is kept twice, or kept and allocated.
func (g *gpuRun) sound() {
	allocated, kept := g.allocated(g.t), map[string]bool{}
	for _, n := range g.nodes {
		for _, id := range g.keptOn(n.Name) {
			switch {
			case allocated[id] != "":
				g.t.Fatalf("seed %d: device %s is kept, and claim %s has it", g.seed, id, allocated[id])
			case kept[id.String()] || g.numaOf(id) < 0:
				g.t.Fatalf("seed %d: device %s is kept twice, or not there", g.seed, id)
			}
			kept[id.String()] = true
		}
	}
	if len(g.keeper.Hidden()) != len(kept) {
		g.t.Fatalf("seed %d: %d devices are kept, and %d are hidden", g.seed, len(kept), len(g.keeper.Hidden()))
	}
}

// asksRandom stores a random request, and returns its name.
func (g *gpuRun) asksRandom(i int) string {
	name, j := fmt.Sprint("r", i), gpuJob{}
	var r *provisioning.Request
	for k := range 1 + g.r.IntN(3)/2 {
		s := gpuSet{1 + g.r.IntN(4), []int{2, 2, 3, 4}[g.r.IntN(4)], g.r.IntN(3)}
		g.asksGPUs(fmt.Sprint(name, "x"[:k]), s.left, s.size, fmt.Sprint("gpus-", s.devices))
		o, _, _ := g.objects.GetByKey(fmt.Sprint("ml/", name, "x"[:k]))
		more, _ := o.(*provisioning.Request)
		if s.devices == 0 {
			g.keptWorld.templates[more.Name].Template.Spec.ResourceClaims = nil
		}
		if r == nil {
			r = more
		} else {
			r.Spec.PodSets = append(r.Spec.PodSets, more.Spec.PodSets...)
			_ = g.objects.Delete(more)
		}
		j = append(j, s)
	}
	g.waiting[name] = j
	return name
}

// keptDevices returns how many devices are kept on each node.
func (g *gpuRun) keptDevices() (out []int) {
	for _, n := range g.nodes {
		out = append(out, len(g.keptOn(n.Name)))
	}
	return out
}

// step does something at random.
func (g *gpuRun) step(i int) {
	names := []string{}
	for name := range g.waiting {
		names = append(names, name)
	}
	slices.Sort(names)
	switch g.r.IntN(8) {
	case 0, 1: // a request
		name := g.asksRandom(i)
		g.look()
		if strings.HasPrefix(g.said(name, provisioning.Provisioned), "True") {
			g.got.accepted++
		}
	case 2, 3: // another pod; sometimes a request is answered while it is being scheduled
		p, c := g.pod("", 1+g.r.IntN(4), g.r.IntN(3))
		between := func() {}
		if g.r.IntN(2) == 0 {
			g.asksRandom(i)
			g.got.raced++
			if between = g.look; g.r.IntN(2) == 0 {
				between, g.signaled = func() {}, g.look
			}
		}
		if g.place(p, c, g.names(), between, true) {
			g.got.others++
		}
		g.signaled = nil
	case 4, 5:
		if len(names) > 0 {
			name := names[g.r.IntN(len(names))]
			g.comes(name, g.waiting[name])
		}
	case 6:
		if len(g.pods) > 0 {
			k := g.r.IntN(len(g.pods))
			if of := strings.TrimPrefix(g.pods[k].request, "ml/"); of != "" && g.said(of, provisioning.BookingExpired) == "" {
				break // after a restart, its place would be kept once more
			}
			g.gpuWorld.end(g.pods[k].Pod, g.pods[k].node)
			g.pods = slices.Delete(g.pods, k, k+1)
			g.look() // other devices are kept where the rest gets other CPUs now
		}
	case 7:
		if g.r.IntN(3) == 0 {
			g.look() // what has expired is not kept any more, and other requests have room
			before, sound := g.keptDevices(), !slices.ContainsFunc(g.names(), g.broken)
			g.time = g.time.Add(-time.Second)
			g.restart()
			g.look()
			for i, after := range g.keptDevices() {
				if !sound || after >= before[i] {
					continue
				}
				g.t.Fatalf("seed %d: before a restart %v devices were kept on the nodes, and after it %v", g.seed, before,
					g.keptDevices())
			}
		} else if g.time = g.time.Add(100 * time.Second); g.r.IntN(3) == 0 {
			g.look()
			g.got.expired++
		}
	}
}

// Requests, pods of requests and other pods come and end in any order, bookings expire, and the scheduler starts anew:
// no device is kept twice, or allocated while it is kept for others, and the pods of accepted requests get their nodes,
// with devices near their CPUs. The allocator is kube-scheduler's.
func TestKeptDevices(t *testing.T) {
	var sum gpuRun
	for k := range *deviceRuns {
		seed := *deviceSeed + uint64(k)
		r := rand.New(rand.NewPCG(seed, 7))
		g := &gpuRun{gpuWorld: newGPUWorld(t, 1+r.IntN(3)), t: t, seed: seed, r: r, waiting: map[string]gpuJob{}}
		for i := range 3 {
			g.dra.templates[fmt.Sprint("gpus-", i)] = keptGPUs(int64(i))
		}
		for _, n := range g.nodes {
			numas := []int64{0, 0, 0, 1, 1, 1}[r.IntN(2):]
			r.Shuffle(len(numas), func(a, b int) { numas[a], numas[b] = numas[b], numas[a] })
			g.publish(n.Name, numas...)
		}
		g.using = g.Using
		for i := range 60 {
			g.step(i)
			g.sound()
		}
		sum.got.came += g.got.came
		sum.got.refused += g.got.refused
		sum.got.lost += g.got.lost
		sum.got.accepted += g.got.accepted
		sum.got.expired += g.got.expired
		sum.got.restarts += g.got.restarts
		sum.got.others += g.got.others
		sum.got.raced += g.got.raced
	}
	t.Logf("%d clusters from seed %d: %+v", *deviceRuns, *deviceSeed, sum.got)
}
