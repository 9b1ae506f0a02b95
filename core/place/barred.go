package place

import (
	"strconv"
	"strings"
)

// This file has the reasons that do not come from the kubelet's managers: the refusals of kube-scheduler's own filters,
// and missing information about a node. Place never returns them. They are values of the same type, so that one list
// has everything that keeps a pod from a node.

// The codes. Resource, With, Want and Have are fields of [Reason].
const (
	// NamesOther: the pod names another node (With) in spec.nodeName.
	NamesOther Code = "names-other-node"
	// Cordoned: the node is marked as unschedulable, and the pod does not tolerate that.
	Cordoned Code = "cordoned"
	// Tainted: the pod does not tolerate the taint in Resource.
	Tainted Code = "tainted"
	// Unselected: the node lacks the label in Resource (KEY=VALUE), which the pod's node selector requires. With is the
	// value that the node has for the key, if any, or Various.
	Unselected Code = "unselected"
	// OtherAffinity: the node does not match the required node affinity of the pod.
	OtherAffinity Code = "node-affinity"
	// PortTaken: the pod in With has the host port in Resource, such as "8080/TCP".
	PortTaken Code = "host-port"
	// PodAffinity: the pod's required affinity asks for a pod in the same domain of the topology key in Resource, and
	// there is none.
	PodAffinity Code = "pod-affinity"
	// PodAntiAffinity: the pod in With is in the same domain of the topology key in Resource, and the pod's required
	// anti-affinity excludes it. With is empty if there are several such pods.
	PodAntiAffinity Code = "pod-anti-affinity"
	// KeptAway: the required anti-affinity of the pod in With excludes the pod from its domain of the key in Resource.
	KeptAway Code = "anti-affinity-of-pod"
	// Uneven: a topology spread constraint uses the key in Resource. The pod would give the node's domain Want more such
	// pods than the domain with the fewest has; the constraint allows Have.
	Uneven Code = "topology-spread"
	// NoDomain: the node lacks the label in Resource. With names what groups nodes by that label, an affinity or a
	// constraint of the pod.
	NoDomain Code = "no-topology-label"
	// BadClaim: the pod's claim in Resource has no volume; With has the cause, such as "is not there".
	BadClaim Code = "volume-claim"
	// VolumeElsewhere: the claim in Resource is tied to the volume (or node) in With, and this node cannot use it.
	VolumeElsewhere Code = "volume-elsewhere"
	// NoVolume: no volume matches the claim in Resource on the node, and the storage class in With cannot create one
	// there.
	NoVolume Code = "no-volume"
	// SmallVolumes: the claim in Resource needs a new volume of Want bytes from the storage class in With. On the node,
	// the driver of that class reports at most Have for one volume.
	SmallVolumes Code = "storage-capacity"
	// ClaimInUse: the pod in With uses the claim in Resource, and only one pod at a time may use that claim.
	ClaimInUse Code = "claim-in-use"
	// VolumeLimit: the node can attach Have more volumes of the driver in Resource, and the pod needs Want.
	VolumeLimit Code = "volume-limit"
	// NoLayout: there is no information about the node's NUMA nodes, and the scheduler is configured to refuse such
	// nodes.
	NoLayout Code = "no-layout"
	// AmountsOnly: the node has a NodeResourceTopology and no layout, and the scheduler is configured to refuse such
	// nodes.
	AmountsOnly Code = "amounts-only"
	// SilentNode: a report of the node is overdue, and the scheduler is configured to refuse such nodes.
	SilentNode Code = "silent-node"
	// InexactNode: predictions for the node may be wrong, for the causes in With, and the scheduler is configured to
	// refuse such nodes.
	InexactNode Code = "inexact-node"
	// NoRestart: the pod would take the last shared CPU, without which the node's kubelet does not start again, and the
	// scheduler is configured to prevent that.
	NoRestart Code = "no-restart"
	// NoPod: no scheduler accepts such a pod; Resource has the whole text of the reason.
	NoPod Code = "bad-pod"
	// ByPlugin: another plugin of the scheduler refuses the node, with the text in Resource. Want is 1 if the end of pods
	// does not help.
	ByPlugin Code = "by-plugin"
	// NoDevices: the devices that the pod's claims (DRA) allow are taken on the node; Resource has kube-scheduler's text.
	NoDevices Code = "no-devices"
	// Promised: the node has room for the pod, and keeps it for pods of the request in With that have not come yet.
	Promised Code = "promised"
	// FarDevices: such devices are free on the node, and not on the NUMA nodes where the pod would be; Resource has the
	// text. Want is 1 if only the pod demands that they are there.
	FarDevices Code = "far-devices"
)

