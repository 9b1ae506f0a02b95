package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds on one object, beyond those of package topo.
const (
	MaxPods       = 2048    // pods with holdings on one node
	MaxContainers = 8192    // containers with holdings on one node
	MaxCPUSets    = 2 << 20 // bytes of the CPU sets of all containers; a set takes a byte for every 8 ids
	MaxBlocks     = 4096    // memory blocks, or devices of one resource, of one container
	MaxHeld       = 64      // device resources of one container
	MaxBytes      = 1 << 56 // a memory block of one container on 64 NUMA nodes of 1 PiB
	MaxAllowable  = 1 << 16 // max-allowable-numa-nodes
	MaxFunctions  = 256     // PCI functions, virtual ones not counted
	MaxOddities   = 32      // oddities of the machine
	MaxSequence   = 1<<53 - 1
	maxLabel      = 63      // bytes of the name of a namespace, or of a container
	maxAgent      = 64      // bytes of an agent's id
	maxThreads    = 64      // threads of one core
	maxReserved   = 64 * 65 // reservations: every kind on every NUMA node
	maxMalformed  = 1 << 10 // bytes of a kept decoding error
)

// NodeLayout has the data of one node's agent about its node: the machine, the rules that decide on it, and the
// observed holdings of every container. It is cluster scoped and has the name of its Node. It publishes facts only;
// readers derive what is free. It has all of the data, or what has changed since the node's LayoutBase was written.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=nodelayouts,shortName=nl,categories=tenon
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="has(self.base) || has(self.machine)",message="neither base nor machine"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.summary.policy`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.summary.scope`,priority=1
// +kubebuilder:printcolumn:name="NUMAs",type=integer,JSONPath=`.summary.numas`
// +kubebuilder:printcolumn:name="CPUs",type=integer,JSONPath=`.summary.cpus`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.summary.freeCPUs`
// +kubebuilder:printcolumn:name="Largest NUMA Free",type=integer,JSONPath=`.summary.largestFreeNUMA`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.summary.pods`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Exact",type=string,JSONPath=`.status.conditions[?(@.type=="Exact")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeLayout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// sequence grows with every write of the agent, and by a larger step with every start of an agent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// agent is the process that writes the layout.
	// +optional
	// +structType=atomic
	Agent Agent `json:"agent,omitzero"`
	// base is the sequence of the LayoutBase, by the same agent, that this layout continues: machine, rules, kubelet
	// and inexact are there, and holdings has only the pods whose holdings have changed since. It is absent or 0 where
	// the layout has all of the data itself.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Base int64 `json:"base,omitempty"`
	// summary has totals of the other sections, for people; nothing is computed from it.
	// +optional
	// +structType=atomic
	Summary Summary `json:"summary,omitzero"`
	// machine is the hardware as the kubelet sees it.
	// +optional
	// +structType=atomic
	Machine Machine `json:"machine,omitzero"`
	// rules are the kubelet's policies, options and reservations, by the names of its configuration.
	// +optional
	// +structType=atomic
	Rules Rules `json:"rules,omitzero"`
	// kubelet is the program that admits the node's pods: its release, and its feature gates that concern alignment.
	// +optional
	// +structType=atomic
	Kubelet Kubelet `json:"kubelet,omitzero"`
	// inexact lists why a prediction for this node may differ from what its kubelet does; empty if the agent found no
	// reason.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Inexact []Inexact `json:"inexact,omitempty"`
	// holdings are the pods that hold a part of the machine, in the order in which the node probably admitted them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	// +optional
	Holdings []PodHoldings `json:"holdings,omitempty"`
	// ended are the UIDs of pods that hold something in the base, and hold nothing any more.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2048
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[-+.:_0-9A-Za-z]*$`
	// +optional
	Ended []string `json:"ended,omitempty"`
	// memoryGroups are the NUMA nodes whose state in the memory manager does not follow from machine, rules and
	// holdings: the group in which the manager last used the NUMA node, or its free memory.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	MemoryGroups []MemoryGroup `json:"memoryGroups,omitempty"`

	// status is written by the scheduler.
	// +optional
	Status NodeLayoutStatus `json:"status,omitzero"`

	// Malformed is why the object could not be decoded (see Typed), or lacks its base; Core returns it as its error.
	Malformed string `json:"-"`
}

// NodeLayoutList is a list of layouts.
//
// +kubebuilder:object:root=true
type NodeLayoutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeLayout `json:"items"`
}

// ConditionAccepted is the condition that the scheduler sets on a layout: True if it uses the layout; False, with the
// error as message, if it rejects the layout.
const ConditionAccepted = "Accepted"

// ConditionExact is the condition that the scheduler sets on a layout that it uses: False, with the reasons as message,
// if the layout's inexact list has any, and otherwise True.
const ConditionExact = "Exact"

// ConditionAligned is the condition that the scheduler sets on a layout that it uses: False, with settings of the
// kubelet as message, if the rules leave something unaligned by default and not by choice, such as the default
// policies. It becomes True when that ends. A layout that never left anything unaligned has no such condition.
const ConditionAligned = "Aligned"

// NodeLayoutStatus is the scheduler's result for the layout.
type NodeLayoutStatus struct {
	// conditions are Accepted, Exact and Aligned.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IDList is a set of CPU or NUMA node ids in the Linux list format, for example "0-3,8"; the empty text is
// the empty set.
//
// +kubebuilder:validation:MaxLength=24576
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*)?$`
type IDList string

