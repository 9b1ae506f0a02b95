package steer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// This file draws nodes with devices and pods with claims, and writes them as objects of a cluster.

// device is a device as the exhaustive search sees it.
type device struct {
	driver, pool, name string
	numas              []int // nil: unknown
	model              string
	board              int64 // attribute for constraints; -1: it has none
	taken              bool
	part               bool // it takes all of its card's counter, or half
	whole              bool
	// tainted: only requests that tolerate its taint get it.
	tainted bool
	// capacity is how much a device has that several requests can share, and left is how much of it is free. Both are 0
	// for a device that only one request can have.
	capacity, left int64
}

// needs returns how much of a shared device a request for an amount consumes: everything if it names no amount.
func (d *device) needs(amount int64) int64 {
	if amount == 0 {
		return d.capacity
	}
	return amount
}

// card names the counter of a part, which it shares with the parts of its pool on the same board.
func (d *device) card() string { return d.driver + "/" + d.pool + "/" + d.cardName() }

func (d *device) takes() int64 {
	if d.whole {
		return 2
	}
	return 1
}

func (d *device) String() string { return d.driver + "/" + d.pool + "/" + d.name }

// request is a request as the exhaustive search sees it: one of its wishes is fulfilled.
type request struct {
	claim  int
	name   string
	wishes []wish
	// together: the devices of all requests of the claim are on one board.
	together bool
	// extended: the request is for an extended resource, of a container.
	extended bool
}

type wish struct {
	driver, model string // "" is any
	count         int    // 0: all devices that match
	tolerates     bool   // it tolerates taints
	amount        int64  // of the capacity of a shared device; 0 names none
}

func (w wish) matches(d *device) bool {
	return (w.driver == "" || w.driver == d.driver) && (w.model == "" || w.model == d.model)
}

// gets reports whether the wish may get a device that matches, beside those that were chosen.
func (w wish) gets(d *device, chosen []*device) bool {
	switch {
	case d.tainted && !w.tolerates, w.amount > 0 && d.capacity == 0:
		return false
	case d.capacity > 0:
		return d.left >= d.needs(w.amount)
	}
	return !d.taken && !slices.Contains(chosen, d)
}

// world is a node with devices, and a pod with claims.
type world struct {
	devices  []*device
	requests []request
	near     steer.Near
	drivers  []string  // the pod demands their devices near
	named    []string  // the pod demands what these get: class:NAME, claim:NAME/...
	held     []*device // a claim of the pod was allocated before
}

// holder is the request for which the pod holds devices.
func (w *world) holder() *request {
	claims := 0
	for _, q := range w.requests {
		claims = max(claims, q.claim+1)
	}
	return &request{claim: claims, name: "r", wishes: []wish{{}}}
}

// path names a wish of the request as [outcome] does.
func (q *request) path(wish int) string {
	switch {
	case q.extended:
		return forExtended + "/" + q.name
	case len(q.wishes) == 1:
		return fmt.Sprintf("claim-%d/%s", q.claim, q.name)
	}
	return fmt.Sprintf("claim-%d/%s/s%d", q.claim, q.name, wish)
}

// demands reports whether the pod demands a device of a driver that a wish of a request gets.
func (w *world) demands(driver string, q *request, wish int) bool {
	return slices.Contains(w.drivers, driver) || slices.ContainsFunc(w.named, func(name string) bool {
		if class, is := strings.CutPrefix(name, "class:"); is {
			return classNames[q.wishes[wish].driver] == class
		}
		return strings.HasPrefix(q.path(wish)+"/", strings.TrimPrefix(name, "claim:")+"/")
	})
}

// classNames are the names of classes by driver.
var classNames = map[string]string{"": "any", "a.example.com": "a", "b.example.com": "b"}