// hostname is the label that each kubelet sets to the name of its node.
const hostname = "kubernetes.io/hostname"

// Various stands for values that differ from node to node. It is no value of a label.
const Various = "*"

// When is what has to happen before a reason no longer keeps a pod from a node.
type When string

const (
	// Never means that the pod cannot run on this machine under its kubelet's configuration, even if all pods end.
	Never When = "never"
	// Changed means that the pod or the node has to be changed; pods that end do not help. It also means that the empty
	// machine refuses the pod, and that nothing proves this of the machine with some other pods on it ([Doubt]).
	Changed When = "changed"
	// Later means that pods have to end, or that the node has to report.
	Later When = "later"
)

// order returns the place of w in lists: 0 for Never, 1 for Changed, 2 for Later. What a user has to know first comes
// first.
func (w When) order() int {
	switch w {
	case Never:
		return 0
	case Changed:
		return 1
	}
	return 2
}

// Compare is negative if w comes before x. Never comes first, Later last.
func (w When) Compare(x When) int { return w.order() - x.order() }

// When returns what has to happen before the reason no longer holds.
func (r Reason) When() When {
	switch r.Code {
	case NamesOther, Cordoned, Tainted, Unselected, OtherAffinity, NoLayout, AmountsOnly, InexactNode, NoPod, Untied,
		Counted, PodAffinity, NoDomain, BadClaim, VolumeElsewhere, NoVolume:
		return Changed
	case Unsupported, NUMAID, NoPages, NoDistances, Endless, Fraction, TooComplex:
		return Never
	}
	switch {
	case r.Never && r.Doubt == Unhealthy:
		return Later
	case r.Never && r.Doubt != "":
		return Changed
	case r.Never:
		return Never
	}
	if r.Code == ByPlugin && r.Want > 0 {
		return Changed
	}
	return Later
}

// barredText renders the reasons of this file; ok is false for all other reasons.
func (r Reason) barredText() (text string, ok bool) {
	switch r.Code {
	case NamesOther:
		return "pod names another node (" + r.With + ")", true
	case Cordoned:
		return "node is cordoned", true
	case Tainted:
		return "pod does not tolerate the taint " + r.Resource, true
	case Unselected:
		if r.With == "" {
			return "node has no label " + r.Resource + ", which the pod's node selector wants", true
		}
		if r.With == Various {
			return "node has another value of the label than " + r.Resource + ", which the pod's node selector wants", true
		}
		return "node has the label value " + r.With + ", and the pod's node selector wants " + r.Resource, true
	case OtherAffinity:
		return "node does not match the pod's required node affinity", true
	case PortTaken:
		return "host port " + r.Resource + " is taken by " + r.peer("another pod"), true
	case PodAffinity:
		return "no pod that the pod's required affinity asks for is there (" + r.Resource + ")", true
	case PodAntiAffinity:
		return r.peer("another pod") + " is there, which the pod's required anti-affinity excludes (" + r.Resource + ")", true
	case KeptAway:
		return "the required anti-affinity of " + r.peer("another pod") + " excludes the pod (" + r.Resource + ")", true
	case Uneven:
		return "topology spread by " + r.Resource + ": " + strconv.FormatInt(r.Want, 10) +
			" more such pods than in the emptiest domain, at most " + strconv.FormatInt(r.Have, 10) + " allowed", true
	case NoDomain:
		return "node has no label " + r.Resource + ", by which the pod's " + r.With + " groups nodes", true
	case BadClaim:
		return "claim " + r.Resource + " " + r.With, true
	case VolumeElsewhere:
		return "claim " + r.Resource + " is tied to " + r.With +
			", which is not for this node", true
	case NoVolume:
		return "no volume here matches claim " + r.Resource + ", and storage class " + r.With + " makes none", true
	case SmallVolumes:
		return "storage class " + r.With + " has no " + roundBytes(r.Want) + " for claim " + r.Resource + " here, at most " +
			roundBytes(r.Have), true
	case ClaimInUse:
		return "claim " + r.Resource + " is for one pod at a time (ReadWriteOncePod), and pod " + r.With + " uses it", true
	case VolumeLimit:
		if r.Never {
			return "never on this node: volumes of " + r.Resource + " (wants " + strconv.FormatInt(r.Want, 10) +
				"; it attaches " + strconv.FormatInt(r.Have, 10) + ")", true
		}
		return "insufficient volumes of " + r.Resource + " (wants " + strconv.FormatInt(r.Want, 10) + "; node attaches " +
			strconv.FormatInt(r.Have, 10) + " more)", true
	case NoLayout:
		return "nothing is known of the node's NUMA nodes", true
	case AmountsOnly:
		return "node has a NodeResourceTopology and no layout", true
	case SilentNode:
		return "node's agent is silent: a report is overdue", true
	case InexactNode:
		return "predictions for the node are inexact (" + r.With + ")", true
	case NoRestart:
		return "node's kubelet could not restart: the pod would take the last shared CPU", true
	case Promised:
		return "room there is kept for pods of request " + r.With, true
	case NoPod, ByPlugin, NoDevices, FarDevices:
		return r.Resource, true
	}
	return "", false
}

