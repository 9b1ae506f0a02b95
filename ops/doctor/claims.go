package doctor

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file examines devices from claims (DRA). kube-scheduler allocates them without a look at NUMA nodes, and the
// kubelet prepares them after its Topology Manager has admitted the pod, without hints: what a claim gets lies
// beside the pod's CPUs only by chance.

// cpuDriver is the driver of dra-driver-cpu, which gives out CPUs itself.
const cpuDriver = "dra.cpu"

// claims adds the findings about devices from claims. Nodes with one NUMA node and nodes without a layout are left out:
// there, nothing can lie apart, or nothing is known.
func (x *examination) claims() {
	nodes := map[string]*state.Node{}
	for _, n := range x.View.States {
		if n.Quality == state.Exact && len(n.Machine.NUMAs()) > 1 {
			nodes[n.Name] = n
		}
	}
	published := claims.Published(x.Slices, kube.FunctionsOf(x.View.Layouts).Function)
	for _, name := range slices.Sorted(maps.Keys(published)) {
		if n := nodes[name]; n != nil {
			x.published(n, published[name])
			x.takenOver(n, published[name])
		}
	}
	x.allocated(nodes, published)
}

// published examines what drivers publish about the devices of a node.
func (x *examination) published(n *state.Node, node *claims.Node) {
	if len(node.Problems) > 0 {
		x.add("slices-faulty", onNode(n.Name, node.Problems...), "what drivers publish about their devices "+
			"(ResourceSlices) has faults", "")
	}
	unknown, all := map[string]int{}, map[string]int{}
	for _, d := range node.Devices {
		all[d.Driver]++
		if !known(n, d) {
			unknown[d.Driver]++
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(unknown)) {
		x.add("claim-devices-without-locality", onNode(n.Name, fmt.Sprintf("%d of %d devices", unknown[driver], all[driver])),
			"the driver "+driver+" does not say on which NUMA nodes its devices are", "")
	}
	if all[cpuDriver] > 0 && n.Rules.CPU.Static {
		x.add("cpus-given-twice", onNode(n.Name), "the driver "+cpuDriver+" and the kubelet's static CPU manager give "+
			"out the same CPUs", "")
	}
}

// known reports whether a device is on a NUMA node of the node's machine.
func known(n *state.Node, d claims.Device) bool {
	if len(d.NUMAs) == 0 {
		return false
	}
	_, ok := n.Machine.Position(idset.NUMA(d.NUMAs[0]))
	return ok
}

// takenOver examines the resources that device plugins of other nodes announce, and that a DeviceClass serves, too.
// On a node whose plugin does not announce the resource, kube-scheduler allocates devices of drivers for pods that
// request it, and the device manager passes over it (KEP-5004; noderesources/fit.go and devicemanager/manager.go of
// 1.37).
func (x *examination) takenOver(n *state.Node, node *claims.Node) {
	var drivers []string
	for _, d := range node.Devices {
		drivers = append(drivers, "driver "+d.Driver+" publishes devices there")
	}
	if drivers = slices.Compact(drivers); len(drivers) == 0 {
		return
	}
	for _, resource := range x.aligned() {
		if _, here := n.Machine.Resource(resource); !here && x.View.Served[resource] {
			x.add("resource-from-claims", onNode(n.Name, drivers...), "pods that request "+resource+" may get devices by DRA, "+
				"which no kubelet aligns: a DeviceClass serves it, and a device plugin announces it on other nodes only", "")
		}
	}
}

// aligned returns the resources whose devices some kubelet aligns, in ascending order.
func (x *examination) aligned() []string {
	out := map[string]bool{}
	for _, n := range x.View.States {
		for _, r := range n.Machine.Resources() {
			if n.Quality == state.Exact && r.NUMAs != 0 {
				out[r.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// site is a node with what is needed to judge the claims of its pods.
type site struct {
	node    *state.Node
	devices map[claims.ID]claims.Device // whose NUMA nodes are known
	holds   map[string]topo.Mask        // the NUMA nodes of what the kubelet gave a pod, by UID
	// free counts the devices that no claim holds and that share nothing, by driver and position of the NUMA node.
	free map[string][]int
}

// siteOf returns what is known of a node. taken are the devices that claims hold.
func siteOf(n *state.Node, all *claims.Node, taken map[claims.ID]bool) *site {
	s := &site{node: n, devices: map[claims.ID]claims.Device{}, holds: map[string]topo.Mask{}, free: map[string][]int{}}
	for _, e := range n.Entries {
		for _, h := range e.Holdings {
			s.holds[e.Pod.UID] |= h.NUMAs(n.Machine)
		}
	}
	for _, d := range all.Devices {
		if !known(n, d) {
			continue
		}
		s.devices[d.ID] = d
		if s.free[d.Driver] == nil {
			s.free[d.Driver] = make([]int, len(n.Machine.NUMAs()))
		}
		if d.Alone && !taken[d.ID] {
			s.free[d.Driver][s.position(d)]++
		}
	}
	return s
}

// position returns the position of the NUMA node that a known device is on.
func (s *site) position(d claims.Device) int {
	at, _ := s.node.Machine.Position(idset.NUMA(d.NUMAs[0]))
	return at
}

// allocated examines where the devices of allocated claims are.
func (x *examination) allocated(nodes map[string]*state.Node, published map[string]*claims.Node) {
	pods := map[string]*v1.Pod{}
	for p := range kube.EachPod(x.View.Pods) {
		if claims.Claims(p) && p.Spec.NodeName != "" && !kube.Ended(p) {
			pods[string(p.UID)] = p
		}
	}
	held, taken := claims.Allocated(x.Claims), map[claims.ID]bool{}
	for _, h := range held {
		for _, d := range h.Devices {
			taken[d] = true
		}
	}
	sites := map[string]*site{}
	for _, h := range held {
		for _, uid := range h.Pods {
			p := pods[uid]
			if p == nil || !h.UsedBy(p) || nodes[p.Spec.NodeName] == nil || published[p.Spec.NodeName] == nil {
				continue
			}
			name := p.Spec.NodeName
			if sites[name] == nil {
				sites[name] = siteOf(nodes[name], published[name], taken)
			}
			x.apart(p, h, sites[name])
		}
	}
}

// apart adds a finding if a pod's devices of a claim are not on the NUMA nodes of what the kubelet gave the pod, or, if
// it gave nothing, on several NUMA nodes although one has as many free.
func (x *examination) apart(p *v1.Pod, h claims.Held, s *site) {
	beside := s.holds[string(p.UID)]
	var mine []claims.Device
	var evidence []string
	common := ^topo.Mask(0)
	for _, id := range h.Devices {
		d, ok := s.devices[id]
		if !ok {
			continue
		}
		at := d.Near(s.node.Machine)
		mine, common = append(mine, d), common&at
		if beside == 0 || beside&at == 0 {
			evidence = append(evidence,
				fmt.Sprintf("claim %s/%s: device %s is on NUMA node %d", h.Namespace, h.Name, id, d.NUMAs[0]))
		}
	}
	switch {
	case len(evidence) == 0:
	case beside != 0:
		evidence = append(evidence, "its CPUs, memory and devices of plugins are on "+
			document.NUMANodes(document.NUMAs(s.node.Machine, beside)))
		x.add("claim-misaligned", onPod(p, evidence...), "devices of its claims are on other NUMA nodes than what the "+
			"kubelet gave it", "")
	case common == 0 && s.hasRoom(mine):
		x.add("claim-misaligned", onPod(p, evidence...), "devices of one claim are on several NUMA nodes, and one NUMA "+
			"node has as many free", "")
	}
}

// hasRoom reports whether some NUMA node has as many devices of the same drivers that are free, or among mine. What the
// claim's selectors require is not judged.
func (s *site) hasRoom(mine []claims.Device) bool {
	want := map[string]int{}
	for _, d := range mine {
		want[d.Driver]++
	}
	for i := range s.node.Machine.NUMAs() {
		room := true
		for driver, count := range want {
			free := s.free[driver][i]
			for _, d := range mine {
				if d.Driver == driver && d.Near(s.node.Machine)>>uint(i)&1 == 1 {
					free++
				}
			}
			room = room && free >= count
		}
		if room {
			return true
		}
	}
	return false
}