func draw(r *rand.Rand) *world {
	// The parts of a card are on its NUMA node; some drivers may see it otherwise.
	w, cards, mixed, unknown := &world{}, map[string][]int{}, r.IntN(5) == 0, r.IntN(20) == 0
	ids := []int{0, 1, 4, 9}[:2+r.IntN(3)]
	for i := range 2 + r.IntN(7) {
		d := &device{driver: []string{"a.example.com", "b.example.com"}[r.IntN(2)], name: fmt.Sprintf("d%d", i),
			pool: []string{"node", "node", "node-2"}[r.IntN(3)], model: []string{"x", "y"}[r.IntN(2)],
			board: int64(r.IntN(4)) - 1, taken: r.IntN(4) == 0}
		switch n := r.IntN(8); {
		case n == 0 || unknown:
		case n == 1:
			d.numas = []int{ids[r.IntN(len(ids))], ids[r.IntN(len(ids))]}[:1+r.IntN(2)]
			if !hasLists {
				d.numas = d.numas[:1]
			}
		default:
			d.numas = []int{ids[r.IntN(len(ids))]}
		}
		d.part, d.whole = has(partitions) && d.driver == "b.example.com" && d.board >= 0, r.IntN(2) == 0
		if on, known := cards[d.card()]; d.part && known && !mixed {
			d.numas = on
		} else if d.part {
			cards[d.card()] = d.numas
		}
		d.tainted = has(taints) && r.IntN(8) == 0
		if has(capacities) && d.driver == "a.example.com" && r.IntN(4) == 0 {
			d.capacity, d.taken = 1+r.Int64N(3), false
			d.left = r.Int64N(d.capacity + 1)
		}
		w.devices = append(w.devices, d)
		d.taken = d.taken && w.fit(nil)
	}
	if r.IntN(4) == 0 {
		for _, d := range w.devices {
			if d.taken && r.IntN(2) == 0 {
				w.held = append(w.held, d)
			}
		}
	}
	w.claim(r)
	if !allInLists && slices.ContainsFunc(w.requests, request.all) {
		for _, d := range w.devices { // kube-scheduler's allocator of 1.36 leaves those out that have nothing left
			d.capacity, d.left = 0, 0
		}
	}
	w.place(r, ids)
	return w
}

// all reports whether a request may be for all devices that match.
func (q request) all() bool {
	return slices.ContainsFunc(q.wishes, func(w wish) bool { return w.count == 0 })
}

// claim draws what the pod asks for.
func (w *world) claim(r *rand.Rand) {
	if has(extended) && r.IntN(4) == 0 {
		w.requests = append(w.requests, request{claim: -1, name: "container-0-request-0", extended: true, wishes: []wish{
			{driver: []string{"a.example.com", "b.example.com"}[r.IntN(2)], count: 1 + r.IntN(2)}}})
		if r.IntN(2) == 0 {
			return
		}
	}
	for claim := range 1 + r.IntN(2) {
		together := r.IntN(4) == 0
		for range 1 + r.IntN(2) {
			q := request{claim: claim, name: fmt.Sprintf("r%d", len(w.requests)), together: together}
			n := []int{1, 1, 1, 2}[r.IntN(4)]
			if !has(lists) {
				n = 1
			}
			for range n {
				all := r.IntN(7) == 0 && !together && (allInLists || n == 1) // kube-scheduler reports both at once as an error
				q.wishes = append(q.wishes, wish{driver: []string{"", "a.example.com", "b.example.com"}[r.IntN(3)],
					model: []string{"", "", "x"}[r.IntN(3)], count: []int{1, 1, 2}[r.IntN(3)]})
				last := &q.wishes[len(q.wishes)-1]
				if all {
					last.count = 0
				}
				last.tolerates = has(taints) && r.IntN(3) == 0
				if has(capacities) && r.IntN(6) == 0 && (allInLists || !all) {
					last.amount = 1 + r.Int64N(2)
				}
			}
			w.requests = append(w.requests, q)
		}
	}
}

