// Package pin decides what the containers of one node are pinned to if the node's agent is the arbiter: the CPUs and
// NUMA nodes of each container, and the CPUs that containers without their own share.
//
// A pod with a decision of the scheduler gets what was decided, if it is free and is what the pod asks for. Every
// other pod is placed by the same algorithm when it arrives. A pod that the node's policies refuse runs in spite of
// that, since its kubelet has admitted it. It is placed without alignment, or shares CPUs, and [Pod.Fault] has the
// reason. What is decided for a pod that is bound to the node and has not arrived yet stays free for that pod.
//
// Invariant: no CPU is exclusive to two pods, or to two containers that run together, and no reserved CPU is
// exclusive. An event about one pod never moves another. Each placement is checked against this invariant, and is not
// used if it breaks it. The shared CPUs are the CPUs that no pod has exclusively; there is at least one. A Node
// never changes; every event makes another one. Equal histories give equal nodes.
//
// The package does not handle containers that do not exist yet or any more, cgroups, or time.
package pin

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Node has what the pods of one node are pinned to.
type Node struct {
	empty *place.Usage
	pods  []Pod // in the order of their arrival
	// bound are pods with a decision that are bound to the node; they had not arrived when Awaiting was called.
	bound []Arrival
}

// Pod is one pod that has arrived.
type Pod struct {
	UID      string
	Spec     *place.Pod
	Holdings []place.Holding // ordered as Spec.Containers, without containers that hold nothing
	// Offered: the pod arrived with a decision of the scheduler. Decided: the pod got what was decided.
	Offered, Decided bool
	// Fault is how the placement differs from a decision or from the node's policies; nil if it does not.
	Fault *Fault
	// Arrival is how the pod arrived, for [Node.Mended]; the zero Arrival if its requests have changed since.
	Arrival Arrival
}

// FaultCode is a kind of fault of a placement. Programs may compare the values; their meaning never changes.
type FaultCode string

const (
	// Replaced marks a pod whose decision was not free, or not what the pod asks for: the pod was placed anew.
	Replaced FaultCode = "decision-replaced"
	// Unaligned marks a pod that the node's policies refuse: the pod was placed without them.
	Unaligned FaultCode = "unaligned"
	// Shares marks a pod that shares CPUs because too few are free to have its own. A resized pod keeps what it had.
	Shares FaultCode = "shares-cpus"
	// Refused marks a pod whose placement breaks the package's invariant, which is a fault of Tenon: the placement
	// was not used. A pod that has arrived shares CPUs, one that was resized keeps what it had.
	Refused FaultCode = "placement-refused"
)

// Fault is a fault of a placement, with the reasons if the policies refuse the pod.
type Fault struct {
	Code    FaultCode
	Reasons []place.Reason
	// Detail names the part of the invariant that a refused placement breaks.
	Detail string `json:",omitempty"`
	// Resize: the fault is of a resize that was not carried out. Before is the fault that the pod had before the
	// resize.
	Resize bool   `json:",omitempty"`
	Before *Fault `json:",omitempty"`
}

// Pin is what one container is pinned to. If NUMAs is empty, memory may come from anywhere.
type Pin struct {
	CPUs      idset.Set[idset.CPU]
	NUMAs     topo.Mask
	Exclusive bool // no other container that runs at the same time uses the CPUs
}

// New returns a node without pods. The rules must be valid for the machine.
func New(m *topo.Machine, r place.Rules) *Node { return &Node{empty: place.NewUsage(m, r)} }

// Machine returns the node's machine.
func (n *Node) Machine() *topo.Machine { return n.empty.Machine }

// Rules returns the node's rules.
func (n *Node) Rules() place.Rules { return n.empty.Rules }

// Pods returns the pods in the order of their arrival. They must not be changed.
func (n *Node) Pods() []Pod { return n.pods }

// Pod returns the pod with this UID; the second result is false if it has not arrived.
func (n *Node) Pod(uid string) (Pod, bool) {
	if i := n.index(uid); i >= 0 {
		return n.pods[i], true
	}
	return Pod{}, false
}

func (n *Node) index(uid string) int {
	return slices.IndexFunc(n.pods, func(p Pod) bool { return p.UID == uid })
}

// Usage returns the machine with all holdings.
func (n *Node) Usage() *place.Usage { return n.empty.Hold(n.holdings()...) }

