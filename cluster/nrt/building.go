package nrt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// building constructs a machine with the amounts of the zones, and the reserved and the held part of these amounts.
type building struct {
	zones []zone // ascending by id, the order of the machine's NUMA nodes
	rules place.Rules
	spec  topo.Spec
	held  place.Holding
	// omitted has the reasons why resources get no devices, by resource.
	omitted map[string]string
}

// Distances for zones without costs: the defaults of firmware (SLIT).
const (
	localDistance  = 10
	remoteDistance = 20
)

// noDevice is the id of the placeholder device of a resource that every zone lists with 0.
const noDevice = "none"

// describe computes spec, held and the reservations of rules from the zones. It adds to n what it corrects or does
// not understand.
func (b *building) describe(n *notes) error {
	for _, z := range b.zones {
		b.spec.NUMAs = append(b.spec.NUMAs, topo.NUMA{ID: z.id})
	}
	if err := b.cpus(); err != nil {
		return err
	}
	for i := range b.zones {
		b.memory(i, n)
	}
	b.spec.EverySize(func(*topo.NUMA) bool { return true }) // the object does not say which sizes Linux shows
	b.devices()
	b.distances(n)
	return nil
}

// cpus makes CPUs with consecutive ids, or one CPU on each NUMA node if no zone lists CPUs, because every machine
// needs some. On each NUMA node the reserved CPUs come first, then the held ones, then the free ones.
func (b *building) cpus() error {
	total := int64(0)
	for _, z := range b.zones {
		total += z.amounts[cpu].capacity
		if total > topo.MaxCPUs {
			return fmt.Errorf("zone %q: more than %d CPUs", clip(z.Name), topo.MaxCPUs)
		}
	}
	next := idset.CPU(0)
	var reserved, held []idset.CPU
	for i, z := range b.zones {
		a := z.amounts[cpu]
		if total == 0 {
			a = amount{1, 1, 1}
		}
		for k := range a.capacity {
			b.spec.Cores = append(b.spec.Cores, topo.CoreSpec{NUMA: z.id, Socket: idset.Socket(i), L3: i, CPUs: idset.Of(next)})
			switch reservedCPUs := a.capacity - a.allocatable; {
			case k < reservedCPUs:
				reserved = append(reserved, next)
			case k < reservedCPUs+a.allocatable-a.available:
				held = append(held, next)
			}
			next++
		}
	}
	if b.rules.CPU.Static {
		b.rules.CPU.Reserved, b.held.CPUs = idset.Of(reserved...), idset.Of(held...)
	}
	return nil
}

// memory gives the NUMA node at position i its memory and hugepages. In some producers' objects the capacity of
// memory includes hugepages (MemTotal of the NUMA node), in others it does not (Koordinator). The allocatable amount
// of memory never does. So the capacity is at least the sum of allocatable memory and hugepages.
func (b *building) memory(i int, n *notes) {
	z, numa := b.zones[i], &b.spec.NUMAs[i]
	a, pages := z.amounts[topo.Memory], int64(0)
	for _, name := range slices.Sorted(maps.Keys(z.amounts)) {
		if size, ok := strings.CutPrefix(name, hugepages); ok {
			pages += b.hugepages(i, name, size, n)
		}
	}
	numa.Bytes = max(a.capacity, a.allocatable+pages)
	b.book(i, topo.Memory, numa.Bytes-pages, a)
}

// hugepages adds the hugepages of one size to the NUMA node at position i, and returns how many bytes they have.
func (b *building) hugepages(i int, name, size string, n *notes) int64 {
	z, a := b.zones[i], b.zones[i].amounts[name]
	bytes, err := topo.ParseBytes(size)
	if err != nil || bytes == 0 {
		return 0 // zone.read has checked the size
	}
	count := a.capacity / bytes
	if count*bytes != a.capacity {
		n.add("zone %s: %s: capacity %d is not a multiple of the page size", z.Name, name, a.capacity)
	}
	b.spec.NUMAs[i].Hugepages = append(b.spec.NUMAs[i].Hugepages, topo.Hugepages{PageSize: bytes, Count: count})
	b.book(i, name, count*bytes, a)
	return count * bytes
}

