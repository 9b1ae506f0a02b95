package place

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Policy is a topology manager policy.
type Policy int

// The policies, by the kubelet's names "none", "best-effort", "restricted", "single-numa-node".
const (
	None Policy = iota
	BestEffort
	Restricted
	SingleNUMA
)

var policyNames = [...]string{"none", "best-effort", "restricted", "single-numa-node"}

// String returns the kubelet's name of the policy.
func (p Policy) String() string { return nameOf("policy", policyNames[:], int(p)) }

// Refuses reports whether the policy refuses pods that it cannot align.
func (p Policy) Refuses() bool { return p == Restricted || p == SingleNUMA }

// ParsePolicy reads the kubelet's name of a policy; the second result is false for any other text.
func ParsePolicy(s string) (Policy, bool) {
	i := slices.Index(policyNames[:], s)
	return Policy(i), i >= 0
}

// Scope is a topology manager scope.
type Scope int

// The scopes, by the kubelet's names "container" and "pod".
const (
	PerContainer Scope = iota
	PerPod
)

var scopeNames = [...]string{"container", "pod"}

// String returns the kubelet's name of the scope.
func (s Scope) String() string { return nameOf("scope", scopeNames[:], int(s)) }

// ParseScope reads the kubelet's name of a scope; the second result is false for any other text.
func ParseScope(s string) (Scope, bool) {
	i := slices.Index(scopeNames[:], s)
	return Scope(i), i >= 0
}

// Arbiter is the component that decides what containers get on a node.
type Arbiter int

// The arbiters, by the names "kubelet" and "agent".
const (
	// ByKubelet: the managers of the node's kubelet decide when they admit a pod.
	ByKubelet Arbiter = iota
	// ByAgent: the managers of the kubelet are off. The scheduler decides by the same algorithm, with the policies that
	// the node's agent is configured with, and the agent pins the containers.
	ByAgent
)

var arbiterNames = [...]string{"kubelet", "agent"}

// String returns the name of the arbiter.
func (a Arbiter) String() string { return nameOf("arbiter", arbiterNames[:], int(a)) }

// ParseArbiter reads the name of an arbiter; the second result is false for any other text.
func ParseArbiter(s string) (Arbiter, bool) {
	i := slices.Index(arbiterNames[:], s)
	return Arbiter(i), i >= 0
}

// Rules has what determines allocation on a node: the arbiter, the kubelet's release, the policies of its CPU, memory
// and topology managers, and reservations. The verdict of Place depends on the arbiter in few cases. Where sockets or
// cores have unequal sizes, a kubelet may give one CPU to two containers, and an agent does not. Only a kubelet's
// verdict depends on hugepage sizes that a NUMA node lacks, on [topo.NUMAList], and on PodLevelManagers.
type Rules struct {
	Arbiter  Arbiter
	Release  Release // of the kubelet; see release.go for what depends on it
	Topology TopologyRules
	CPU      CPURules
	Memory   MemoryRules
	// PodLevelManagers is the feature gate PodLevelResourceManagers; see podlevel.go.
	PodLevelManagers bool
}

// Equal reports whether both rules are the same. Release 0 equals DefaultRelease. Reservations of memory must have
// the same order.
func (r Rules) Equal(o Rules) bool {
	a, b := r.CPU, o.CPU
	return r.Arbiter == o.Arbiter && r.Release.orDefault() == o.Release.orDefault() && r.Topology == o.Topology &&
		r.PodLevelManagers == o.PodLevelManagers &&
		a.Static == b.Static && a.Reserved.Equal(b.Reserved) && a.FullPCPUsOnly == b.FullPCPUsOnly &&
		a.DistributeAcrossNUMA == b.DistributeAcrossNUMA && a.AlignBySocket == b.AlignBySocket &&
		a.DistributeAcrossCores == b.DistributeAcrossCores && a.StrictReservation == b.StrictReservation &&
		a.PreferAlignByUncoreCaches == b.PreferAlignByUncoreCaches &&
		r.Memory.Static == o.Memory.Static && slices.Equal(r.Memory.Reserved, o.Memory.Reserved)
}

// TopologyRules are topologyManagerPolicy, topologyManagerScope and topologyManagerPolicyOptions.
type TopologyRules struct {
	Policy        Policy
	Scope         Scope
	PreferClosest bool // prefer-closest-numa-nodes
	MaxNUMAs      int  // max-allowable-numa-nodes; 0 means the kubelet's default of 8
}

// CPURules are cpuManagerPolicy, its options, and the CPUs that are reserved for the system.
type CPURules struct {
	Static   bool // false: policy none, no CPU is ever exclusive
	Reserved idset.Set[idset.CPU]
	// The options of the static policy (cpumanager/policy_options.go).
	FullPCPUsOnly             bool
	DistributeAcrossNUMA      bool
	AlignBySocket             bool
	DistributeAcrossCores     bool
	StrictReservation         bool
	PreferAlignByUncoreCaches bool
}