// place draws where the pod is.
func (w *world) place(r *rand.Rand, ids []int) {
	w.near.Must = r.IntN(2) == 0
	if r.IntN(3) == 0 {
		w.drivers = [][]string{{"a.example.com"}, {"b.example.com"}, {"a.example.com", "b.example.com"}}[r.IntN(3)]
	}
	for range 2 {
		if r.IntN(3) > 0 {
			continue
		}
		q := &w.requests[r.IntN(len(w.requests))]
		if len(w.held) > 0 && r.IntN(3) == 0 {
			q = w.holder()
		}
		wish := r.IntN(len(q.wishes))
		name := "claim:" + q.path(wish)
		parts := strings.Split(name, "/")
		switch name = strings.Join(parts[:1+r.IntN(len(parts))], "/"); {
		case q.extended || r.IntN(3) == 0:
			name = "class:" + classNames[q.wishes[wish].driver]
		}
		if !slices.Contains(w.named, name) {
			w.named = append(w.named, name)
		}
	}
	for _, id := range ids {
		if r.IntN(3) == 0 {
			w.near.NUMAs = append(w.near.NUMAs, id)
		}
	}
}

const (
	boardAttribute = "example.com/board"
	capacityName   = "example.com/units"
)

// put makes the cluster of a world, and returns its pod.
func (w *world) put(b *bench) *v1.Pod {
	b.clear()
	b.near = w.near
	pools := map[string][]*device{}
	for _, d := range w.devices {
		pools[d.driver+"/"+d.pool] = append(pools[d.driver+"/"+d.pool], d)
		id := structured.MakeDeviceID(d.driver, d.pool, d.name)
		if d.taken {
			b.taken.Insert(id)
		}
		if d.left < d.capacity {
			b.consumed.Insert(structured.NewDeviceConsumedCapacity(id, map[resourcev1.QualifiedName]resource.Quantity{
				capacityName: *resource.NewQuantity(d.capacity-d.left, resource.DecimalSI)}))
		}
	}
	for _, all := range pools {
		// Every other device is in a second slice of the pool.
		var parts [2]*resourcev1.ResourceSlice
		for i := range parts {
			s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(all[0].driver, all[0].pool, i)}}
			s.Spec = resourcev1.ResourceSliceSpec{Driver: all[0].driver, NodeName: new("node"),
				Pool: resourcev1.ResourcePool{Name: all[0].pool, Generation: 1, ResourceSliceCount: 2}}
			parts[i] = s
		}
		for i, d := range all {
			parts[i%2].Spec.Devices = append(parts[i%2].Spec.Devices, d.published())
		}
		b.slices = append(append(b.slices, parts[:]...), counters(parts[:], all)...)
	}
	for driver, name := range classNames {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if driver != "" {
			class.Spec.Selectors = selector(fmt.Sprintf("device.driver == %q", driver))
		}
		if driver != "" {
			class.Spec.ExtendedResourceName = new(driver + "/device")
			b.extended[v1.ResourceName(driver+"/device")] = name
		}
		b.classes[name] = class
	}
	return w.pod(b)
}

// counters returns a slice with the counters of the parts in a pool, if there are any.
func counters(slices []*resourcev1.ResourceSlice, all []*device) []*resourcev1.ResourceSlice {
	out := slices[0].DeepCopy()
	out.Name += "-counters"
	out.Spec.Devices = nil
	seen := map[string]bool{}
	for _, d := range all {
		if d.part && !seen[d.card()] {
			seen[d.card()] = true
			out.Spec.SharedCounters = append(out.Spec.SharedCounters, resourcev1.CounterSet{Name: d.cardName(),
				Counters: map[string]resourcev1.Counter{"memory": {Value: *resource.NewQuantity(2, resource.DecimalSI)}}})
		}
	}
	if len(seen) == 0 {
		return nil
	}
	out.Spec.Pool.ResourceSliceCount = 3
	for _, s := range slices {
		s.Spec.Pool.ResourceSliceCount = 3
	}
	return []*resourcev1.ResourceSlice{out}
}

func (d *device) cardName() string { return fmt.Sprintf("card-%d", d.board) }