// holdings returns the holdings of all pods that have arrived.
func (n *Node) holdings() (out []place.Holding) {
	for _, p := range n.pods {
		out = append(out, p.Holdings...)
	}
	return out
}

// Shared returns the CPUs of containers without exclusive ones: all CPUs that no pod has exclusively. Under
// strict-cpu-reservation, the reserved CPUs are shared only if no others are left. There is at least one shared CPU.
func (n *Node) Shared() idset.Set[idset.CPU] {
	out := n.Machine().CPUs()
	if n.Rules().CPU.StrictReservation {
		out = out.Minus(n.Rules().CPU.Reserved)
	}
	for _, p := range n.pods {
		for _, h := range p.Holdings {
			out = out.Minus(h.CPUs)
		}
	}
	if out.Empty() {
		return n.Rules().CPU.Reserved
	}
	return out
}

// Pin returns what a container is pinned to. An unknown container shares CPUs.
func (n *Node) Pin(uid, container string) Pin {
	p, _ := n.Pod(uid)
	for _, h := range p.Holdings {
		if h.Container != container {
			continue
		}
		out := Pin{CPUs: h.CPUs, Exclusive: !h.CPUs.Empty()}
		for _, b := range h.Memory {
			out.NUMAs |= b.NUMAs
		}
		if !out.Exclusive {
			out.CPUs = n.Shared()
		}
		return out
	}
	return Pin{CPUs: n.Shared()}
}

// Arrival is a pod that arrives at a node.
type Arrival struct {
	UID  string
	Spec *place.Pod // valid, see place.Pod.Validate
	// Decision is what the scheduler decided for the pod; nil if it decided nothing.
	Decision []place.Holding
	// Devices are the devices that the kubelet has given to the pod's containers. Each container is placed near its
	// own devices.
	Devices []Given
}

// Given is devices of one resource that the kubelet has given to a container.
type Given struct {
	Container, Resource string
	IDs                 []string
}

// With returns the node after a pod has arrived. A pod that is already there does not change.
func (n *Node) With(a Arrival) *Node {
	if n.index(a.UID) >= 0 {
		return n
	}
	p := Pod{UID: a.UID, Spec: a.Spec, Offered: a.Decision != nil, Arrival: a}
	if a.Decision != nil {
		v, kept := place.Decided(n.Usage(), a.Spec, a.Decision)
		if kept {
			p.Holdings, p.Decided = withoutDevices(v.Holdings), true
			return n.addChecked(p)
		}
		p.Fault = &Fault{Code: Replaced}
	}
	u, spec := n.usageWithBound(a.UID), a.Spec
	if near, asks, ok := n.near(a); ok {
		u, spec = near, asks
	}
	p.place(u, spec)
	return n.addChecked(p)
}

// place computes the holdings of a pod without a decision. asks is what the pod asks for. If the node's policies
// refuse the pod, it gets a fault and is placed by relaxed rules. If these refuse it, too, it holds nothing and
// shares CPUs.
func (p *Pod) place(u *place.Usage, asks *place.Pod) {
	v := place.Place(u, asks)
	if !v.Fits() {
		p.Fault = &Fault{Code: Unaligned, Reasons: v.Reasons}
		v = place.Place(relaxed(u), asks)
	}
	if !v.Fits() {
		p.Fault.Code = Shares
	}
	p.Holdings = withoutDevices(v.Holdings)
}

// relaxed returns the usage under rules that refuse no pod because of alignment: a pod gets CPUs that are near each
// other, and memory from anywhere.
func relaxed(u *place.Usage) *place.Usage {
	r := u.Rules
	r.Topology.Policy, r.Memory.Static, r.CPU.FullPCPUsOnly = place.None, false, false
	taken := u.Machine.CPUs().Minus(u.FreeCPUs())
	return place.NewUsage(u.Machine, r).Hold(place.Holding{CPUs: taken})
}