// peer names the pod in With, or returns unknown if With is empty.
func (r Reason) peer(unknown string) string {
	if r.With == "" {
		return unknown
	}
	return "pod " + r.With
}

// Remedy returns one sentence about what removes the reason: what to change on the pod or on the node, or what to wait
// for. It does not name the pods to wait for; the caller finds them among the holdings.
func (r Reason) Remedy() string {
	if r.Under != "" {
		return r.remedy() + "; or set " + r.Under + " on this node"
	}
	return r.remedy()
}

// remedy is Remedy without the settings in Under.
func (r Reason) remedy() string {
	if s := r.changeRemedy(); s != "" {
		return s
	}
	switch r.Code {
	case Unsettled:
		return "wait for the node's next report, normally less than a second; if it lasts, look at the node's agent"
	case Refused:
		return "wait for the node's next report, 5 minutes at most; then report a wrong prediction"
	case SilentNode:
		return "wait for the node's report; if it does not come, look at the node's agent"
	case NoRestart:
		return "wait for a pod with exclusive CPUs to end, or set keepRestartable: false in the scheduler's arguments"
	case PortTaken:
		return "wait for that pod to end, or give the pod another host port"
	case PodAntiAffinity:
		return "wait for that pod to end, or relax the pod's podAntiAffinity"
	case KeptAway:
		return "wait for that pod to end, or relax its podAntiAffinity"
	case Uneven:
		return "make room in the domain with the fewest such pods, or relax the pod's topologySpreadConstraints"
	case SmallVolumes:
		return "wait until volumes of the class are deleted or its driver reports more, or ask for less in the claim"
	case ClaimInUse:
		return "wait for that pod to end, or give the pod a claim of its own"
	case VolumeLimit:
		return "wait for pods with such volumes to end, or use another node"
	case Promised:
		return "wait until the pods of that request have come, or its booking has expired"
	case NoDevices:
		return "wait for pods with such devices to end, or ask for fewer in the pod's claims"
	case FarDevices:
		if r.Want == 1 {
			return "wait for pods with such devices to end, or take their name out of tenon.sh/align"
		}
		return "wait for pods with such devices to end, or set claims: Prefer in the scheduler's arguments"
	case Drawn, Demanded:
		return r.relaxRemedy()
	}
	return r.amountRemedy()
}

// relaxRemedy is the remedy if only the pod's demand is not satisfied.
func (r Reason) relaxRemedy() string {
	switch {
	case r.Never:
		return "relax the pod's demand (annotations tenon.sh/numa-policy and tenon.sh/numa-scope)"
	case r.Code == Drawn:
		return "wait for pods that hold " + r.With + " to end, or relax the pod's demand"
	}
	return "relax the pod's demand (annotation tenon.sh/numa-policy), or wait for pods to end"
}

