package place

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/topo"
)

// HazardCode names what goes wrong when a kubelet restarts. The codes are stable: events, the CLI and
// metrics may use them.
type HazardCode string

// The hazards of a restart.
const (
	// NoSharedCPU: under strict-cpu-reservation containers hold every CPU that is not reserved, so the shared pool in
	// the CPU manager's state file is empty. The kubelet treats such a file as corrupt and does not start
	// (cpumanager/policy_static.go, validateState; kubernetes issue 141196).
	NoSharedCPU HazardCode = "no-shared-cpu"
	// ReservedCPUHeld: a container holds a reserved CPU. The CPU manager gives reserved CPUs out by mistake
	// on machines with unequal cores or sockets, and then refuses its own state file (the same function).
	ReservedCPUHeld HazardCode = "reserved-cpu-held"
	// MemoryState: memory blocks on different sets of NUMA nodes overlap, or did so before some of their pods ended.
	// The memory manager adds up the blocks of its state file in random order when it starts, and does not start if the
	// sum differs from its record (memorymanager/policy_static.go, validateState; kubernetes issues 113035, 113130).
	MemoryState HazardCode = "memory-state"
	// SMTReadmission: under full-pcpus-only a restarted kubelet admits running pods again, and counts the free CPUs
	// before it looks at what the containers already hold. It refuses containers that have more CPUs than are free in
	// whole cores, and their pods end with SMTAlignmentError (cpumanager/policy_static.go, Allocate; kubernetes issue
	// 129078; fixed in 1.37).
	SMTReadmission HazardCode = "smt-readmission"
	// TopologyReadmission: under restricted and align-by-socket the kubelet takes a container's CPUs from a whole
	// socket. They may lie on other NUMA nodes than the container's memory, or on more NUMA nodes and sockets than that
	// many CPUs need. When the kubelet restarts, it makes hints for a running pod from what the pod holds. Such hints
	// do not agree, or are not preferred, and the pod ends with TopologyAffinityError (cpumanager/policy_static.go,
	// GetTopologyHints and isHintSocketAligned; memorymanager/policy_static.go, regenerateHints).
	TopologyReadmission HazardCode = "topology-readmission"
	// PodLevelReadmission: a pod holds CPUs or memory as a whole. With the gate PodLevelResourceManagers and scope pod,
	// a restarted kubelet compares each container's holdings with its request. If they differ, the kubelet ends the pod.
	// Otherwise it allocates for the pod once more, which may fail. The earlier allocation stays taken, and the kubelet
	// refuses its own state file at the next start (topologymanager/scope_pod.go, admitUsingPodResources;
	// cpumanager/policy_static.go, getPodTopologyHintsForAdd, allocatePodForAdd, validateState).
	PodLevelReadmission HazardCode = "pod-level-readmission"
	// InitDevices: a pod holds devices of an init container. If that container has ended, the restarted kubelet asks
	// for the devices again before their plugin has registered, and the pod ends with UnexpectedAdmissionError
	// (devicemanager/manager.go, devicesToAllocate).
	InitDevices HazardCode = "init-devices"
	// StoppedDevices: a container that does not run holds devices. It waits for an image, for its configuration, for an
	// init container or for its next start, or has ended. The restarted kubelet asks for the devices as in InitDevices,
	// and the pod ends with UnexpectedAdmissionError (the same function).
	StoppedDevices HazardCode = "stopped-devices"
	// StatusReadmission: in 1.33 and 1.34 a restarted kubelet reads the CPUs of a container from its status. Before a
	// container is created, its status has no CPUs, although the container holds some. Under restricted and
	// single-numa-node with scope pod, the pod then ends with TopologyAffinityError, unless no container of the pod has
	// CPUs in its status (cpumanager/policy_static.go, guaranteedCPUs and GetPodTopologyHints).
	StatusReadmission HazardCode = "status-readmission"
	// ResizeReadmission: a pod was resized in place, and its containers have kept their CPUs, as with the gate
	// InPlacePodVerticalScalingExclusiveCPUs in 1.37. Under restricted and single-numa-node a restarted kubelet finds
	// that the CPUs differ from the requests, and the pod ends with TopologyAffinityError (cpumanager/policy_static.go,
	// GetTopologyHints).
	ResizeReadmission HazardCode = "resize-readmission"
)

