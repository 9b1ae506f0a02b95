// Package held joins what drivers publish, what claims hold and what kubelets gave: for each node its devices from
// claims (dynamic resource allocation, DRA) with their NUMA nodes and holders, and for each pod the devices of its
// claims.
//
// Invariant: a pod holds a device only if the pod itself names the claim, in its own namespace, and the status of the
// claim names the pod's UID. Whoever writes the status of a claim can thus give devices to no pod that does not use the
// claim. The package decides nothing and reads nothing: it takes the objects of a view. It refuses no object; faults
// are part of the result, and what a node or a device has beyond a bound is counted.
package held

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds of one node and of one device.
const (
	maxDevices = 2048
	maxHolders = 32
)

// Of returns what claims hold in a view. It returns nil if the view has no objects of DRA.
func Of(v *kube.View) *document.Claims {
	if v.Devices == nil {
		return nil
	}
	x := newJoin(v)
	for p := range kube.EachPod(v.Pods) {
		x.pod(p)
	}
	x.assign()
	for p := range kube.EachPod(v.Pods) {
		x.keptFrom(p)
	}
	out := &document.Claims{Nodes: map[string]*document.NodeClaims{}, Pods: x.pods}
	if x.unpublished {
		out.Unread = x.unread
	}
	for name := range x.nodes {
		if n := x.node(name); n != nil {
			out.Nodes[name] = n
		}
	}
	return out
}

// on names a device of a node: the API server lets every node write slices with any driver and pool, so devices of
// several nodes may have the same name.
type on struct {
	node string
	claims.ID
}

// join has what the result is computed from, and grows while pods are added.
type join struct {
	states    map[string]*state.Node
	published map[string]*claims.Node
	objects   map[types.NamespacedName]*resourcev1.ResourceClaim
	held      map[types.NamespacedName]claims.Held
	devices   *kube.Devices
	unread    string
	// unpublished: the slices were not read. Otherwise devices that no slice has are not kept: the status of a request
	// may name anything.
	unpublished bool

	where map[on]claims.Device
	nodes map[string]bool // nodes with devices
	pods  map[string]*document.PodClaims
	// users are the pods that hold a claim, and bound the nodes of these pods.
	users map[types.NamespacedName][]state.PodID
	bound map[types.NamespacedName]map[string]bool
	// holders are the claims that hold devices of a node.
	holders map[string]map[claims.ID][]document.ClaimHolder
	// kept are the devices that are kept for requests, without those that claims hold, and served the extended resources
	// that DRA serves.
	kept   map[on]kube.KeptDevice
	served map[string]bool
	groups []keptGroup    // ascending
	keptOf map[string]int // see group
	// keepers find the request of a pod.
	keepers *kube.Keepers
}

