package state

import "strings"

// InexactCode is a kind of reason why a prediction may differ from what the kubelet does. The values are part of the
// NodeLayout API: programs compare them, and their meaning never changes.
type InexactCode string

const (
	// UnknownKubeletVersion means that the kubelet has a release that package place does not model, or its release is
	// unknown.
	UnknownKubeletVersion InexactCode = "unknown-kubelet-version"
	// UnmodelledFeatureGate means that a feature gate of the kubelet's resource managers has a value that package
	// place does not model.
	UnmodelledFeatureGate InexactCode = "unmodelled-feature-gate"
	// UnhealthyDevices means that the kubelet counts devices that it does not list. For some resource, the number of
	// NUMA nodes that a request needs is therefore unknown.
	UnhealthyDevices InexactCode = "unhealthy-devices"
	// RulesFromFiles means that the rules come from the kubelet's configuration files. The files lack its flags, and
	// may have changed since it started.
	RulesFromFiles InexactCode = "rules-from-files"
	// KubeletUnusable means that the kubelet's managers fail for every pod with this configuration on this machine.
	KubeletUnusable InexactCode = "kubelet-unusable"
	// ReleaseOrder means that the memory manager has not yet released the memory of ended pods. What will be free on
	// each NUMA node depends on an order that the kubelet does not determine.
	ReleaseOrder InexactCode = "release-order"
	// HoldingsOmitted means that the kubelet lists a pod whose holdings contradict the machine, and the report
	// leaves that pod out.
	HoldingsOmitted InexactCode = "holdings-omitted"
	// DevicesOmitted means that a resource is left out of the machine: it has more devices than a machine can have,
	// or names or amounts that none can have.
	DevicesOmitted InexactCode = "devices-omitted"
	// StateInconsistent means that the kubelet's state files contradict each other or its configuration.
	StateInconsistent InexactCode = "state-inconsistent"
	// StaleFacts means that the machine or the rules are as last read, because reading them again failed.
	StaleFacts InexactCode = "stale-facts"
	// MachineChanged means that the machine has changed since the kubelet started: CPUs went offline or came online,
	// or hugepages or memory changed. The kubelet decides by the machine as it was at its start.
	MachineChanged InexactCode = "machine-changed"
	// NotPinning means that the node's agent should pin containers and does not: it is not connected to the container
	// runtime, or the kubelet's managers are on.
	NotPinning InexactCode = "not-pinning"
	// PodsUnreported means that too many pods are bound to the node without being in its report, so their holdings
	// are not predicted. The node gets no pod that holds anything. The scheduler adds this reason; no report has it.
	PodsUnreported InexactCode = "pods-unreported"
	// ReportContradicted means that the report lists pods that the API server has on another node. They count on this
	// node, and the report has no effect on the other one. The scheduler adds this reason; no report has it.
	ReportContradicted InexactCode = "report-contradicted"
)

// Inexact is one reason why the prediction for a node may differ from what the node's kubelet does. Message describes
// it for people, in one line of printable ASCII.
type Inexact struct {
	Code    InexactCode
	Message string
}

// leftOut is how the message of DevicesOmitted continues after "resource NAME".
const leftOut = " is left out: "

// OmittedDevices returns the reason that a resource is left out of a machine; why is one line of printable ASCII.
func OmittedDevices(resource, why string) Inexact {
	return Inexact{DevicesOmitted, "resource " + resource + leftOut + why}
}

// Omits returns the resource that the node's machine lacks by this reason although the node may have it, or "".
func (i Inexact) Omits() string {
	text, ok := strings.CutPrefix(i.Message, "resource ")
	name, _, found := strings.Cut(text, leftOut)
	if i.Code != DevicesOmitted || !ok || !found {
		return ""
	}
	return name
}