// Agent is a process that claims to write the layout. Of two, the one with the later claim writes; if the claims have
// the same time, the one with the greater id writes. The other stands by.
type Agent struct {
	// id is unique to one process.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[-+.:_0-9A-Za-z]*$`
	// +optional
	ID string `json:"id,omitempty"`
	// since is when the process claimed to write the layout, usually when it started.
	// +optional
	Since metav1.MicroTime `json:"since,omitzero"`
}

// Summary has the values for the columns of kubectl.
type Summary struct {
	// policy is the policy of the topology manager.
	// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
	// +optional
	Policy string `json:"policy,omitempty"`
	// scope is the scope of the topology manager.
	// +kubebuilder:validation:Enum=container;pod
	// +optional
	Scope string `json:"scope,omitempty"`
	// numas is the number of NUMA nodes.
	NUMAs int32 `json:"numas"`
	// cpus is the number of logical CPUs.
	CPUs int32 `json:"cpus"`
	// pods is the number of pods that hold something.
	Pods int32 `json:"pods"`
	// freeCPUs is the number of CPUs that no container holds and that are not reserved for the system.
	// +optional
	FreeCPUs int32 `json:"freeCPUs"`
	// largestFreeNUMA is the number of free CPUs of the NUMA node that has the most of them.
	// +optional
	LargestFreeNUMA int32 `json:"largestFreeNUMA"`
}

// Machine is the hardware of one node.
type Machine struct {
	// numas are the NUMA nodes, by id.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	NUMAs []NUMA `json:"numas"`
	// cpus are all CPUs; no CPU is in two groups.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	CPUs []CPUGroup `json:"cpus"`
	// devices are the devices of device plugins, by resource.
	// +listType=map
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Devices []Resource `json:"devices,omitempty"`
	// functions are PCI functions that may matter to pods, ascending by address; devices of claims are located by them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Functions []Function `json:"functions,omitempty"`
	// functionsOmitted is the number of such functions that do not fit into the list.
	// +kubebuilder:validation:Minimum=0
	// +optional
	FunctionsOmitted int32 `json:"functionsOmitted,omitempty"`
	// oddities are what firmware and kernel say of the machine that a person should know; no decision depends on them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Oddities []Oddity `json:"oddities,omitempty"`
}

// Oddity is something about a machine that its firmware describes wrongly, that the kubelet sees otherwise than the
// kernel, or that works against pods.
type Oddity struct {
	// code names its kind. Agents of later releases may send further codes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Code string `json:"code"`
	// message says what is where, in one line of printable ASCII.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +optional
	Message string `json:"message,omitempty"`
}

// Function is one PCI function; virtual functions are counted in it.
type Function struct {
	// address is domain:bus:device.function, in hexadecimal.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+.:_0-9A-Za-z]*$`
	Address string `json:"address"`
	// class is the kind of the function.
	// +kubebuilder:validation:Enum=gpu;accelerator;nic;infiniband;nvme
	Class string `json:"class"`
	// vendor and device, each four hexadecimal digits, for example "15b3:1021".
	// +kubebuilder:validation:MaxLength=9
	// +kubebuilder:validation:Pattern=`^[-+.:_0-9A-Za-z]*$`
	ID string `json:"id"`
	// driver that is bound to it; absent if there is none.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[-+.:_0-9A-Za-z]*$`
	// +optional
	Driver string `json:"driver,omitempty"`
	// numas are the NUMA nodes that it is near; absent if unknown.
	// +optional
	NUMAs IDList `json:"numas,omitempty"`
	// virtual is the number of its virtual functions (SR-IOV).
	// +kubebuilder:validation:Minimum=0
	// +optional
	Virtual int32 `json:"virtual,omitempty"`
	// virtualDriver is bound to all of them; absent if they differ or have none.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[-+.:_0-9A-Za-z]*$`
	// +optional
	VirtualDriver string `json:"virtualDriver,omitempty"`
}