func (d *device) published() resourcev1.Device {
	out := resourcev1.Device{Name: d.name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"example.com/model": {StringValue: &d.model}}}
	if d.board >= 0 {
		out.Attributes[boardAttribute] = resourcev1.DeviceAttribute{IntValue: &d.board}
	}
	if d.part {
		out.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: d.cardName(),
			Counters: map[string]resourcev1.Counter{"memory": {Value: *resource.NewQuantity(d.takes(), resource.DecimalSI)}}}}
	}
	if d.tainted {
		out.Taints = []resourcev1.DeviceTaint{{Key: "example.com/worn", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
	if d.capacity > 0 {
		out.AllowMultipleAllocations = new(true)
		out.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			capacityName: {Value: *resource.NewQuantity(d.capacity, resource.DecimalSI)}}
	}
	switch len(d.numas) {
	case 1:
		out.Attributes["resource.kubernetes.io/numaNode"] = resourcev1.DeviceAttribute{IntValue: new(int64(d.numas[0]))}
	case 2:
		out.Attributes["resource.kubernetes.io/numaNode"] = listOf(d.numas[0], d.numas[1])
	}
	return out
}

func selector(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

// pod returns the pod of a world, and adds its claims to the cluster.
func (w *world) pod(b *bench) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"}}
	demanded := slices.Clone(w.named)
	for _, driver := range w.drivers {
		demanded = append(demanded, "driver:"+driver)
	}
	if len(demanded) > 0 {
		pod.Annotations = map[string]string{apipod.AlignAnnotation: strings.Join(demanded, ",")}
	}
	for _, q := range w.requests {
		if q.extended {
			list := v1.ResourceList{v1.ResourceName(q.wishes[0].driver + "/device"): *resource.NewQuantity(
				int64(q.wishes[0].count), resource.DecimalSI)}
			pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
		}
	}
	for claim := 0; ; claim++ {
		var spec resourcev1.DeviceClaim
		for _, q := range w.requests {
			if q.claim != claim {
				continue
			}
			spec.Requests = append(spec.Requests, q.written())
			if q.together {
				spec.Constraints = []resourcev1.DeviceConstraint{
					{MatchAttribute: new(resourcev1.FullyQualifiedName(boardAttribute))}}
			}
		}
		if len(spec.Requests) == 0 {
			break
		}
		b.claim(pod, spec)
	}
	if len(w.held) > 0 {
		b.claim(pod, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "any", Count: int64(len(w.held))}}}})
		a := &resourcev1.AllocationResult{}
		for _, d := range w.held {
			a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "r",
				Driver: d.driver, Pool: d.pool, Device: d.name})
		}
		b.claims[*pod.Spec.ResourceClaims[len(pod.Spec.ResourceClaims)-1].ResourceClaimName].Status.Allocation = a
	}
	return pod
}

func (q request) written() resourcev1.DeviceRequest {
	out := resourcev1.DeviceRequest{Name: q.name}
	for i, w := range q.wishes {
		class := classNames[w.driver]
		mode, selectors := resourcev1.DeviceAllocationModeExactCount, []resourcev1.DeviceSelector(nil)
		if w.count == 0 {
			mode = resourcev1.DeviceAllocationModeAll
		}
		if w.model != "" {
			selectors = selector(fmt.Sprintf(`device.attributes["example.com"].model == %q`, w.model))
		}
		var tolerations []resourcev1.DeviceToleration
		if w.tolerates {
			tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
		}
		var capacity *resourcev1.CapacityRequirements
		if w.amount > 0 {
			capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
				capacityName: *resource.NewQuantity(w.amount, resource.DecimalSI)}}
		}
		if len(q.wishes) == 1 {
			out.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: int64(w.count),
				Selectors: selectors, Tolerations: tolerations, Capacity: capacity}
			return out
		}
		out.FirstAvailable = append(out.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprintf("s%d", i),
			DeviceClassName: class, AllocationMode: mode, Count: int64(w.count), Selectors: selectors, Tolerations: tolerations,
			Capacity: capacity})
	}
	return out
}

func (w *world) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "near %+v, demanded drivers %v, named %v\n", w.near, w.drivers, w.named)
	for _, d := range w.devices {
		fmt.Fprintf(&out, "device %s on %v model %s board %d taken %v part %v whole %v tainted %v, %d of %d left\n",
			d, d.numas, d.model, d.board, d.taken, d.part, d.whole, d.tainted, d.left, d.capacity)
	}
	fmt.Fprintf(&out, "the pod holds %v\n", w.held)
	for _, q := range w.requests {
		fmt.Fprintf(&out, "request %+v\n", q)
	}
	return out.String()
}