// near returns what to place in order to align a pod to the devices that the kubelet has given to its containers. u
// is the node's usage with these devices only; no two containers have devices under one resource name. asks is the
// pod in which each container asks for exactly its own devices. ok is false if the kubelet has given no devices, or
// if they do not make a valid machine and pod.
func (n *Node) near(a Arrival) (u *place.Usage, asks *place.Pod, ok bool) {
	m := n.Machine().Spec()
	m.Devices = nil
	copied := *a.Spec
	copied.Containers = slices.Clone(copied.Containers)
	for i := range copied.Containers {
		c := &copied.Containers[i]
		c.Devices = nil
		for _, g := range a.Devices {
			known, ok := n.Machine().Resource(g.Resource)
			if g.Container != c.Name || !ok {
				continue
			}
			own := place.Count{Resource: fmt.Sprintf("%s/%d", g.Resource, i)}
			for _, id := range g.IDs {
				m.Devices = append(m.Devices, topo.DeviceSpec{Resource: own.Resource, ID: id,
					NUMAs: n.Machine().IDs(known.Device(id).NUMAs)})
			}
			own.N = int64(len(g.IDs))
			c.Devices = append(c.Devices, own)
		}
	}
	with, err := topo.New(m)
	if len(m.Devices) == 0 || err != nil || copied.Validate() != nil {
		return nil, nil, false
	}
	u = place.NewUsage(with, n.Rules()).Hold(n.holdings()...)
	return u.Hold(n.boundHoldings(a.UID)...), &copied, true
}

// withoutDevices drops devices, which the kubelet's device manager assigns.
func withoutDevices(hs []place.Holding) (out []place.Holding) {
	for _, h := range hs {
		if h.Devices = nil; !h.Empty() {
			out = append(out, h)
		}
	}
	return out
}

// add returns the node with one more pod, unchecked.
func (n *Node) add(p Pod) *Node {
	return &Node{empty: n.empty, pods: append(slices.Clone(n.pods), p), bound: n.bound}
}

// Without returns the node after pods have ended.
func (n *Node) Without(uids ...string) *Node {
	remaining := slices.DeleteFunc(slices.Clone(n.pods), func(p Pod) bool { return slices.Contains(uids, p.UID) })
	if len(remaining) == len(n.pods) {
		return n
	}
	return &Node{empty: n.empty, pods: remaining, bound: n.bound}
}

// Mended returns the node with placements improved where CPUs have become free. A pod gets what the scheduler decided
// for it, or CPUs of its own, if these were not free when it arrived and are free now. Pods that were resized since,
// and all others, stay as they are.
func (n *Node) Mended() *Node {
	out := n
	for _, p := range n.pods {
		if p.Fault == nil || p.Fault.Resize || p.Arrival.Spec == nil {
			continue
		}
		next := out.Without(p.UID).With(p.Arrival)
		now, _ := next.Pod(p.UID)
		if now.Decided || p.Fault.Code == Shares && (now.Fault == nil || now.Fault.Code != Shares) {
			out = next
		}
	}
	return out
}

// Restored returns the node with the pods of an earlier Node, with their holdings and faults. The earlier Node was
// saved before the agent ended, or had another machine or other rules. A pod whose holdings are not permitted any
// more is placed anew after the others, so it gets nothing that another pod has. The argument anew has the pods
// without known holdings; they are placed last.
func (n *Node) Restored(pods []Pod, anew ...Arrival) *Node {
	out := n
	var move []Arrival
	for _, p := range pods {
		if out.index(p.UID) >= 0 {
			continue
		}
		if next := out.add(p); p.onNUMAs(n.Machine()) && out.violation(next, p.UID) == "" {
			out = next
			continue
		}
		move = append(move, Arrival{UID: p.UID, Spec: p.Spec})
	}
	for _, a := range append(move, anew...) {
		out = out.With(a)
	}
	return out.sorted(pods)
}

// sorted returns the node with its pods in the given order, followed by the pods that are not in order.
func (n *Node) sorted(order []Pod) *Node {
	at := map[string]int{}
	for i, p := range order {
		at[p.UID] = i - len(order) // negative, so that others follow
	}
	out := &Node{empty: n.empty, pods: slices.Clone(n.pods), bound: n.bound}
	slices.SortStableFunc(out.pods, func(a, b Pod) int { return at[a.UID] - at[b.UID] })
	return out
}

// onNUMAs reports whether a machine has the NUMA nodes of a pod's memory.
func (p Pod) onNUMAs(m *topo.Machine) bool {
	for _, h := range p.Holdings {
		for _, b := range h.Memory {
			if b.NUMAs&^m.All() != 0 {
				return false
			}
		}
	}
	return true
}