// NUMA is one NUMA node. It may lack CPUs, memory, or both.
type NUMA struct {
	// id is Linux' number of the NUMA node; ids may be sparse.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	ID int32 `json:"id"`
	// memory is all memory in bytes, hugepages included.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1125899906842624
	Memory int64 `json:"memory"`
	// memoryKind is the kind of memory that is not ordinary: a GPU's own (gpu), a DAX device's such as CXL or PMEM
	// (dax), or unknown (movable). The kubelet counts it like other memory.
	// +kubebuilder:validation:Enum=gpu;dax;movable
	// +optional
	MemoryKind string `json:"memoryKind,omitempty"`
	// hugepages are preallocated pages, by page size.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Hugepages []Hugepages `json:"hugepages,omitempty"`
	// distances are the ACPI SLIT distances to every NUMA node, in ascending order of NUMA node ids (10 is local);
	// absent where unknown.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Distances []Distance `json:"distances,omitempty"`
}

// Distance is one entry of the SLIT.
//
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=65536
type Distance int32

// Hugepages are the pages of one size.
type Hugepages struct {
	// size of one page, as in the resource name: "2Mi", "1Gi".
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(Ki|Mi|Gi|Ti)?$`
	Size string `json:"size"`
	// count of pages.
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count"`
}

// CPUGroup is cores with one NUMA node, socket, L3 group and number of threads.
type CPUGroup struct {
	// numa is the NUMA node that the cores are in.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	NUMA int32 `json:"numa"`
	// socket (physical package) that the cores are in.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	Socket int32 `json:"socket"`
	// l3 is the number of the L3 group, equal exactly for its cores. The kubelet sorts groups by these numbers.
	// +kubebuilder:validation:Minimum=0
	L3 int32 `json:"l3"`
	// cpus has one list per thread: the k-th CPU of every list is a thread of the k-th core.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	CPUs []IDList `json:"cpus"`
}

// Resource is the devices of one resource.
type Resource struct {
	// resource is the extended resource, for example "nvidia.com/gpu".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]*$`
	Resource string `json:"resource"`
	// groups are the devices, grouped by equal NUMA nodes, list, PCI root and health.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Groups []DeviceGroup `json:"groups"`
}

// DeviceGroup is devices of one resource with equal NUMA nodes, list, PCI root and health.
type DeviceGroup struct {
	// numas are the NUMA nodes that the devices are near; empty if the plugin reports none.
	// +optional
	NUMAs IDList `json:"numas,omitempty"`
	// numaList says what is unusual about the list of NUMA nodes that the plugin announces: it is empty, or has a
	// negative id, or the id of a NUMA node that the machine lacks. Under restricted and single-numa-node a kubelet
	// refuses pods that need a device of the two latter kinds.
	// +kubebuilder:validation:Enum=empty;negative;unknown
	// +optional
	NUMAList string `json:"numaList,omitempty"`
	// root is Linux' name of the PCI host bridge above the devices, for example "pci0000:17"; absent if unknown. No
	// placement depends on it.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[!-~]*$`
	// +optional
	Root string `json:"root,omitempty"`
	// unhealthy devices are not given to containers, but they count when the kubelet computes how many NUMA nodes a
	// request needs.
	// +optional
	Unhealthy bool `json:"unhealthy,omitempty"`
	// ids of the devices.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[!-~]*$`
	IDs []string `json:"ids"`
}

// Rules are the settings that decide on alignment: parts of KubeletConfiguration or, if the agent is the arbiter, the
// same settings in the agent's configuration.
type Rules struct {
	// arbiter is who decides what containers get: the managers of the kubelet, or the node's agent, which pins
	// containers itself while these managers are off. If it is absent, the kubelet decides.
	// +kubebuilder:validation:Enum=kubelet;agent
	// +optional
	Arbiter string `json:"arbiter,omitempty"`
	// from is the source of the rules: the kubelet itself, or its files, which lack its flags.
	// +kubebuilder:validation:Enum=kubelet;files
	// +optional
	From string `json:"from,omitempty"`
	// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
	TopologyManagerPolicy string `json:"topologyManagerPolicy"`
	// +kubebuilder:validation:Enum=container;pod
	TopologyManagerScope string `json:"topologyManagerScope"`
	// +optional
	TopologyManagerPolicyOptions TopologyOptions `json:"topologyManagerPolicyOptions,omitzero"`
	// +kubebuilder:validation:Enum=none;static
	CPUManagerPolicy string `json:"cpuManagerPolicy"`
	// +optional
	CPUManagerPolicyOptions CPUOptions `json:"cpuManagerPolicyOptions,omitzero"`
	// reservedCPUs are the CPUs that the CPU manager keeps for the system.
	// +optional
	ReservedCPUs IDList `json:"reservedCPUs,omitempty"`
	// +kubebuilder:validation:Enum=None;Static
	MemoryManagerPolicy string `json:"memoryManagerPolicy"`
	// reservedMemory is what the memory manager keeps for the system, per NUMA node and kind.
	// +listType=map
	// +listMapKey=numa
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=4160
	// +optional
	ReservedMemory []ReservedMemory `json:"reservedMemory,omitempty"`
}