// Hazard is one thing that goes wrong if the node's kubelet restarts now. Until then the running pods are healthy.
type Hazard struct {
	Code HazardCode
	// Stops is true if the kubelet does not start again until the node is drained and a state file is removed. It is
	// false if the kubelet starts and refuses running pods.
	Stops bool
	// Sure is false if the outcome depends on chance, or on something that the usage does not contain.
	Sure bool
	// Want and Have explain SMTReadmission: the most CPUs that one container holds, and the CPUs that are free in whole
	// cores.
	Want, Have int64
	// Pods are the names of the pods that would end, in ascending order; nil where the usage does not show them.
	Pods []string
}

// Advice is one thing that people should learn about, and what mends it. Remedy is empty if there is no remedy to
// name.
type Advice struct{ What, Remedy string }

// String returns the advice with its remedy, if there is one, in one line.
func (a Advice) String() string {
	if a.Remedy == "" {
		return a.What
	}
	return a.What + "; " + a.Remedy
}

// Text renders the hazard for people, with the remedy. Equal hazards on several nodes give equal texts.
func (h Hazard) Text() string { return h.Advice().String() }

// Advice returns what goes wrong at a restart, and what to do before.
func (h Hazard) Advice() Advice {
	switch h.Code {
	case NoSharedCPU:
		return Advice{"kubelet will not restart: containers hold every CPU that is not reserved",
			"free one CPU, or turn strict-cpu-reservation off"}
	case ReservedCPUHeld:
		return Advice{"kubelet will not restart: a container holds a reserved CPU", "end that container"}
	case MemoryState:
		what := "kubelet will not restart: the memory manager's tables disagree with its memory blocks"
		if !h.Sure {
			what = "kubelet may not restart: memory blocks on different sets of NUMA nodes overlap"
		}
		return Advice{what, "drain the node and remove memory_manager_state before a restart"}
	case SMTReadmission:
		return Advice{fmt.Sprintf("kubelet restart ends pods with SMTAlignmentError: a container holds %d CPUs, "+
			"%d are free in whole cores", h.Want, h.Have), "free as many before a restart, or upgrade to 1.37"}
	case TopologyReadmission:
		return Advice{"kubelet restart may end pods with TopologyAffinityError: under align-by-socket a container has " +
			"CPUs on other NUMA nodes than its memory, or on more than it needs", ""}
	case PodLevelReadmission:
		return Advice{"kubelet restart may end pods that hold CPUs and memory as a whole, or allocate a second set for them",
			"drain the node before a restart"}
	case InitDevices:
		return Advice{"kubelet restart may end pods with UnexpectedAdmissionError: an init container has ended " +
			"and its pod holds its devices", ""}
	case StoppedDevices:
		return Advice{"kubelet restart may end pods with UnexpectedAdmissionError: a container that does not run holds " +
			"devices" + h.named(), "end these pods, or drain the node before a restart"}
	case StatusReadmission:
		return Advice{"kubelet restart ends pods with TopologyAffinityError: a container was not created yet, and others " +
			"of its pod were" + h.named(), "end these pods before a restart, or upgrade to 1.35"}
	case ResizeReadmission:
		return Advice{"kubelet restart may end pods with TopologyAffinityError: they were resized in place and kept their " +
			"CPUs" + h.named(), "create these pods anew, or drain the node before a restart"}
	}
	return Advice{What: string(h.Code)}
}

// mostNamed is how many pods the text of a hazard names.
const mostNamed = 3

// named returns the names of the pods in parentheses, or "".
func (h Hazard) named() string {
	if len(h.Pods) == 0 {
		return ""
	}
	names := strings.Join(h.Pods[:min(len(h.Pods), mostNamed)], ", ")
	if more := len(h.Pods) - mostNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return " (" + names + ")"
}

// RestartHazards returns what goes wrong if the kubelet of a node with this usage restarts, in the order of the
// constants. Each holding must belong to one container, or to a pod as a whole, and not be a sum over containers.
// pods has the pods of the usage whose statuses matter (see [Statuses]); it may be empty. RestartHazards allocates
// only for its result.
//
// One hazard cannot be computed from a usage: a pod whose init containers have ended asks for their memory once more,
// and is refused if there is no room (memorymanager/policy_static.go, Allocate; kubernetes issue 123971).
func (u *Usage) RestartHazards(pods ...Readmitted) (out []Hazard) {
	if u.Rules.Arbiter == ByKubelet {
		out = u.managerHazards()
	}
	if u.risk.initDevices {
		out = append(out, Hazard{Code: InitDevices})
	}
	return append(out, u.Rules.podHazards(pods)...)
}

