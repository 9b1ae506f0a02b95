package steer

import (
	"cmp"
	"iter"
	"maps"
	"math/bits"
	"reflect"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/cluster/claims"
)

// index has the slices of the cluster by node. It belongs to the scheduling loop.
type index struct {
	// of is what it was made from, and sum the sum of it; as long as the index has the slices, no other ones have their
	// addresses.
	of    []*resourcev1.ResourceSlice
	sum   uint64
	nodes map[string]*ofNode
	rest  *rest
	// shown are all slices, or their stand-ins, in an order that stays the same while they do.
	shown []*resourcev1.ResourceSlice
	// functions may be nil; version is their version when the index was made.
	functions Functions
	version   int64
}

// Functions knows on which NUMA nodes the PCI functions of nodes are.
type Functions interface {
	// Function is a [claims.Functions].
	Function(node, address string) (numa int, ok bool)
	// Version changes whenever Function returns something else.
	Version() int64
}

// rest are the slices that do not belong to one node, and the slices of all pools.
type rest struct {
	common []*resourcev1.ResourceSlice
	ids    [][]structured.DeviceID // of the devices in common
	pools  map[poolID][]*resourcev1.ResourceSlice
	mixed  []poolID // that have slices in common, and others
}

type poolID struct{ driver, pool string }

