package claims

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/core/printable"
)

// maxDevices bounds the devices of one pool on one node that are read. A machine with 512 CPUs publishes as many;
// the API server takes at most 128 devices in a slice.
const maxDevices = 4096

// Functions returns the id of the NUMA node of the PCI function at an address such as "0000:3b:00.0" on a node. ok is
// false if the function or its NUMA node is not known.
type Functions func(node, address string) (numa int, ok bool)

// poolKey names the part of a pool that is on one node. The name of a pool need not be unique among drivers. What a
// node writes about a pool must not harm another node: the API server lets a node write slices with its own name
// only, and any driver, pool and generation in them.
type poolKey struct{ driver, pool, node string }

// Published returns the devices of each node that slices describe, by name of the node. Slices of devices that several
// nodes may use, such as devices of a network, are left out: their devices are on no NUMA node. Only the newest
// generation of a node's part of a pool counts, also if slices of it are missing. functions may be nil.
func Published(all []resourcev1.ResourceSlice, functions Functions) map[string]*Node {
	pools, slicesOf := map[poolKey][]*resourcev1.ResourceSlice{}, map[poolKey]int64{}
	for i := range all {
		s := &all[i]
		spec := &s.Spec
		slicesOf[poolKey{spec.Driver, spec.Pool.Name, ""}]++
		if spec.NodeName == nil || *spec.NodeName == "" {
			continue
		}
		key := poolKey{spec.Driver, spec.Pool.Name, *spec.NodeName}
		known := pools[key]
		switch {
		case len(known) == 0 || known[0].Spec.Pool.Generation < spec.Pool.Generation:
			pools[key] = []*resourcev1.ResourceSlice{s}
		case known[0].Spec.Pool.Generation == spec.Pool.Generation:
			pools[key] = append(known, s)
		}
	}
	out := map[string]*Node{}
	for key, pool := range pools {
		if out[key.node] == nil {
			out[key.node] = &Node{}
		}
		out[key.node].readPool(pool, slicesOf[poolKey{key.driver, key.pool, ""}], functions)
	}
	for _, n := range out {
		slices.SortFunc(n.Devices, func(a, b Device) int { return a.Compare(b.ID) })
		slices.Sort(n.Problems)
	}
	return out
}

// NUMAs returns the NUMA nodes of each device of a slice that belongs to one node, or nil for a device at an unknown
// place. functions may be nil. asked is true if the place of a device depends on functions.
func NUMAs(s *resourcev1.ResourceSlice, functions Functions) (out [][]int, asked bool) {
	out = make([][]int, len(s.Spec.Devices))
	for i := range s.Spec.Devices {
		p, _ := locate(s, i, functions)
		out[i], asked = p.numas, asked || p.asked
	}
	return out, asked
}

// place is where a device is: its NUMA nodes, and the attribute that gave them. asked is true if functions were asked.
type place struct {
	numas  []int
	source string
	asked  bool
}

// locate returns where device i of a slice that belongs to one node is. An error names an attribute that gives no NUMA
// node; the address may give it then.
func locate(s *resourcev1.ResourceSlice, i int, functions Functions) (p place, err error) {
	d := &s.Spec.Devices[i]
	p.numas, p.source, err = numasOf(s.Spec.Driver, d)
	if at := address(s.Spec.Driver, d); p.numas == nil && at != "" && functions != nil {
		p.asked = true
		if numa, ok := functions(*s.Spec.NodeName, at); ok {
			p.numas, p.source = []int{numa}, pciBusID
		}
	}
	return p, err
}

// readPool adds the devices of one generation of a node's part of a pool. everywhere is the number of slices of the
// pool on all nodes, which a pool of several nodes counts.
func (n *Node) readPool(pool []*resourcev1.ResourceSlice, everywhere int64, functions Functions) {
	slices.SortFunc(pool, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	before := len(n.Devices)
	for _, s := range pool {
		n.read(s, before+maxDevices, functions)
	}
	spec := pool[0].Spec
	if want := spec.Pool.ResourceSliceCount; int64(len(pool)) < want && everywhere < want {
		n.fault(spec, fmt.Errorf("%d of %d slices are there", len(pool), want))
	}
}

// read adds the devices of a slice, as long as the node has fewer than limit. The first fault of a slice is
// reported; its device is at an unknown place.
func (n *Node) read(s *resourcev1.ResourceSlice, limit int, functions Functions) {
	faulty := false
	for i := range s.Spec.Devices {
		if len(n.Devices) == limit {
			n.fault(s.Spec, fmt.Errorf("more than %d devices; the others are ignored", maxDevices))
			return
		}
		d := Device{ID: ID{s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name}, Alone: alone(&s.Spec.Devices[i])}
		p, err := locate(s, i, functions)
		if d.NUMAs, d.Source = p.numas, p.source; err != nil && !faulty {
			faulty = true
			n.fault(s.Spec, err)
		}
		n.Devices = append(n.Devices, d)
	}
}

// alone computes [Device.Alone].
func alone(d *resourcev1.Device) bool {
	multiple := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	tainted := slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool {
		return t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute
	})
	return !multiple && !tainted && len(d.ConsumesCounters) == 0
}

func (n *Node) fault(spec resourcev1.ResourceSliceSpec, err error) {
	text := fmt.Sprintf("driver %s, pool %s: %v", spec.Driver, spec.Pool.Name, err)
	n.Problems = append(n.Problems, printable.Text(text))
}