// changeRemedy is the remedy for a reason that time does not remove; it is "" for all other reasons.
func (r Reason) changeRemedy() string {
	switch r.Code {
	case NamesOther:
		return "leave out spec.nodeName, so that the scheduler chooses"
	case Cordoned:
		return "kubectl uncordon the node, when it is meant to take pods again"
	case Tainted:
		return "remove the taint, or add a toleration to the pod"
	case Unselected:
		if strings.HasPrefix(r.Resource, hostname+"=") {
			return "the pod's nodeSelector names one node: wait for room there, or leave it out"
		}
		return "label the node, or change the pod's nodeSelector"
	case OtherAffinity:
		return "label the node, or change the pod's nodeAffinity"
	case PodAffinity:
		return "start a pod that the affinity asks for there, or relax the pod's podAffinity"
	case NoDomain:
		return "label the node, or change the topologyKey in the pod"
	case BadClaim:
		return "kubectl describe persistentvolumeclaim " + r.Resource + " says what it waits for"
	case VolumeElsewhere:
		return "let the pod run where the volume is, or give the pod another claim"
	case NoVolume:
		return "create a volume for the node, or change the storage class (provisioner, allowedTopologies)"
	case NoLayout:
		return "run tenon-agent on the node, or set unknownNodes: Allow in the scheduler's arguments"
	case AmountsOnly:
		return "run tenon-agent on the node, or set coarseNodes: Allow in the scheduler's arguments"
	case InexactNode:
		return "mend what the NodeLayout lists as inexact, or set inexactNodes: Allow in the scheduler's arguments"
	case NoPod:
		return "correct the pod, or create what it names"
	case ByPlugin:
		return "see the documentation of that plugin of the scheduler"
	case Unsupported:
		return "raise max-allowable-numa-nodes in topologyManagerPolicyOptions"
	case NUMAID:
		return "use topology policy none without the static memory manager on this node"
	case NoPages:
		return "ask for no " + r.Resource + " on this node, set its memoryManagerPolicy to None, or run a kernel that " +
			"shows every size on every NUMA node"
	case NoDistances:
		return "switch prefer-closest-numa-nodes off on this node"
	case Endless:
		return r.endlessRemedy()
	case Fraction:
		return "write " + r.whole() + " in the pod"
	case TooComplex:
		return "use fewer containers or resources in the pod"
	case Untied:
		return "name it in tenon.sh/align-ignore, or let the node's managers align it (cpuManagerPolicy, memoryManagerPolicy)"
	case Counted:
		return "run tenon-agent on the node, or leave out the pod's demand"
	case Widths:
		return r.widthsRemedy()
	}
	return ""
}

// endlessRemedy is the remedy if the kubelet would search without end.
func (r Reason) endlessRemedy() string {
	if r.With != "" {
		return "reserve whole cores (reservedSystemCPUs with all siblings) on this node"
	}
	if r.Width > 0 {
		return "use a kubelet of 1.36 or later, which looks only at NUMA nodes that have the devices"
	}
	return "change the manager policies or options of this node's kubelet"
}

// widthsRemedy is the remedy if resources of a container need different numbers of NUMA nodes.
func (r Reason) widthsRemedy() string {
	less := "less " + r.With
	if r.Fit > 0 {
		less += " (it fits with " + Quantity(r.With, r.Fit) + ")"
	}
	return "let " + r.Resource + " and " + r.With + " need equally many NUMA nodes: ask for more " + r.Resource +
		" or " + less + "; or use a node with policy best-effort"
}

// amountRemedy is the remedy for an amount that is more than the node ever has, or more than it has free.
func (r Reason) amountRemedy() string {
	if r.Never && r.Doubt == Unhealthy {
		return "find out why devices of " + r.Resource + " are unhealthy (the log of their device plugin), or ask for less"
	}
	have := strconv.FormatInt(r.Have, 10)
	if r.Resource != "" && r.Code != Together {
		have = Quantity(r.Resource, r.Have)
	}
	wait := "wait for pods to end, or "
	if r.Never {
		wait = ""
	}
	switch r.Code {
	case Together:
		return wait + "ask for less of " + strings.ReplaceAll(r.Resource, ", ", " or ")
	case SMT:
		if r.Have >= r.Want {
			return "ask for a whole number of cores: a multiple of the threads of a core"
		}
		return wait + "ask for a multiple of the threads of a core, at most " + have
	case Group:
		if r.Never {
			return "let the memory of every container of the pod need equally many NUMA nodes"
		}
		return wait + "keep pods that need one NUMA node and pods that need several on different nodes, by node labels"
	case Reuse:
		return wait + "let init containers ask for no more than the containers after them"
	case OneNUMA, Width, NoNUMA:
		if r.Have <= 0 {
			return wait + "use another node"
		}
		return wait + "ask for at most " + have + ", or use a node whose policy allows more NUMA nodes"
	}
	if r.Never && r.Have > 0 {
		return "ask for less, or use a larger machine"
	}
	if r.Have <= 0 || r.Resource == "" || r.Resource == "pods" {
		return wait + "use another node"
	}
	if r.Code == Lacking || r.Code == Short { // the whole amount that is left may not fit on NUMA nodes
		return wait + "ask for less"
	}
	return wait + "ask for at most " + have
}