func poolOf(s *resourcev1.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// ofNode are the slices that one node has for itself.
type ofNode struct {
	slices []*resourcev1.ResourceSlice // by name
	pools  []ownPool
	// numas has, for each slice and device, the NUMA nodes of the device; nil if they are not known.
	numas [][][]int
	ids   [][]structured.DeviceID
	// asked is true if the place of a device depends on where a PCI function is, located if a device has known NUMA nodes,
	// and unknown if a device has none.
	asked, located, unknown bool
	// where has the NUMA nodes of each located device.
	where    map[claims.ID][]int
	standIns *standIns // nil if devices cannot be left out one by one
}

// ownPool is how many slices of a pool belong to the node.
type ownPool struct {
	poolID
	own int
}

// maxDevices bounds the devices of a node that are looked at. A node with more is left to the wrapped plugin.
const maxDevices = 4096

// update makes the index anew if the slices have changed, in whatever order they come. The slices of a node that have
// not changed are not read again.
func (x *index) update(all []*resourcev1.ResourceSlice) {
	version, function := int64(0), claims.Functions(nil)
	if x.functions != nil {
		version, function = x.functions.Version(), x.functions.Function
	}
	reported := version != x.version
	sum := sumOf(all)
	if x.rest != nil && len(all) == len(x.of) && sum == x.sum && !reported {
		return
	}
	x.version = version
	before := x.nodes
	x.of, x.sum, x.nodes = slices.Clone(all), sum, map[string]*ofNode{}
	x.rest = &rest{pools: map[poolID][]*resourcev1.ResourceSlice{}}
	own := map[string][]*resourcev1.ResourceSlice{}
	for _, s := range all {
		x.rest.pools[poolOf(s)] = append(x.rest.pools[poolOf(s)], s)
		if s.Spec.NodeName == nil || *s.Spec.NodeName == "" {
			x.rest.common, x.rest.ids = append(x.rest.common, s), append(x.rest.ids, idsOf(s))
			continue
		}
		own[*s.Spec.NodeName] = append(own[*s.Spec.NodeName], s)
	}
	x.rest.mix()
	for node, list := range own {
		slices.SortFunc(list, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		if old := before[node]; old != nil && slices.Equal(old.slices, list) && !(reported && old.asked) {
			x.nodes[node] = old
			continue
		}
		x.nodes[node] = readNode(list, function)
	}
	x.shown = slices.Clone(x.rest.common)
	for _, node := range slices.Sorted(maps.Keys(x.nodes)) {
		x.shown = append(x.shown, x.nodes[node].shown()...)
	}
}

// sumOf returns a number that is the same for the same slices in any order, and for others only by a chance of one to
// 2^64. To look each of them up in a set would take as long as the wrapped plugin needs for some nodes.
func sumOf(all []*resourcev1.ResourceSlice) (sum uint64) {
	for _, s := range all {
		x := uint64(reflect.ValueOf(s).Pointer()) // mixed as by splitmix64
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		sum += x ^ x>>31
	}
	return sum
}

// shown returns the slices of a node, or their stand-ins.
func (n *ofNode) shown() []*resourcev1.ResourceSlice {
	if n.standIns != nil {
		return n.standIns.slices
	}
	return n.slices
}

// mix finds the pools that are mixed.
func (r *rest) mix() {
	common := map[poolID]int{}
	for _, s := range r.common {
		common[poolOf(s)]++
	}
	for id, n := range common {
		if n < len(r.pools[id]) {
			r.mixed = append(r.mixed, id)
		}
	}
}

// readNode reads the slices of a node. The result has no located devices if there are too many.
func readNode(list []*resourcev1.ResourceSlice, functions claims.Functions) *ofNode {
	n := &ofNode{slices: list}
	devices, pools := 0, map[poolID]int{}
	for _, s := range list {
		if pools[poolOf(s)]++; pools[poolOf(s)] == 1 {
			n.pools = append(n.pools, ownPool{poolID: poolOf(s)})
		}
		devices += len(s.Spec.Devices)
	}
	for i := range n.pools {
		n.pools[i].own = pools[n.pools[i].poolID]
	}
	if devices > maxDevices {
		return n
	}
	n.where = map[claims.ID][]int{}
	for _, s := range list {
		numas, asked := claims.NUMAs(s, functions)
		n.asked = n.asked || asked
		n.numas, n.ids = append(n.numas, numas), append(n.ids, idsOf(s))
		for i, on := range numas {
			if n.unknown = n.unknown || on == nil; on != nil {
				n.where[claims.ID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Name: s.Spec.Devices[i].Name}] = on
			}
		}
	}
	if n.located = len(n.where) > 0; n.located {
		n.standIns = newStandIns(list)
	}
	return n
}

// apart returns the first device that is on none of the NUMA nodes; false if there is none.
func (n *ofNode) apart(devices []claims.ID, near []int) (claims.ID, bool) {
	for _, id := range devices {
		if on := n.where[id]; on != nil && !claims.Touch(on, near) {
			return id, true
		}
	}
	return claims.ID{}, false
}

// locates reports whether a driver has devices on the node whose NUMA nodes are known. n may be nil.
func (n *ofNode) locates(driver string) bool {
	if n == nil {
		return false
	}
	for i, s := range n.slices {
		if s.Spec.Driver == driver && i < len(n.numas) &&
			slices.ContainsFunc(n.numas[i], func(on []int) bool { return on != nil }) {
			return true
		}
	}
	return false
}

// offer is what the wrapped plugin sees of the devices that a node can use.
type offer struct {
	slices  []*resourcev1.ResourceSlice
	devices sets.Set[structured.DeviceID] // allocated ones, or others that it must not choose
	// claims and classes are seen otherwise than they are; see [cycle.limit] and [limitedClasses].
	claims  map[string]limited
	classes []string
}

// ordered returns what a node has, with the devices on the given NUMA nodes first.
func (c *cycle) ordered(n *ofNode, near []int) offer {
	out := c.blank(n, *n.slices[0].Spec.NodeName)
	for i := range n.slices {
		out.order(n, i, near)
	}
	return out
}

// order adds a slice of a node, with the devices on the given NUMA nodes first.
func (o *offer) order(n *ofNode, i int, near []int) {
	var first, last []resourcev1.Device
	for k, d := range n.slices[i].Spec.Devices {
		if on := n.numas[i][k]; on == nil || claims.Touch(on, near) {
			first = append(first, d)
		} else {
			last = append(last, d)
		}
	}
	o.add(n.slices[i], append(first, last...))
}

// confined returns what a node has, where devices on other NUMA nodes than the given ones count as allocated. A request
// for all devices that match such a device therefore fails, and none that counts devices gets it. Of the drivers, all
// devices have to be on these NUMA nodes, also those whose NUMA node is not known.
func (c *cycle) confined(n *ofNode, near []int, drivers []string) offer {
	out := c.blank(n, *n.slices[0].Spec.NodeName)
	for i, s := range n.slices {
		c.confine(&out, n, i, near, slices.Contains(drivers, s.Spec.Driver))
	}
	return out
}

// demanded returns what a node has, confined only for devices of the drivers that the pod demands. The other devices
// on the given NUMA nodes come first.
func (c *cycle) demanded(n *ofNode, near []int) offer {
	out := c.blank(n, *n.slices[0].Spec.NodeName)
	for i, s := range n.slices {
		if slices.Contains(c.demand.drivers, s.Spec.Driver) {
			c.confine(&out, n, i, near, true)
		} else {
			out.order(n, i, near)
		}
	}
	return out
}

// confine adds a slice of a node, where devices on other NUMA nodes count as allocated, and, if known is true, those
// whose NUMA node is not known. A device that is really free takes nothing from counters then.
func (c *cycle) confine(o *offer, n *ofNode, i int, near []int, known bool) {
	s := n.slices[i]
	devices, copied := s.Spec.Devices, false
	for k, on := range n.numas[i] {
		if claims.Touch(on, near) || on == nil && !known {
			continue
		}
		if id := n.ids[i][k]; len(devices[k].ConsumesCounters) > 0 && !c.seen.uses(id) {
			if !copied {
				devices, copied = slices.Clone(devices), true
			}
			devices[k].ConsumesCounters = nil
		}
		o.devices.Insert(n.ids[i][k])
	}
	o.add(s, devices)
}

func idsOf(s *resourcev1.ResourceSlice) []structured.DeviceID {
	out := make([]structured.DeviceID, len(s.Spec.Devices))
	for i := range s.Spec.Devices {
		out[i] = structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)
	}
	return out
}

// asIs returns what a node has.
func (c *cycle) asIs(node string) offer {
	n := c.nodes[node]
	if n == nil {
		n = &ofNode{}
	}
	out := c.blank(n, node)
	out.devices = c.seen.allocated()
	out.slices = append(out.slices, n.slices...)
	return out
}

