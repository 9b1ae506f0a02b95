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

// poolKey names a pool: the name of a pool need not be unique among drivers.
type poolKey struct{ driver, pool string }

// Published returns the devices of each node that slices describe, by name of the node. Slices of devices that several
// nodes may use, such as devices of a network, are left out: their devices are on no NUMA node. Only the newest
// generation of a pool counts, as for kube-scheduler, also if slices of it are missing. functions may be nil.
func Published(all []resourcev1.ResourceSlice, functions Functions) map[string]*Node {
	pools := map[poolKey][]*resourcev1.ResourceSlice{}
	for i := range all {
		s := &all[i]
		key := poolKey{s.Spec.Driver, s.Spec.Pool.Name}
		known := pools[key]
		switch {
		case len(known) == 0 || known[0].Spec.Pool.Generation < s.Spec.Pool.Generation:
			pools[key] = []*resourcev1.ResourceSlice{s}
		case known[0].Spec.Pool.Generation == s.Spec.Pool.Generation:
			pools[key] = append(known, s)
		}
	}
	out := map[string]*Node{}
	for _, pool := range pools {
		for name, n := range readPool(pool, functions) {
			if out[name] == nil {
				out[name] = &Node{}
			}
			out[name].Devices = append(out[name].Devices, n.Devices...)
			out[name].Problems = append(out[name].Problems, n.Problems...)
		}
	}
	for _, n := range out {
		slices.SortFunc(n.Devices, func(a, b Device) int { return a.Compare(b.ID) })
		slices.Sort(n.Problems)
	}
	return out
}

// readPool returns the devices of one generation of a pool, by node.
func readPool(pool []*resourcev1.ResourceSlice, functions Functions) map[string]*Node {
	out := map[string]*Node{}
	slices.SortFunc(pool, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range pool {
		if s.Spec.NodeName == nil || *s.Spec.NodeName == "" {
			continue
		}
		n := out[*s.Spec.NodeName]
		if n == nil {
			n = &Node{}
			out[*s.Spec.NodeName] = n
		}
		n.read(s, functions)
	}
	spec := pool[0].Spec
	if want := spec.Pool.ResourceSliceCount; int64(len(pool)) != want {
		for _, n := range out {
			n.fault(spec, fmt.Errorf("%d of %d slices are there", len(pool), want))
		}
	}
	return out
}

// read adds the devices of a slice. The first fault of a slice is reported; its device is at an unknown place.
func (n *Node) read(s *resourcev1.ResourceSlice, functions Functions) {
	faulty := false
	for i := range s.Spec.Devices {
		if len(n.Devices) == maxDevices {
			n.fault(s.Spec, fmt.Errorf("more than %d devices; the others are ignored", maxDevices))
			return
		}
		d := Device{ID: ID{s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name}}
		var err error
		if d.NUMAs, d.Source, err = numasOf(d.Driver, &s.Spec.Devices[i]); err != nil && !faulty {
			faulty = true
			n.fault(s.Spec, err)
		}
		if at := address(d.Driver, &s.Spec.Devices[i]); d.NUMAs == nil && at != "" && functions != nil {
			if numa, ok := functions(*s.Spec.NodeName, at); ok {
				d.NUMAs, d.Source = []int{numa}, pciBusID
			}
		}
		n.Devices = append(n.Devices, d)
	}
}

func (n *Node) fault(spec resourcev1.ResourceSliceSpec, err error) {
	text := fmt.Sprintf("driver %s, pool %s: %v", spec.Driver, spec.Pool.Name, err)
	n.Problems = append(n.Problems, printable.Text(text))
}