// book reserves the part of a kind of memory that is not allocatable, and holds the part that is not available.
func (b *building) book(i int, kind string, capacity int64, a amount) {
	if !b.rules.Memory.Static {
		return
	}
	a.allocatable = min(a.allocatable, capacity)
	a.available = min(a.available, a.allocatable)
	if bytes := capacity - a.allocatable; bytes > 0 {
		reserved := place.Reserved{NUMA: b.zones[i].id, Kind: kind, Bytes: bytes}
		b.rules.Memory.Reserved = append(b.rules.Memory.Reserved, reserved)
	}
	if bytes := a.allocatable - a.available; bytes > 0 {
		b.held.Memory = append(b.held.Memory, place.Block{Kind: kind, NUMAs: 1 << uint(i), Bytes: bytes})
	}
}

// counts returns how many devices the zones have of each resource. It omits a resource with too many devices. In the
// order of names, it also omits a resource that would be one too many, or bring too many devices of all resources.
func (b *building) counts() map[string]int64 {
	all := map[string]int64{}
	for _, z := range b.zones {
		for name, a := range z.amounts {
			if name != cpu && !isMemory(name) && b.omitted[name] == "" {
				all[name] += a.capacity
			}
		}
	}
	total, kinds := int64(0), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch n := all[name]; {
		case n > topo.MaxDevices:
			b.omitted[name] = fmt.Sprintf("%d devices, the most is %d", n, topo.MaxDevices)
		case kinds == topo.MaxKinds:
			b.omitted[name] = fmt.Sprintf("more than %d resources have devices", topo.MaxKinds)
		case total+n > maxDevices:
			b.omitted[name] = fmt.Sprintf("more than %d devices of all resources", maxDevices)
		default:
			total, kinds = total+n, kinds+1
			continue
		}
		delete(all, name)
	}
	return all
}

// devices makes the devices of every resource. On each NUMA node the held ones come first, then the free ones, then
// those that are not allocatable, as unhealthy. A resource with capacity 0 in all zones gets one unhealthy device
// without a NUMA node.
func (b *building) devices() {
	names := b.counts()
	ids := make([][]string, len(b.zones)) // shared by the resources
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] == 0 {
			// A resource that the machine lacks would count as one that needs no alignment. The kubelet refuses a pod
			// that requests it; one unhealthy device makes place refuse the pod, too.
			b.spec.Devices = append(b.spec.Devices, topo.DeviceSpec{Resource: name, ID: noDevice, Unhealthy: true})
			continue
		}
		block := place.DeviceBlock{Resource: name}
		for i, z := range b.zones {
			a := z.amounts[name]
			near := []idset.NUMA{z.id}
			for k := range int(a.capacity) {
				if k == len(ids[i]) {
					ids[i] = append(ids[i], fmt.Sprintf("%d-%04d", z.id, k))
				}
				b.spec.Devices = append(b.spec.Devices, topo.DeviceSpec{Resource: name, ID: ids[i][k],
					NUMAs: near, Unhealthy: int64(k) >= a.allocatable})
			}
			if held := a.allocatable - a.available; held > 0 {
				block.IDs = append(block.IDs, ids[i][:held]...)
				block.NUMAs |= 1 << uint(i)
			}
		}
		if len(block.IDs) > 0 {
			slices.Sort(block.IDs)
			b.held.Devices = append(b.held.Devices, block)
		}
	}
}

// distances reads the costs. If no zone has costs, distances are unknown. Missing costs get the firmware's defaults.
func (b *building) distances(n *notes) {
	if !slices.ContainsFunc(b.zones, func(z zone) bool { return len(z.Costs) > 0 }) {
		return
	}
	at := map[string]int{}
	for i, z := range b.zones {
		at[z.Name] = i
	}
	for i, z := range b.zones {
		row := make([]int, len(b.zones))
		for k := range row {
			row[k] = remoteDistance
		}
		row[i] = localDistance
		for _, c := range z.Costs {
			to, ok := at[c.Name]
			if !ok || c.Value < 0 || c.Value > topo.MaxDist {
				n.add("zone %s: cost %d to zone %s is not understood", z.Name, c.Value, c.Name)
				continue
			}
			row[to] = int(c.Value)
		}
		b.spec.NUMAs[i].Distances = row
	}
}
