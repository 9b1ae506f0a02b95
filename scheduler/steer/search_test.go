package steer_test

import (
	"context"
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
	"k8s.io/dynamic-resource-allocation/structured"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

var (
	draws = flag.Int("claims.n", 4000, "how many pods with claims are drawn")
	seed  = flag.Uint64("claims.seed", 0, "seed of the pods with claims; 0 draws one")
)

// device is a device as the exhaustive search sees it.
type device struct {
	driver, pool, name string
	numas              []int // nil: unknown
	model              string
	board              int64 // attribute for constraints; -1: it has none
	taken              bool
	part               bool // it takes all of its card's counter, or half
	whole              bool
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
	wishes []wish
	// together: the devices of all requests of the claim are on one board.
	together bool
	// extended: the request is for an extended resource, of a container.
	extended bool
}

type wish struct {
	driver, model string // "" is any
	count         int    // 0: all devices that match
}

func (w wish) matches(d *device) bool {
	return (w.driver == "" || w.driver == d.driver) && (w.model == "" || w.model == d.model)
}

// world is a node with devices, and a pod with claims.
type world struct {
	devices  []*device
	requests []request
	near     steer.Near
	drivers  []string // the pod demands their devices near
}

func draw(r *rand.Rand) *world {
	// The parts of a card are on its NUMA node; some drivers may see it otherwise.
	w, cards, mixed := &world{}, map[string][]int{}, r.IntN(5) == 0
	ids := []int{0, 1, 4, 9}[:2+r.IntN(3)]
	for i := range 2 + r.IntN(7) {
		d := &device{driver: []string{"a.example.com", "b.example.com"}[r.IntN(2)], name: fmt.Sprintf("d%d", i),
			pool: []string{"node", "node", "node-2"}[r.IntN(3)], model: []string{"x", "y"}[r.IntN(2)],
			board: int64(r.IntN(4)) - 1, taken: r.IntN(4) == 0}
		switch r.IntN(8) {
		case 0: // unknown
		case 1:
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
		w.devices = append(w.devices, d)
		d.taken = d.taken && w.fit(nil)
	}
	w.claim(r)
	w.place(r, ids)
	return w
}

// claim draws what the pod asks for.
func (w *world) claim(r *rand.Rand) {
	if has(extended) && r.IntN(4) == 0 {
		w.requests = append(w.requests, request{claim: -1, extended: true, wishes: []wish{
			{driver: []string{"a.example.com", "b.example.com"}[r.IntN(2)], count: 1 + r.IntN(2)}}})
		if r.IntN(2) == 0 {
			return
		}
	}
	for claim := range 1 + r.IntN(2) {
		together := r.IntN(4) == 0
		for range 1 + r.IntN(2) {
			q := request{claim: claim, together: together}
			n := []int{1, 1, 1, 2}[r.IntN(4)]
			if !has(lists) {
				n = 1
			}
			for range n {
				all := r.IntN(7) == 0 && !together && (allInLists || n == 1) // kube-scheduler reports both at once as an error
				q.wishes = append(q.wishes, wish{driver: []string{"", "a.example.com", "b.example.com"}[r.IntN(3)],
					model: []string{"", "", "x"}[r.IntN(3)], count: []int{1, 1, 2}[r.IntN(3)]})
				if all {
					q.wishes[len(q.wishes)-1].count = 0
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
	for _, id := range ids {
		if r.IntN(3) == 0 {
			w.near.NUMAs = append(w.near.NUMAs, id)
		}
	}
}

// fit reports whether no card gives more to the chosen and the taken devices than it has.
func (w *world) fit(chosen []*device) bool {
	used := map[string]int64{}
	for _, d := range w.devices {
		if d.part && (d.taken || slices.Contains(chosen, d)) {
			if used[d.card()] += d.takes(); used[d.card()] > 2 {
				return false
			}
		}
	}
	return true
}

// search calls visit with every set of devices that the claims allow.
func (w *world) search(visit func(chosen []*device)) {
	w.fulfil(0, nil, map[int]int64{}, func(chosen []*device) {
		if w.fit(chosen) {
			visit(chosen)
		}
	})
}

// fulfil fulfils the requests from the given one on. boards has the board of each claim whose devices are together.
func (w *world) fulfil(at int, chosen []*device, boards map[int]int64, visit func([]*device)) {
	if at == len(w.requests) {
		visit(chosen)
		return
	}
	q := w.requests[at]
	for _, wish := range q.wishes {
		var fit []*device
		for _, d := range w.devices {
			if wish.matches(d) {
				fit = append(fit, d)
			}
		}
		if wish.count == 0 {
			if len(fit) > 0 && !slices.ContainsFunc(fit, func(d *device) bool { return d.taken || slices.Contains(chosen, d) }) {
				w.take(at, fit, len(fit), chosen, boards, visit)
			}
			continue
		}
		fit = slices.DeleteFunc(fit, func(d *device) bool { return d.taken || slices.Contains(chosen, d) })
		w.take(at, fit, wish.count, chosen, boards, visit)
	}
}

// take chooses so many devices for a request, in every way, and goes on with the next request.
func (w *world) take(at int, fit []*device, n int, chosen []*device, boards map[int]int64, visit func([]*device)) {
	if n == 0 {
		w.fulfil(at+1, chosen, boards, visit)
		return
	}
	q := w.requests[at]
	for i := range fit {
		if len(fit)-i < n {
			return
		}
		d, next := fit[i], boards
		if q.together {
			board, set := boards[q.claim]
			if d.board < 0 || set && board != d.board {
				continue
			}
			next = map[int]int64{q.claim: d.board}
			for claim, board := range boards {
				next[claim] = board
			}
		}
		w.take(at, fit[i+1:], n-1, append(slices.Clone(chosen), d), next, visit)
	}
}

// aligned reports whether all devices with a known NUMA node are on the given ones.
func aligned(chosen []*device, near []int) bool {
	return !slices.ContainsFunc(chosen, func(d *device) bool {
		return d.numas != nil && !slices.ContainsFunc(d.numas, func(n int) bool { return slices.Contains(near, n) })
	})
}

// meets reports whether all devices of the drivers that the pod demands are known to be on its NUMA nodes.
func (w *world) meets(chosen []*device) bool {
	return len(w.near.NUMAs) == 0 || !slices.ContainsFunc(chosen, func(d *device) bool {
		return slices.Contains(w.drivers, d.driver) && (d.numas == nil || !aligned([]*device{d}, w.near.NUMAs))
	})
}

// located reports whether each driver that the pod demands has a device whose NUMA node is known.
func (w *world) located() bool {
	return len(w.near.NUMAs) == 0 || !slices.ContainsFunc(w.drivers, func(driver string) bool {
		return !slices.ContainsFunc(w.devices, func(d *device) bool { return d.driver == driver && d.numas != nil })
	})
}

// fewest returns the smallest number of NUMA nodes on which devices can be taken to be, at least 1.
func fewest(chosen []*device) int {
	ids := []int{0, 1, 4, 9}
	best := len(ids)
	for set := range 1 << len(ids) {
		var near []int
		for i, id := range ids {
			if set&(1<<i) != 0 {
				near = append(near, id)
			}
		}
		if len(near) < best && aligned(chosen, near) {
			best = max(1, len(near))
		}
	}
	return best
}

const boardAttribute = "example.com/board"

// put makes the cluster of a world, and returns its pod.
func (w *world) put(b *bench) *v1.Pod {
	b.clear()
	b.near = w.near
	pools := map[string][]*device{}
	for _, d := range w.devices {
		pools[d.driver+"/"+d.pool] = append(pools[d.driver+"/"+d.pool], d)
		if d.taken {
			b.taken.Insert(structured.MakeDeviceID(d.driver, d.pool, d.name))
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
	for name, driver := range map[string]string{"any": "", "a": "a.example.com", "b": "b.example.com"} {
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
	if len(w.drivers) > 0 {
		pod.Annotations = map[string]string{apipod.AlignAnnotation: "driver:" + strings.Join(w.drivers, ",driver:")}
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
		for i, q := range w.requests {
			if q.claim != claim {
				continue
			}
			spec.Requests = append(spec.Requests, q.written(fmt.Sprintf("r%d", i)))
			if q.together {
				spec.Constraints = []resourcev1.DeviceConstraint{
					{MatchAttribute: new(resourcev1.FullyQualifiedName(boardAttribute))}}
			}
		}
		if len(spec.Requests) == 0 {
			return pod
		}
		b.claim(pod, spec)
	}
}

func (q request) written(name string) resourcev1.DeviceRequest {
	out := resourcev1.DeviceRequest{Name: name}
	for i, w := range q.wishes {
		class := map[string]string{"": "any", "a.example.com": "a", "b.example.com": "b"}[w.driver]
		mode, selectors := resourcev1.DeviceAllocationModeExactCount, []resourcev1.DeviceSelector(nil)
		if w.count == 0 {
			mode = resourcev1.DeviceAllocationModeAll
		}
		if w.model != "" {
			selectors = selector(fmt.Sprintf(`device.attributes["example.com"].model == %q`, w.model))
		}
		if len(q.wishes) == 1 {
			out.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: int64(w.count),
				Selectors: selectors}
			return out
		}
		out.FirstAvailable = append(out.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprintf("s%d", i),
			DeviceClassName: class, AllocationMode: mode, Count: int64(w.count), Selectors: selectors})
	}
	return out
}

// The devices that a pod gets are a set that its claims allow. Where an allowed set is aligned, the pod gets an aligned
// one; a pod without CPUs gets one on as few NUMA nodes as any. A pod is refused only if there is no set at all, or no
// aligned one where that is required, or none that meets its demand. An exhaustive search finds all sets.
func TestDevicesAreAlignedWheneverTheyCanBe(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	b := newBench(t)
	count := map[string]int{}
	for i := range *draws {
		w := draw(r)
		got := b.schedule(context.Background(), t, w.put(b))
		if why := w.judge(got, count); why != "" {
			t.Fatalf("draw %d of seed %d: %s\n%s", i, *seed, why, w)
		}
	}
	t.Logf("%v", count)
	for _, kind := range []string{"aligned", "elsewhere", "few", "refused", "none", "as demanded", "demand refused"} {
		if count[kind] == 0 && *draws >= 1000 {
			t.Errorf("no pod was %s", kind)
		}
	}
}

// judge compares what a pod got with the exhaustive search; it returns "" if both agree.
func (w *world) judge(got outcome, count map[string]int) string {
	allowed, can, meet, least := map[string][]*device{}, false, false, len(w.devices)
	w.search(func(chosen []*device) {
		var names []string
		for _, d := range chosen {
			names = append(names, d.String())
		}
		slices.Sort(names)
		allowed[strings.Join(names, " ")] = chosen
		meet = meet || w.meets(chosen)
		can = can || aligned(chosen, w.near.NUMAs) && w.meets(chosen)
		least = min(least, fewest(chosen))
	})
	chosen, found := allowed[strings.Join(got.devices, " ")]
	must := w.near.Must && len(w.near.NUMAs) > 0
	meet = meet && w.located()
	switch {
	case got.why != "" && len(allowed) > 0 && meet && !(must && !can):
		return fmt.Sprintf("refused (%s), but %d sets are allowed, aligned: %v", got.why, len(allowed), can)
	case got.why != "":
		return w.judgeRefusal(got.why, len(allowed), meet, count)
	case !found:
		return fmt.Sprintf("got %v, which is not allowed", got.devices)
	case len(w.near.NUMAs) == 0:
		count["few"]++
		if n := fewest(chosen); n > least {
			return fmt.Sprintf("got %v on %d NUMA nodes, and %d are enough", got.devices, n, least)
		}
	case !w.meets(chosen) || !w.located():
		return fmt.Sprintf("got %v, and the pod demands otherwise", got.devices)
	case can:
		count["aligned"]++
		if !aligned(chosen, w.near.NUMAs) {
			return fmt.Sprintf("got %v, though there is an aligned set", got.devices)
		}
	case must:
		return fmt.Sprintf("got %v, and no aligned set exists", got.devices)
	case len(w.drivers) > 0:
		count["as demanded"]++
	default:
		count["elsewhere"]++
	}
	return ""
}

// judgeRefusal is judge for a pod that was rightly refused. meet is true if the pod's demand can be met.
func (w *world) judgeRefusal(why string, allowed int, meet bool, count map[string]int) string {
	reason := "the pod's claims get no devices on NUMA node"
	switch {
	case !w.located():
		count["demand refused"]++
		reason = "has a known NUMA node, as tenon.sh/align demands"
	case allowed == 0:
		count["none"]++
		return ""
	case !meet:
		count["demand refused"]++
	default:
		count["refused"]++
	}
	if !strings.Contains(why, reason) {
		return fmt.Sprintf("refused without the reason %q: %s", reason, why)
	}
	return ""
}

func (w *world) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "near %+v, demanded drivers %v\n", w.near, w.drivers)
	for _, d := range w.devices {
		fmt.Fprintf(&out, "device %s on %v model %s board %d taken %v part %v whole %v\n",
			d, d.numas, d.model, d.board, d.taken, d.part, d.whole)
	}
	for _, q := range w.requests {
		fmt.Fprintf(&out, "request %+v\n", q)
	}
	return out.String()
}
