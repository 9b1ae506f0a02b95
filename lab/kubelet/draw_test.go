package kubelet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
)

// What the differential test draws: a machine, rules that its kubelet accepts, and steps that depend on what the node
// has left, so that admissions and refusals are both common.

// drawing is one scenario that is being drawn.
type drawing struct {
	r *rand.Rand
	s *scenario.Scenario
	// kinds bounds the kinds of resources of a pod: the kubelet merges in time that grows with (2^numas - 1)^kinds.
	kinds   int
	names   int  // pods so far
	refused bool // the last pod was
	waiting []string
	extras
	managers bool // the kubelet serves pods that request resources as a whole
	wide     bool // pods want memory of several NUMA nodes, and hugepages
	spread   bool // the CPU manager spreads whole cores over NUMA nodes; of some cores one thread is reserved
}

// extras has what a scenario file cannot express.
type extras struct {
	prefers map[string]preference // of the plugins of resources
	written map[string]*v1.Pod    // pods as they were written, by name
}

func pick[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// chance is true once in n times.
func (d *drawing) chance(n int) bool { return d.r.IntN(n) == 0 }

// resources are the device resources that machines may have.
func resources() []string { return []string{"acme.com/gpu", "acme.com/nic", "acme.com/fpga"} }

// draw makes the machine and the rules of a seed.
func draw(seed uint64) (*drawing, error) {
	d := &drawing{r: rand.New(rand.NewPCG(seed, 1)), s: &scenario.Scenario{},
		extras: extras{map[string]preference{}, map[string]*v1.Pod{}}}
	d.s.Comment = []string{fmt.Sprintf("Drawn with seed %d.", seed)}
	n := pick(d.r, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4)
	switch k := d.r.IntN(100); {
	case k < 9:
		n = pick(d.r, 5, 6, 7, 8, 8)
	case k == 9 && d.chance(2):
		n = pick(d.r, 9, 9, 9, 10, 10, 12)
	}
	if d.spread = d.chance(25); d.spread {
		n = pick(d.r, 4, 4, 4, 4, 5, 6)
	}
	m, err := topo.New(d.machine(n))
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	d.s.Machine = m
	d.topology(n)
	d.cpuRules()
	d.halfReserved()
	if n <= 4 || d.kinds > 2 || d.chance(2) && (n <= 8 || !d.s.Rules.CPU.Static) {
		d.memoryRules()
	}
	if d.s.ReserveCPUs > 0 {
		if d.s.Rules.CPU.Reserved, err = d.s.Rules.Reserve(m, d.s.ReserveCPUs); err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	for _, r := range m.Resources() {
		if d.chance(3) {
			d.prefers[r.Name] = preference(d.r.IntN(int(preferences)))
			if d.prefers[r.Name] == failing && !d.chance(3) {
				d.prefers[r.Name] = untied
			}
		}
	}
	d.wide = n > 2 && d.s.Rules.Memory.Static && (d.chance(3) || n == 4 && d.chance(2))
	return d, nil
}

// class names the class of a drawing, for the count.
func (d *drawing) class() string {
	n, policy := len(d.s.Machine.NUMAs()), d.s.Rules.Topology.Policy
	switch {
	case n <= 4:
		return fmt.Sprintf("%d NUMA nodes", n)
	case n > 8:
		return fmt.Sprintf("9-12 NUMA nodes, %v", policy)
	case policy == place.None || policy == place.SingleNUMA:
		return "5-8 NUMA nodes, none or single-numa-node"
	default:
		return "5-8 NUMA nodes, best-effort or restricted"
	}
}

func (d *drawing) topology(n int) {
	r := &d.s.Rules.Topology
	r.Policy = pick(d.r, place.None, place.BestEffort, place.BestEffort, place.Restricted, place.Restricted,
		place.Restricted, place.SingleNUMA, place.SingleNUMA)
	if n > 4 && d.chance(4) {
		r.Policy = pick(d.r, place.SingleNUMA, place.SingleNUMA, place.SingleNUMA, place.None)
	}
	if d.chance(2) {
		r.Scope = place.PerPod
	}
	d.kinds = []int{9, 9, 5, 4, 3, 2, 2, 2, 2, 1, 1, 1, 1}[n]
	if n == 4 && d.chance(20) {
		d.kinds = 4
	}
	if r.Policy == place.None || r.Policy == place.SingleNUMA {
		d.kinds = 9
	}
	if r.Policy == place.None {
		return
	}
	// The kubelet looks up distances by id although it stores them by position: with gaps it panics.
	last := d.s.Machine.NUMAs()[n-1]
	r.PreferClosest = int(last.ID) == n-1 && len(last.Distances) > 0 && d.chance(3)
	if n > 8 || d.chance(10) { // 8 is the kubelet's default
		r.MaxNUMAs = max(n, pick(d.r, 8, 16))
	}
}

func (d *drawing) cpuRules() {
	r := &d.s.Rules.CPU
	if r.Static = !d.chance(6); !r.Static {
		return
	}
	cpus := d.s.Machine.CPUs().List()
	n := 1 + d.r.IntN(max(1, len(cpus)/5))
	if d.chance(2) {
		d.s.ReserveCPUs = n
	} else {
		for range n {
			r.Reserved = r.Reserved.With(cpus[d.r.IntN(len(cpus))])
		}
	}
	for _, o := range []*bool{&r.FullPCPUsOnly, &r.DistributeAcrossNUMA, &r.AlignBySocket, &r.DistributeAcrossCores,
		&r.StrictReservation, &r.PreferAlignByUncoreCaches} {
		*o = d.chance(4)
	}
	// Incompatible options (cpumanager/policy_options.go).
	m := d.s.Machine
	if d.s.Rules.Topology.Policy == place.SingleNUMA || len(m.Sockets()) > m.WithCPUs().Len() {
		r.AlignBySocket = false
	}
	if r.DistributeAcrossCores {
		r.FullPCPUsOnly, r.DistributeAcrossNUMA, r.PreferAlignByUncoreCaches = false, false, false
	}
	if r.DistributeAcrossNUMA {
		r.PreferAlignByUncoreCaches = false
	}
}

// halfReserved reserves single threads if whole cores are spread: the kubelet may loop forever then.
func (d *drawing) halfReserved() {
	if !d.spread {
		return
	}
	d.s.ReserveCPUs, d.s.Rules.CPU = 0, place.CPURules{Static: true, FullPCPUsOnly: true, DistributeAcrossNUMA: true}
	for _, n := range d.s.Machine.NUMAs() {
		if !d.chance(3) {
			d.s.Rules.CPU.Reserved = d.s.Rules.CPU.Reserved.With(n.CPUs.Min())
		}
	}
	if d.s.Rules.CPU.Reserved.Empty() { // the static policy needs one
		d.s.Rules.CPU.Reserved = idset.Of(d.s.Machine.CPUs().Min())
	}
	if d.chance(2) {
		d.s.Rules.Topology = place.TopologyRules{}
	}
}

// memoryRules reserves no more than a NUMA node has: the kubelet subtracts without a check.
func (d *drawing) memoryRules() {
	r := &d.s.Rules.Memory
	for _, n := range d.s.Machine.NUMAs() {
		if most := n.Capacity(topo.Memory); most >= 1<<30 && (len(r.Reserved) == 0 || !d.chance(4)) {
			r.Reserved = append(r.Reserved, place.Reserved{NUMA: n.ID, Kind: topo.Memory, Bytes: int64(pick(d.r, 1, 2)) << 29})
		}
	}
	if r.Static = len(r.Reserved) > 0; !r.Static || !d.chance(4) {
		return
	}
	var all []place.Reserved
	for _, x := range r.Reserved {
		at, _ := d.s.Machine.Position(x.NUMA)
		for _, h := range d.s.Machine.NUMAs()[at].Hugepages {
			if h.Count > 0 && d.chance(2) {
				all = append(all, place.Reserved{NUMA: x.NUMA, Kind: h.Kind(), Bytes: h.PageSize * (1 + d.r.Int64N(h.Count))})
			}
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b place.Reserved) int {
		if a.NUMA != b.NUMA {
			return int(a.NUMA - b.NUMA)
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	r.Reserved = all
}

// machine draws the description of a machine of n NUMA nodes.
func (d *drawing) machine(n int) (spec topo.Spec) {
	ids := d.ids(n)
	for i := range n {
		node := topo.NUMA{ID: ids[i], Hugepages: []topo.Hugepages{
			{PageSize: 2 << 20, Count: int64(pick(d.r, 0, 256, 512))}, {PageSize: 1 << 30, Count: int64(pick(d.r, 0, 0, 1, 2))}}}
		if i == n-1 || !d.chance(12) {
			node.Bytes = int64(pick(d.r, 6, 8, 12, 16, 32)) << 30
		} else {
			node.Hugepages[0].Count, node.Hugepages[1].Count = 0, 0
		}
		spec.NUMAs = append(spec.NUMAs, node)
	}
	if own := d.chance(12); !d.chance(4) {
		for i := range spec.NUMAs {
			for j := range n {
				spec.NUMAs[i].Distances = append(spec.NUMAs[i].Distances, 10+min(1, max(i-j, j-i))*pick(d.r, 2, 11, 22))
			}
			if own { // firmware says 10 of the distance to itself; the kubelet does not rely on it
				spec.NUMAs[i].Distances[i] = pick(d.r, 10, 11, 20)
			}
		}
	}
	spec.Cores = d.cores(ids)
	for _, name := range resources()[:pick(d.r, 0, 1, 2, 2, 3)] {
		mode := d.r.IntN(16)
		for k := range d.r.IntN(8) {
			dev := topo.DeviceSpec{Resource: name, ID: fmt.Sprintf("d%d", k), Unhealthy: d.chance(10),
				NUMAs: []idset.NUMA{ids[d.r.IntN(n)]}}
			switch d.r.IntN(14) {
			case 0:
				dev.NUMAs = nil
			case 1:
				dev.NUMAs = slices.Compact([]idset.NUMA{ids[0], ids[n-1]})
			case 2:
				dev.NUMAs = ids[d.r.IntN(n):]
			}
			switch mode {
			case 0: // the plugin reports none
				dev.NUMAs = nil
			case 1: // each device is on two
				dev.NUMAs = slices.Compact([]idset.NUMA{ids[k%n], ids[min(k%n+1, n-1)]})
			case 2: // mixed
				if d.chance(2) {
					dev.NUMAs = nil
				}
			}
			spec.Devices = append(spec.Devices, dev)
		}
	}
	return spec
}

// ids draws NUMA node ids: mostly without gaps, at most 63, the limit of the kubelet's bitmasks.
func (d *drawing) ids(n int) (out []idset.NUMA) {
	if !d.chance(4) {
		for i := range n {
			out = append(out, idset.NUMA(i))
		}
		return out
	}
	for _, id := range d.r.Perm(64)[:n] {
		out = append(out, idset.NUMA(id))
	}
	slices.Sort(out)
	return out
}

// cores draws the cores of a machine. First come their places, then their CPU ids.
func (d *drawing) cores(ids []idset.NUMA) (out []topo.CoreSpec) {
	n := len(ids)
	if d.spread {
		return d.evenCores(ids)
	}
	per, sockets := pick(d.r, 1, 2, 3, 4, 6, 8), pick(d.r, 1, 1, 2, n)
	if n > 4 {
		per = pick(d.r, 1, 2, 4)
	}
	if n > 8 {
		per = pick(d.r, 1, 2)
	}
	split, across, l3 := d.chance(15), d.chance(8), 0
	for i, id := range ids {
		if i > 0 && d.chance(8) {
			continue // memory without CPUs
		}
		count := per
		if d.chance(8) {
			count = pick(d.r, 1, 3, 5)
		}
		groups := pick(d.r, 1, 1, 2, 3)
		for k := range count {
			c := topo.CoreSpec{NUMA: id, Socket: idset.Socket(i * sockets / n), L3: l3 + k*groups/count}
			if split { // a NUMA node of two sockets
				c.Socket = idset.Socket(2*i + k*2/count)
			}
			if across { // one L3 cache for a socket
				c.L3 = int(c.Socket)
			}
			out = append(out, c)
		}
		l3 += groups
	}
	d.number(out)
	return out
}

// evenCores draws as many cores of two threads for every NUMA node.
func (d *drawing) evenCores(ids []idset.NUMA) (out []topo.CoreSpec) {
	per, sockets := pick(d.r, 3, 4, 4, 6), pick(d.r, 1, 2)
	for i, id := range ids {
		for k := range per {
			first := idset.CPU(i*per + k)
			out = append(out, topo.CoreSpec{NUMA: id, Socket: idset.Socket(i * sockets / len(ids)), L3: i,
				CPUs: idset.Of(first, first+idset.CPU(len(ids)*per))})
		}
	}
	return out
}

// number numbers the CPUs of cores in one of firmware's usual orders.
func (d *drawing) number(cores []topo.CoreSpec) {
	threads := pick(d.r, 1, 2, 2, 2, 2, 4, 4, 8)
	mixed := threads > 1 && d.chance(15) // performance and efficiency cores
	want := make([]int, len(cores))
	total := 0
	for i := range cores {
		want[i] = threads
		if mixed && d.chance(2) {
			want[i] = 1
		}
		total += want[i]
	}
	var slots []int // the core of every CPU in the order of ids
	switch d.r.IntN(3) {
	case 0: // siblings are neighbours
		for i := range cores {
			for range want[i] {
				slots = append(slots, i)
			}
		}
	default: // first threads first
		for t := range threads {
			for i := range cores {
				if t < want[i] {
					slots = append(slots, i)
				}
			}
		}
		if d.chance(3) && !mixed { // NUMA nodes take turns
			per := total / threads
			turn := d.r.Perm(per)
			for k := range slots {
				slots[k] = turn[k%per]
			}
		}
	}
	id, hole := idset.CPU(0), d.chance(12)
	for _, core := range slots {
		if hole && d.chance(5) {
			id += idset.CPU(1 + d.r.IntN(3)) // offline CPUs
		}
		cores[core].CPUs = cores[core].CPUs.With(id)
		id++
	}
}