// MemoryRules are memoryManagerPolicy and reservedMemory.
type MemoryRules struct {
	Static   bool // false: policy None
	Reserved []Reserved
}

// Reserves returns how many bytes of a kind of memory all NUMA nodes together keep for the system.
func (r MemoryRules) Reserves(kind string) (bytes int64) {
	for _, x := range r.Reserved {
		if x.Kind == kind {
			bytes += x.Bytes
		}
	}
	return bytes
}

// Reserved is memory of one kind that a NUMA node keeps for the system.
type Reserved struct {
	NUMA  idset.NUMA
	Kind  string // "memory" or "hugepages-SIZE"
	Bytes int64
}

// QoS is a pod's quality of service class.
type QoS int

// The classes, by Kubernetes' names.
const (
	BestEffortQoS QoS = iota
	Burstable
	Guaranteed
)

// Kind is the role of a container in its pod, which decides when it runs.
type Kind int

// The kinds of containers. A Sidecar is a restartable init container.
const (
	App Kind = iota
	Init
	Sidecar
)

// Pod has exactly what the node's managers look at; nothing else in a pod changes their answer.
type Pod struct {
	QoS QoS
	// PodLevel is set if spec.resources is set. From 1.34 on, the CPU and memory managers give such a pod nothing
	// (cpumanager/policy_static.go, GetTopologyHints), unless [Rules.PodLevelManagers] is set.
	PodLevel bool
	// Whole is what spec.resources requests of CPUs and memory.
	Whole Whole
	// Containers are the init containers in spec order, then the app containers in spec order.
	Containers []Container
	// pool is set if the pod gets CPUs and memory as a whole; see Rules.managed.
	pool *pool
	// late is set if the containers get their devices when they start, and not at admission; see podlevel.go.
	late bool
}

// Container is one container's requests.
type Container struct {
	Name string
	Kind Kind
	// MilliCPU is the CPU request in thousandths. CPUs are exclusive only for whole numbers.
	MilliCPU int64
	Memory   []Amount // requests, ascending kind, no kind twice
	Devices  []Count  // limits of extended resources, ascending name, no name twice
	// Unequal is set if the pod has spec.resources, and the container does not request both CPU and memory, or requests
	// less than its limits.
	Unequal bool
	// unpinned is set if a static memory manager passes over the container; see podlevel.go.
	unpinned bool
}

// Amount is a request for memory of one kind.
type Amount struct {
	Kind  string // "memory" or "hugepages-SIZE"
	Bytes int64
	// Fractional marks a request that is not a whole number of bytes, such as 1.1Gi; Bytes is then rounded up. A static
	// memory manager refuses it (memorymanager/policy_static.go, getContainerRequestedResources).
	Fractional bool
}

// Count is a request for devices of one resource.
type Count struct {
	Resource string
	N        int64
}

// Holding is what one container holds of a machine.
type Holding struct {
	Container string // empty if the pod holds this as a whole (podlevel.go)
	Kind      Kind
	CPUs      idset.Set[idset.CPU]
	Memory    []Block
	Devices   []DeviceBlock
}

// Block is memory of one kind that a container holds on a set of NUMA nodes. Bytes is 0 in a block of an init
// container whose memory later containers reuse in full. Such a block still counts as an assignment of its NUMA
// nodes.
type Block struct {
	Kind  string
	NUMAs topo.Mask
	Bytes int64
}

// DeviceBlock is the devices of one resource that a container holds.
type DeviceBlock struct {
	Resource string
	IDs      []string // ascending
	NUMAs    topo.Mask
	// Free marks a prediction for which the kubelet takes any of several devices (it ranges over a map). The count, and
	// as a rule the NUMA nodes, are then sure; the ids are one possible choice.
	Free bool
	// Loose marks a prediction for which even the NUMA nodes of the devices depend on that choice.
	Loose bool
}

// Empty reports whether the holding takes nothing of the machine.
func (h Holding) Empty() bool { return h.CPUs.Empty() && len(h.Memory) == 0 && len(h.Devices) == 0 }

// NUMAs returns the NUMA nodes on which the holding has CPUs, memory or devices.
func (h Holding) NUMAs(m *topo.Machine) topo.Mask {
	out := m.MaskOfCPUs(h.CPUs)
	for _, b := range h.Memory {
		out |= b.NUMAs
	}
	for _, d := range h.Devices {
		out |= d.NUMAs
	}
	return out
}