// blank returns an offer with the slices that the node shares with others, and with the allocated devices of all its
// slices.
func (c *cycle) blank(n *ofNode, node string) offer {
	out := offer{slices: slices.Clone(c.rest.common), devices: sets.New[structured.DeviceID]()}
	for _, p := range n.pools {
		out.slices = append(out.slices, c.rest.siblings(p, node)...)
	}
	for _, id := range c.rest.mixed {
		if !slices.ContainsFunc(n.pools, func(p ownPool) bool { return p.poolID == id }) {
			out.slices = append(out.slices, c.rest.siblings(ownPool{poolID: id}, node)...)
		}
	}
	for _, s := range out.slices[len(c.rest.common):] {
		if slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return len(d.ConsumesCounters) > 0 }) {
			out.devices = out.devices.Union(c.seen.allocated().Intersection(sets.New(idsOf(s)...)))
		}
	}
	allocated := c.seen.allocated()
	for _, list := range [][][]structured.DeviceID{n.ids, c.rest.ids} {
		for _, ids := range list {
			for _, id := range ids {
				if allocated.Has(id) {
					out.devices.Insert(id)
				}
			}
		}
	}
	return out
}

// add adds a slice with other devices.
func (o *offer) add(s *resourcev1.ResourceSlice, devices []resourcev1.Device) {
	copied := *s
	copied.Spec.Devices = devices
	o.slices = append(o.slices, &copied)
}

// siblings returns the slices of other nodes in a pool, if the node's own ones are not the whole pool. The wrapped
// plugin counts them.
func (r *rest) siblings(p ownPool, node string) (out []*resourcev1.ResourceSlice) {
	all := r.pools[p.poolID]
	if len(all) == p.own {
		return nil
	}
	for _, o := range all {
		if o.Spec.NodeName != nil && *o.Spec.NodeName != "" && *o.Spec.NodeName != node {
			out = append(out, o)
		}
	}
	return out
}

// maxTargets bounds how many sets of NUMA nodes are tried. It is enough for all sets of six, and for all pairs of ten.
// maxSets bounds how many are looked at for that, where the pod holds devices already.
const (
	maxTargets = 62
	maxSets    = 4096
)

// targets are the sets of NUMA nodes to try one after the other: where the pod is, or, if it is nowhere, sets of
// the NUMA nodes that have free devices or devices that the pod holds already, the smaller ones first. The devices that
// it holds are in each set. Among equally large ones, sets with fewer free devices come first, so that large claims
// find room elsewhere. There are none if every choice is as near.
func (c *cycle) targets(n *ofNode, near []int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		if len(near) > 0 {
			if c.far(n, near) {
				yield(near)
			}
			return
		}
		all := c.free(n)
		looked, found := 0, 0
		for size := 1; size < len(all); size++ {
			for set := uint64(1)<<size - 1; set>>len(all) == 0; set = following(set) {
				target := members(all, set)
				if _, apart := n.apart(c.held, target); !apart {
					if found++; !yield(target) {
						return
					}
				}
				if looked++; looked == maxSets || found == maxTargets {
					return
				}
			}
		}
	}
}

// following returns the next larger set with as many members.
func following(set uint64) uint64 {
	low := set & -set
	high := set + low
	return high | (set^high)>>2/low
}

// members returns the NUMA nodes of a set, which has bit i for all[i].
func members(all []int, set uint64) (out []int) {
	for ; set != 0; set &= set - 1 {
		out = append(out, all[bits.TrailingZeros64(set)])
	}
	return out
}

// free returns the NUMA nodes that have devices which no claim holds alone, or devices that the pod holds, the ones
// with the fewest of the former first: at most maxTargets.
func (c *cycle) free(n *ofNode) []int {
	type one struct{ numa, free int }
	all := make([]one, 0, 8)
	count := func(numas []int, devices int) {
		for _, numa := range numas {
			at := slices.IndexFunc(all, func(x one) bool { return x.numa == numa })
			if at < 0 {
				at, all = len(all), append(all, one{numa: numa})
			}
			all[at].free += devices
		}
	}
	allocated := c.seen.allocated()
	for i, numas := range n.numas {
		for k, on := range numas {
			if on != nil && !allocated.Has(n.ids[i][k]) {
				count(on, 1)
			}
		}
	}
	for _, id := range c.held {
		count(n.where[id], 0)
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.numa, b.numa)) })
	all = all[:min(len(all), maxTargets)] // a bit of set for each
	out := make([]int, 0, len(all))
	for _, x := range all {
		out = append(out, x.numa)
	}
	return out
}

// far reports whether the claims may get devices that are not near the pod, or that are not certainly near it and
// demanded.
func (c *cycle) far(n *ofNode, near []int) bool {
	if c.demand.limits() {
		return true
	}
	allocated := c.seen.allocated()
	for i, numas := range n.numas {
		demanded := len(c.demand.drivers) > 0 && slices.Contains(c.demand.drivers, n.slices[i].Spec.Driver)
		for k, on := range numas {
			if (on == nil && demanded || on != nil && !claims.Touch(on, near)) && !allocated.Has(n.ids[i][k]) {
				return true
			}
		}
	}
	return false
}