func newJoin(v *kube.View) *join {
	x := &join{states: map[string]*state.Node{}, objects: map[types.NamespacedName]*resourcev1.ResourceClaim{},
		held: map[types.NamespacedName]claims.Held{}, devices: v.Devices, unread: unread(v.Devices),
		where: map[on]claims.Device{}, nodes: map[string]bool{}, pods: map[string]*document.PodClaims{},
		users: map[types.NamespacedName][]state.PodID{}, bound: map[types.NamespacedName]map[string]bool{},
		holders:   map[string]map[claims.ID][]document.ClaimHolder{},
		published: claims.Published(v.Devices.Slices, kube.FunctionsOf(v.Layouts).Function)}
	for _, n := range v.States {
		x.states[n.Name] = n
	}
	for i := range v.Devices.Claims {
		c := &v.Devices.Claims[i]
		x.objects[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = c
	}
	for _, h := range claims.Allocated(v.Devices.Claims) {
		x.held[types.NamespacedName{Namespace: h.Namespace, Name: h.Name}] = h
	}
	for name, n := range x.published {
		x.nodes[name] = true
		for _, d := range n.Devices {
			x.where[on{name, d.ID}] = d
		}
	}
	x.unpublished = slices.ContainsFunc(v.Devices.Unread, func(l document.Limit) bool { return l.Resource == kube.Slices })
	x.keep(v)
	return x
}

// unread returns what could not be read, for people; "" if all was read.
func unread(d *kube.Devices) (out string) {
	for _, l := range d.Unread {
		if out != "" {
			out += "; "
		}
		out += l.Resource + " were not read (" + l.Reason + ")"
	}
	return out
}

// pod adds what a pod holds by its claims.
func (x *join) pod(p *v1.Pod) {
	named := claims.NamedBy(p)
	if len(named) == 0 || kube.Ended(p) {
		return
	}
	out := &document.PodClaims{Devices: []document.PodDevice{}}
	for _, c := range named {
		h, why := x.holds(p, c)
		if why != "" {
			out.Without = append(out.Without, why)
			continue
		}
		key := types.NamespacedName{Namespace: h.Namespace, Name: h.Name}
		x.users[key] = append(x.users[key], kube.ID(p))
		if node := p.Spec.NodeName; node != "" {
			if x.bound[key] == nil {
				x.bound[key] = map[string]bool{}
			}
			x.bound[key][node], x.nodes[node] = true, true
		}
		for _, id := range h.Devices {
			out.Devices = append(out.Devices, x.podDevice(p, h.Name, id))
		}
	}
	if len(x.devices.Unread) > 0 {
		out.Unread = x.unread
	}
	x.pods[string(p.UID)] = out
}

// podDevice returns a device that a pod holds, with its place on the node of the pod.
func (x *join) podDevice(p *v1.Pod, claim string, id claims.ID) document.PodDevice {
	out := document.PodDevice{Claim: printable.Text(claim), DeviceName: nameOf(id)}
	node, d := x.states[p.Spec.NodeName], x.where[on{p.Spec.NodeName, id}]
	out.NUMA, out.Near = place(node, d)
	if node == nil || out.NUMA == nil || node.Quality != state.Exact {
		return out
	}
	var beside topo.Mask
	if e, ok := node.Entry(string(p.UID)); ok {
		for _, h := range e.Holdings {
			beside |= h.NUMAs(node.Machine)
		}
	}
	out.Apart = beside != 0 && beside&d.Near(node.Machine) == 0
	return out
}

// place returns the NUMA node of a device, and the others that are as near. A device on a NUMA node that the machine of
// the node lacks is at an unknown place. n may be nil.
func place(n *state.Node, d claims.Device) (numa *int32, near v1alpha1.IDList) {
	var all idset.Set[idset.NUMA]
	for i, id := range d.NUMAs {
		if n != nil && n.Machine != nil {
			if _, ok := n.Machine.Position(idset.NUMA(id)); !ok {
				if i == 0 {
					return nil, ""
				}
				continue
			}
		}
		all = all.Union(idset.Of(idset.NUMA(id)))
	}
	if len(d.NUMAs) == 0 {
		return nil, ""
	}
	first := int32(d.NUMAs[0])
	if all.Len() > 1 {
		near = v1alpha1.IDList(all.String())
	}
	return &first, near
}

func nameOf(id claims.ID) document.DeviceName {
	return document.DeviceName{Driver: printable.Text(id.Driver), Pool: printable.Text(id.Pool),
		Device: printable.Text(id.Name)}
}

// node returns the devices of a node, or nil if there are none.
func (x *join) node(name string) *document.NodeClaims {
	holders := x.holders[name]
	out := &document.NodeClaims{Devices: []document.ClaimDevice{}}
	var all []claims.Device
	if n := x.published[name]; n != nil {
		all = slices.Clone(n.Devices)
		for _, p := range n.Problems {
			out.Problems = append(out.Problems, printable.Text(p))
		}
	}
	known := len(all)
	for id := range holders {
		if _, there := x.where[on{name, id}]; !there {
			all = append(all, claims.Device{ID: id, Alone: true})
		}
	}
	slices.SortFunc(all[known:], func(a, b claims.Device) int { return a.Compare(b.ID) })
	order := make([]int, len(all)) // indexes, held devices first, and then kept ones
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return x.rank(name, all[b].ID) - x.rank(name, all[a].ID)
	})
	out.Omitted = max(0, len(all)-maxDevices)
	order = order[:min(maxDevices, len(order))]
	slices.SortFunc(order, func(a, b int) int { return all[a].Compare(all[b].ID) })
	for _, i := range order {
		d := all[i]
		c := document.ClaimDevice{DeviceName: nameOf(d.ID), Shared: !d.Alone, Unpublished: i >= known}
		c.NUMA, c.Near = place(x.states[name], d)
		c.Holders = holders[d.ID]
		if more := len(c.Holders) - maxHolders; more > 0 {
			c.Holders, c.MoreHolders = c.Holders[:maxHolders], more
		}
		if k, is := x.kept[on{name, d.ID}]; is && len(c.Holders) == 0 {
			c.Kept = new(keptFor(k))
		}
		out.Devices = append(out.Devices, c)
	}
	if len(out.Devices) == 0 && len(out.Problems) == 0 {
		return nil
	}
	out.Unread = x.unread
	return out
}