// Matches reports whether an observed holding agrees with this prediction. CPUs must agree by id and memory by byte;
// devices must agree in what is deterministic (see DeviceBlock). Container and Kind are not compared.
func (h Holding) Matches(seen Holding) bool {
	return h.CPUs.Equal(seen.CPUs) &&
		slices.Equal(sortedBlocks(h.Memory), sortedBlocks(seen.Memory)) &&
		slices.EqualFunc(h.Devices, seen.Devices, func(a, b DeviceBlock) bool {
			return a.Resource == b.Resource && len(a.IDs) == len(b.IDs) &&
				(a.Loose || a.NUMAs == b.NUMAs) && (a.Free || slices.Equal(a.IDs, b.IDs))
		})
}

// sortedBlocks returns the blocks in an order that does not depend on the order of in.
func sortedBlocks(in []Block) []Block {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Block) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), cmp.Compare(a.NUMAs, b.NUMAs), cmp.Compare(a.Bytes, b.Bytes))
	})
	return out
}

// RefusalReason is status.reason of a pod that its kubelet refused. It is empty if the kubelet admits the pod.
type RefusalReason string

// The kubelet's reasons (topologymanager/topology_manager.go, cpumanager/policy_static.go,
// cm/admission/errors.go).
const (
	TopologyAffinityError    RefusalReason = "TopologyAffinityError"
	SMTAlignmentError        RefusalReason = "SMTAlignmentError"
	UnexpectedAdmissionError RefusalReason = "UnexpectedAdmissionError"
	EmptyPodSharedPoolError  RefusalReason = "EmptyPodSharedPoolError"
)

// Verdict is the answer of [Place].
type Verdict struct {
	// Refusal is empty where the node admits the pod.
	Refusal RefusalReason
	// Holdings has one entry per container that holds something, in the order of Pod.Containers. It is what the node's
	// managers record after the admission, so the blocks of an init container are already reduced by what later
	// containers reuse.
	Holdings []Holding
	// Reasons say what was missing; there is at least one if Refusal is set.
	Reasons []Reason
	// Chance is set if the node may take devices of other NUMA nodes than Holdings have (DeviceBlock.Loose), and on a
	// refusal that depends on such devices. Later containers that ask for the same resource may then get something
	// else, or be refused: Holdings have one possible outcome. Everything else is sure.
	Chance bool
}

// Fits reports whether the node admits the pod.
func (v Verdict) Fits() bool { return v.Refusal == "" }

// NUMAs returns the NUMA nodes that the pod will use.
func (v Verdict) NUMAs(m *topo.Machine) topo.Mask {
	var out topo.Mask
	for _, h := range v.Holdings {
		out |= h.NUMAs(m)
	}
	return out
}

// Exact reports whether every device id of the verdict is sure.
func (v Verdict) Exact() bool {
	if v.Chance {
		return false
	}
	for _, h := range v.Holdings {
		for _, d := range h.Devices {
			if d.Free {
				return false
			}
		}
	}
	return true
}

// Exclusive reports whether the pod can get CPUs and memory of its own on every node with static managers, in every
// release: it is Guaranteed, and has no spec.resources. [Rules.Serves] answers this for one node.
func (p *Pod) Exclusive() bool { return p.QoS == Guaranteed && !p.PodLevel }

// Plain reports whether no node's managers align anything for the pod: it asks for no device, and is not Guaranteed.
// Such a pod fits on every node that has its amounts free, unless the kubelet there serves no pod at all (see
// [Rules.Obstacles]).
func (p *Pod) Plain() bool {
	if p.QoS == Guaranteed {
		return false
	}
	for _, c := range p.Containers {
		if len(c.Devices) > 0 {
			return false
		}
	}
	return true
}

// Shape returns a text that has all of the pod but the names of its containers. Pods of equal shape therefore get
// equal verdicts on every node, except for these names.
func (p *Pod) Shape() string {
	var b []byte
	b = append(b, 'q', byte('0'+p.QoS))
	if p.PodLevel {
		b = appendAmounts(append(b, 'p'), p.Whole.MilliCPU, p.Whole.Memory)
	}
	for _, c := range p.Containers {
		if b = append(b, ';', byte('0'+c.Kind)); c.Unequal {
			b = append(b, '~')
		}
		b = appendAmounts(b, c.MilliCPU, c.Memory)
		for _, d := range c.Devices {
			b = append(append(append(b, ','), d.Resource...), '=')
			b = strconv.AppendInt(b, d.N, 10)
		}
	}
	return string(b)
}

// appendAmounts appends requests of CPU and memory to a shape.
func appendAmounts(b []byte, milliCPU int64, memory []Amount) []byte {
	b = strconv.AppendInt(b, milliCPU, 10)
	for _, a := range memory {
		b = append(append(append(b, ','), a.Kind...), '=')
		if b = strconv.AppendInt(b, a.Bytes, 10); a.Fractional {
			b = append(b, '-')
		}
	}
	return b
}