// TopologyOptions are topologyManagerPolicyOptions.
type TopologyOptions struct {
	// +optional
	PreferClosestNUMANodes bool `json:"prefer-closest-numa-nodes,omitempty"`
	// 0 means the kubelet's default.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65536
	// +optional
	MaxAllowableNUMANodes int32 `json:"max-allowable-numa-nodes,omitempty"`
}

// CPUOptions are cpuManagerPolicyOptions.
type CPUOptions struct {
	// +optional
	FullPCPUsOnly bool `json:"full-pcpus-only,omitempty"`
	// +optional
	DistributeCPUsAcrossNUMA bool `json:"distribute-cpus-across-numa,omitempty"`
	// +optional
	AlignBySocket bool `json:"align-by-socket,omitempty"`
	// +optional
	DistributeCPUsAcrossCores bool `json:"distribute-cpus-across-cores,omitempty"`
	// +optional
	StrictCPUReservation bool `json:"strict-cpu-reservation,omitempty"`
	// +optional
	PreferAlignCPUsByUncoreCache bool `json:"prefer-align-cpus-by-uncorecache,omitempty"`
}

// ReservedMemory is memory of one kind that one NUMA node keeps for the system.
type ReservedMemory struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	NUMA int32 `json:"numa"`
	// kind is "memory" or "hugepages-SIZE".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(memory|hugepages-[1-9][0-9]*(Ki|Mi|Gi|Ti)?)$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1125899906842624
	Bytes int64 `json:"bytes"`
}

// PodHoldings is what one pod holds.
type PodHoldings struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$`
	Name string `json:"name"`
	// uid of the pod object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-+.:_0-9A-Za-z]*$`
	UID string `json:"uid"`
	// containers that hold something.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Containers []ContainerHolding `json:"containers,omitempty"`
}

// ContainerHolding is what one container holds.
type ContainerHolding struct {
	// name is empty for holdings of the pod as a whole (pod-level resources).
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	// +optional
	Name string `json:"name,omitempty"`
	// kind is when the container runs; absent means app.
	// +kubebuilder:validation:Enum=app;init;sidecar
	// +optional
	Kind string `json:"kind,omitempty"`
	// cpus are exclusive CPUs.
	// +optional
	CPUs IDList `json:"cpus,omitempty"`
	// memory blocks. A block of 0 bytes was reused by a later container, and still ties its NUMA nodes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +optional
	Memory []MemoryBlock `json:"memory,omitempty"`
	// devices by resource.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Devices []HeldDevices `json:"devices,omitempty"`
}

// MemoryBlock is memory of one kind on a set of NUMA nodes.
type MemoryBlock struct {
	// kind is "memory" or "hugepages-SIZE".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(memory|hugepages-[1-9][0-9]*(Ki|Mi|Gi|Ti)?)$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	NUMAs IDList `json:"numas"`
	// +kubebuilder:validation:Minimum=0
	Bytes int64 `json:"bytes"`
}

// HeldDevices is devices of one resource. Their NUMA nodes are in machine.devices.
type HeldDevices struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]*$`
	Resource string `json:"resource"`
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[!-~]*$`
	IDs []string `json:"ids"`
}

// MemoryGroup is the group of NUMA nodes that the memory manager serves together with this one.
type MemoryGroup struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	NUMA int32 `json:"numa"`
	// group includes the NUMA node itself.
	// +kubebuilder:validation:MinLength=1
	Group IDList `json:"group"`
	// free is the NUMA node's own free memory for pods, in bytes by kind. It does not follow from holdings: a block on
	// several NUMA nodes does not show how much of it is on each, and when it ends the manager frees whatever is
	// assigned on its lowest NUMA nodes.
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Free []FreeMemory `json:"free,omitempty"`
}

// FreeMemory is free memory of one kind.
type FreeMemory struct {
	// kind is memory or hugepages-SIZE.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(memory|hugepages-[1-9][0-9]*(Ki|Mi|Gi|Ti)?)$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1125899906842624
	Bytes int64 `json:"bytes"`
}