// managerHazards returns the hazards of the CPU and memory managers, which are off where the agent decides.
func (u *Usage) managerHazards() (out []Hazard) {
	r := &u.Rules
	if r.CPU.Static && r.CPU.StrictReservation && u.cpus == 0 && u.risk.holds {
		out = append(out, Hazard{Code: NoSharedCPU, Stops: true, Sure: true})
	}
	if r.CPU.Static && u.risk.reserved {
		out = append(out, Hazard{Code: ReservedCPUHeld, Stops: true, Sure: true})
	}
	if r.Memory.Static && (u.risk.overlap || u.risk.tables) {
		out = append(out, Hazard{Code: MemoryState, Stops: true, Sure: u.risk.tables && !u.risk.overlap})
	}
	smt := r.CPU.Static && r.CPU.FullPCPUsOnly && !r.Release.has(restartsKeepCPUs)
	if most, free := u.risk.cpus, u.cpus-u.halves; smt && most > free {
		out = append(out, Hazard{Code: SMTReadmission, Sure: true, Want: most, Have: free})
	}
	if r.CPU.AlignBySocket && r.Topology.Policy == Restricted && u.risk.apart {
		out = append(out, Hazard{Code: TopologyReadmission})
	}
	if r.podLevel() && u.risk.whole {
		out = append(out, Hazard{Code: PodLevelReadmission})
	}
	return out
}

// risk is what a usage records about its holdings for RestartHazards.
type risk struct {
	holds       bool  // a container or a pod as a whole holds CPUs
	cpus        int64 // the most CPUs that one container has for itself
	reserved    bool  // a container holds a reserved CPU
	overlap     bool  // blocks on different sets of NUMA nodes share one of them
	tables      bool  // the memory manager's records do not follow from its blocks
	apart       bool  // TopologyReadmission applies to a container
	whole       bool  // a pod holds CPUs or memory as a whole
	initDevices bool  // an init container holds devices
}

// hold records what a holding means for a restart.
func (r *risk) hold(u *Usage, h *Holding) {
	r.holds = r.holds || !h.CPUs.Empty()
	if h.Container != "" { // for a pod as a whole see PodLevelReadmission
		r.cpus = max(r.cpus, int64(h.CPUs.Len()))
	}
	r.reserved = r.reserved || h.CPUs.AndLen(u.Rules.CPU.Reserved) > 0
	r.initDevices = r.initDevices || h.Kind == Init && len(h.Devices) > 0
	r.whole = r.whole || h.Container == "" && (!h.CPUs.Empty() || len(h.Memory) > 0)
	if !u.Rules.CPU.AlignBySocket {
		return
	}
	on := u.Machine.MaskOfCPUs(h.CPUs)
	r.apart = r.apart || scattered(u.Machine, on, int64(h.CPUs.Len()))
	for _, b := range h.Memory {
		r.apart = r.apart || on&^b.NUMAs != 0
	}
}

// scattered reports whether align-by-socket does not prefer the hint with exactly these NUMA nodes for this number of
// CPUs: fewer NUMA nodes could have as many CPUs, and the mask spans more sockets than this smaller number of NUMA
// nodes needs.
func scattered(m *topo.Machine, on topo.Mask, cpus int64) bool {
	if on.Len() < 2 {
		return false
	}
	whole := make([]int64, len(m.NUMAs()))
	for i := range whole {
		whole[i] = int64(m.NUMAs()[i].CPUs.Len())
	}
	least := fewestOf(whole, cpus)
	perSocket := m.WithCPUs().Len() / len(m.Sockets())
	if least >= on.Len() {
		return false
	}
	if perSocket == 0 { // more sockets than NUMA nodes with CPUs: any further NUMA node spans too many
		return true
	}
	spans := 0
	for _, s := range m.Groups(topo.Sockets) {
		if m.MaskOfCPUs(s.CPUs)&on != 0 {
			spans++
		}
	}
	return spans > (least+perSocket-1)/perSocket
}

// tablesDiffer reports whether the memory manager refuses a state file with the blocks of a and the tables of b, and so
// does not start: some NUMA node has another group, or some whole group (before 1.32: some NUMA node) has other free
// bytes.
func tablesDiffer(a, b *Usage) bool {
	for i := range a.cells {
		if a.cells[i].group != b.cells[i].group {
			return true
		}
		for k := range a.kinds {
			var x, y int64
			together := b.cells[i].group & a.all
			if !a.Rules.Release.has(groupsRestartAsOne) {
				together = 1 << uint(i)
			}
			for rest := together; rest != 0; rest &= rest - 1 {
				at := a.memory(k) + rest.First()
				x, y = x+a.amounts[at], y+b.amounts[at]
			}
			if x != y {
				return true
			}
		}
	}
	return false
}
