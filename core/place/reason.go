package place

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/topo"
)

// Code names the rule that a pod failed.
type Code string

// The codes. They are stable: events, the CLI and metrics use them.
const (
	// OneNUMA: no single NUMA node has as much as the container (or pod) wants.
	OneNUMA Code = "one-numa"
	// Width: the want fits on the NUMA nodes together, but not on as few as the policy requires.
	Width Code = "width"
	// NoNUMA: the node has enough free devices, but not on NUMA nodes. A device without a NUMA node is in no mask, so
	// it does not count towards the want (devicemanager/topology_hints.go, generateDeviceTopologyHints).
	NoNUMA Code = "no-numa"
	// Together: every resource fits by itself, but no NUMA nodes have all of them.
	Together Code = "together"
	// Widths: every resource fits by itself, but on different numbers of NUMA nodes. The policy requires the same
	// number for all.
	Widths Code = "widths"
	// Reuse: an init container's holdings tie the container to NUMA nodes that lack the rest of the want.
	Reuse Code = "reuse"
	// Short: the whole machine does not have enough free.
	Short Code = "short"
	// SMT: under full-pcpus-only, the CPUs are not whole cores.
	SMT Code = "smt"
	// Endless: the kubelet would search for NUMA nodes without end. It searches for CPUs under
	// distribute-cpus-across-numa, for memory under the static memory manager, or for devices on too many NUMA nodes. It
	// would then admit no pod on the node any more.
	Endless Code = "endless"
	// Group: memory is free, but on NUMA nodes that are already used alone, or in another group of NUMA nodes
	// (memorymanager/policy_static.go never mixes single- and multi-numa use).
	Group Code = "group"
	// Fraction: the want is not a whole number of bytes, and the node's memory manager is static.
	Fraction Code = "fraction"
	// NoPool: the pod requests resources as a whole. Some containers use up all of these for themselves, so nothing is
	// left for the others (podlevel.go).
	NoPool Code = "no-pool"
	// Sharer: the kubelet looks for NUMA nodes for a container that gets no memory of its own, and finds none
	// (podlevel.go).
	Sharer Code = "sharer"
	// Chosen: the NUMA nodes of the container or pod were chosen for other resources, and do not have enough of this
	// one.
	Chosen Code = "chosen"
	// Unsupported: the machine has more NUMA nodes than this kubelet's topology manager supports.
	Unsupported Code = "unsupported"
	// NUMAID: a NUMA node's id is too high for this kubelet's configuration, so the kubelet panics. The reason is
	// permanent.
	NUMAID Code = "numa-id"
	// NoPages: the static memory manager panics, because the NUMA node with the id in Want does not show hugepages of
	// the wanted size, not even with a count of 0. The reason is permanent.
	NoPages Code = "no-pages"
	// NoDistances: the kubelet does not start, since prefer-closest-numa-nodes is set and the machine has no NUMA
	// distances. The reason is permanent.
	NoDistances Code = "no-distances"
	// TooComplex: the verdict would need more than maxWork steps, or the pod has more than MaxContainers containers
	// that need alignment. The node might admit the pod.
	TooComplex Code = "too-complex"
	// Lacking: the node has too little left of an amount that is not counted by NUMA node, such as pods. Place never
	// returns this code; callers that compare such amounts add it.
	Lacking Code = "lacking"
	// Demanded: the node would admit the pod, but not with a placement that the pod itself demands.
	Demanded Code = "demanded"
	// Untied: the pod demands alignment of a resource that the node does not align. Its managers do not assign the
	// resource, or not to such a pod, or its devices have no NUMA node.
	Untied Code = "untied"
	// Drawn: whether the demand is satisfied depends on which devices the node takes of the resource in With.
	Drawn Code = "drawn"
	// Counted: the node reports amounts only, and its kubelet would not refuse the pod if the prediction were wrong.
	// Place never returns this code.
	Counted Code = "counted"
	// NotTogether: the pod would not be on the one NUMA node on which it has to be together with others. Resource has the
	// NUMA nodes that it would have, and With the NUMA nodes of the others, or "" if there are none. Or Resource is
	// empty, and With has the node on which the others are.
	NotTogether Code = "not-together"
	// NotApart: the pod would share the NUMA nodes in With with pods from which it has to be apart. Resource has the NUMA
	// nodes that it would have. NotTogether and NotApart are never returned by Place, which knows no other pods.
	NotApart Code = "not-apart"
	// Unsettled: the node has not yet reported what assumed pods got, and the pod does not fit in one of the possible
	// states. Place never returns this code, because it judges one state.
	Unsettled Code = "unsettled"
	// Refused: the node refused such a pod, for the reason in Resource, although a verdict predicted admission.
	// Place never returns this code.
	Refused Code = "refused"
)

// OfDemand reports whether only the pod's own demand failed: the node itself would admit the pod.
func (c Code) OfDemand() bool {
	switch c {
	case Demanded, Untied, Drawn, Counted, NotTogether, NotApart:
		return true
	}
	return false
}

// Reason is one thing that was missing. It is data; Text renders it for people.
type Reason struct {
	Code      Code
	Container string // empty: the pod as a whole (pod scope)
	Resource  string // empty: several resources together
	// Want is what was asked for, Have the most that is available under the rule of Code. CPUs and devices count
	// pieces, memory counts bytes.
	Want, Have int64
	// Width and With depend on Code:
	//
	//  - Width: Width is the number of NUMA nodes that the policy allows for this want.
	//  - NoNUMA: Width is the number of free devices without a NUMA node.
	//  - Widths: the resource in Resource needs Want NUMA nodes, and the resource in With needs Have.
	//  - Demanded: With has the NUMA nodes of each resource that the demand is about.
	//  - Endless: With has the reserved CPUs whose siblings are not reserved, under full-pcpus-only. For devices,
	//    Width is a number of NUMA nodes: the kubelet would try all sets of them.
	//  - TooComplex: Want is the number of containers, Have the bound, and Width the number of NUMA nodes of the
	//    machine; Width is 0 if the pod alone is too large.
	//  - NUMAID: Want is the id, Have the highest id that is allowed, and With names the part that cannot handle it.
	Width int
	With  string
	// Never: the pod would not get Want on the empty machine either. Have is then about the empty machine. Doubt is set
	// if this does not prove that the machine never takes the pod.
	Never bool
	Doubt Doubt
	// Under and Fit are remedies that a caller found by trying; they are empty if it tried none or found none. Under
	// has other settings of the node's kubelet with which the empty machine would take the pod. Fit is for Widths: if
	// the pod asked for this amount of the resource in With, the empty machine would take it. With the next larger
	// amount that was tried, the machine would not.
	Under string
	Fit   int64
}

// Doubt is why a refusal by the empty machine does not prove that the machine never takes the pod.
type Doubt string

const (
	// BesideOthers means that the empty machine would admit each container alone. Other pods may push one to another NUMA
	// node, so that the pod fits as a whole.
	BesideOthers Doubt = "beside-others"
	// ByChance means that the devices that the node takes for one container are chance, and decide about a later one.
	ByChance Doubt = "chance"
	// Unhealthy means that devices of the resource are unhealthy now, and may recover.
	Unhealthy Doubt = "unhealthy"
)

// String returns Text. Two reasons may have the same text: to compare reasons, compare the values.
func (r Reason) String() string { return r.Text() }

// Text renders the reason for people. Equal reasons on several nodes give equal texts, so that the scheduler's event
// groups and counts them.
func (r Reason) Text() string {
	if text, ok := r.barredText(); ok {
		return text
	}
	switch r.Code {
	case Lacking:
		if r.Never {
			return "never on this node: wants " + Quantity(r.Resource, r.Want) + "; it has " +
				amount(r.Resource, r.Have) + " for pods"
		}
		return "insufficient " + r.Resource + " (wants " + amount(r.Resource, r.Want) + "; node has " +
			amount(r.Resource, r.Have) + " left)"
	case Unsettled:
		return "node has not reported what assumed pods got"
	case Refused:
		return "node refused such a pod (" + r.Resource + ") and has not reported since"
	case NUMAID:
		return fmt.Sprintf("its kubelet panics: NUMA node id %d is above %d, under %s", r.Want, r.Have, r.With)
	case NoPages:
		return fmt.Sprintf("its kubelet panics: NUMA node %d shows no %s, under the static memory manager", r.Want,
			r.Resource)
	case NoDistances:
		return "its kubelet does not start: prefer-closest-numa-nodes on a machine without NUMA distances"
	case TooComplex:
		return r.complexity()
	}
	who := "pod"
	if r.Container != "" {
		who = fmt.Sprintf("container %q", r.Container)
	}
	switch {
	case r.Never && r.Doubt == Unhealthy:
		return "not while devices are unhealthy: " + who + " " + r.detail()
	case r.Never && (r.Code.OfDemand() || r.Doubt != ""): // other pods may push a container to where all is satisfied
		return "not on the empty node either: " + who + " " + r.detail() + r.chance()
	case r.Never:
		return "never on this machine: " + who + " " + r.detail()
	}
	return "cannot align " + who + " (" + r.detail() + ")"
}

// Lack renders what was wanted and what was missing, without a verdict before it, for a sentence that begins with the
// verdict. For reasons that have no amounts it is Text.
func (r Reason) Lack() string {
	if _, barred := r.barredText(); barred {
		return r.Text()
	}
	who := "pod "
	if r.Container != "" {
		who = fmt.Sprintf("container %q ", r.Container)
	}
	switch r.Code {
	case Unsettled, Refused, NUMAID, NoPages, NoDistances, TooComplex:
		return r.Text()
	case Lacking:
		if r.Never {
			return "pod wants " + Quantity(r.Resource, r.Want) + "; the node has " + amount(r.Resource, r.Have) + " for pods"
		}
		return "pod wants " + Quantity(r.Resource, r.Want) + "; the node has " + amount(r.Resource, r.Have) + " left"
	case Short:
		if r.Never {
			return who + "wants " + Quantity(r.Resource, r.Want) + "; the node has " + amount(r.Resource, r.Have) + " for pods" +
				r.chance()
		}
		return who + "wants " + Quantity(r.Resource, r.Want) + "; the node has " + amount(r.Resource, r.Have) + " free"
	}
	return who + r.detail() + r.chance()
}

// chance says that chance decides; it is "" if that is not so.
func (r Reason) chance() string {
	if r.Doubt == ByChance {
		return "; that depends on which devices the node takes"
	}
	return ""
}

// detail renders what was wanted and what was missing, without the container.
func (r Reason) detail() string {
	want := "wants " + Quantity(r.Resource, r.Want)
	switch r.Code {
	case OneNUMA:
		if r.Never {
			return want + " on one NUMA node; the largest has " + amount(r.Resource, r.Have)
		}
		return want + " on one NUMA node; best NUMA node has " + amount(r.Resource, r.Have) + " free"
	case Width:
		if r.Never {
			return fmt.Sprintf("%s on %s; the largest %s %s", want, numas(r.Width), has(r.Width), amount(r.Resource, r.Have))
		}
		return fmt.Sprintf("%s on %s; best %s %s free", want, numas(r.Width), has(r.Width), amount(r.Resource, r.Have))
	case NoNUMA:
		near := fmt.Sprintf("%d free ones have a NUMA node", r.Have)
		if r.Never {
			near = fmt.Sprintf("it has %d with a NUMA node", r.Have)
		}
		return fmt.Sprintf("%s; %s, and the kubelet aligns none of the %d without one", want, near, r.Width)
	case Together:
		return "each resource fits, but no NUMA node has all of " + r.Resource + " together"
	case Widths:
		return fmt.Sprintf("needs %s for %s but %d for %s", numas(int(r.Want)), r.Resource, r.Have, r.With)
	case Reuse:
		return want + " next to what its init containers hold; best has " + amount(r.Resource, r.Have)
	case Short:
		if r.Never {
			return want + "; it has " + amount(r.Resource, r.Have) + " for pods"
		}
		return want + "; node has " + amount(r.Resource, r.Have) + " free"
	case SMT:
		if r.Have >= r.Want {
			return want + ", which are not whole cores"
		}
		return want + " as whole cores; has " + amount(r.Resource, r.Have)
	case Endless:
		if r.Resource == topo.Memory {
			return "its kubelet would " + r.loops()
		}
		return want + "; its kubelet would " + r.loops()
	case Group:
		if r.Never { // the machine is empty, so only the pod itself can have groups
			return want + "; other containers of the pod use the NUMA nodes alone or in another group"
		}
		return want + "; free memory is on NUMA nodes that pods use alone or in another group"
	case Chosen:
		return want + " on the NUMA nodes chosen for the pod; they have " + amount(r.Resource, r.Have) + " free"
	case Fraction:
		return "wants " + r.Resource + " that is not a whole number of bytes, about " + roundBytes(r.Want) +
			"; write " + r.whole()
	case Sharer:
		return "shares memory, since its requests are not its limits; a kubelet before 1.37 looks for NUMA nodes for it " +
			"all the same, and finds none"
	case NoPool:
		return want + " as a whole; containers whose requests equal their limits use up all of it, and nothing is left " +
			"for the others"
	case Demanded:
		return r.demands() + "; node would use " + r.used()
	case Untied:
		return r.demands() + "; node ties none of it to a NUMA node"
	case Drawn:
		return r.demands() + "; that depends on which " + r.With + " the node takes"
	case Counted:
		return r.demands() + "; node reports amounts only, and its kubelet would not enforce it"
	case NotTogether, NotApart:
		return r.related()
	case Unsupported:
		return fmt.Sprintf("machine has %d NUMA nodes, its kubelet handles %d", r.Want, r.Have)
	}
	return string(r.Code)
}

// complexity describes what is too complex, with the remedy.
func (r Reason) complexity() string {
	if r.Width == 0 {
		return fmt.Sprintf("pod has %d containers that need alignment, more than %d; use fewer containers", r.Want, r.Have)
	}
	return fmt.Sprintf("deciding this needs more than %d steps: %d containers on %d NUMA nodes; use fewer containers "+
		"or resources", r.Have, r.Want, r.Width)
}

// whole renders the amount to write in place of a fraction of bytes.
func (r Reason) whole() string {
	const mi = 1 << 20
	if r.Want < mi {
		return fmt.Sprint(r.Want)
	}
	return fmt.Sprintf("%dMi or %d", (r.Want+mi-1)/mi, r.Want)
}

// loops describes why the CPU manager or the memory manager does not come to an end.
func (r Reason) loops() string {
	if r.Resource == topo.Memory {
		return fmt.Sprintf("try all sets of %d NUMA nodes under the static memory manager", r.Want)
	}
	if r.Width > 0 {
		return fmt.Sprintf("try all sets of %d NUMA nodes for devices", r.Width)
	}
	if r.With == "" {
		return "try sets of NUMA nodes endlessly under distribute-cpus-across-numa"
	}
	return "loop forever under full-pcpus-only and distribute-cpus-across-numa, as CPUs " + r.With +
		" are reserved without their siblings"
}

// Elsewhere is the reason for which a node bars a pod that has to be together with pods on another node.
func Elsewhere(node string) Reason { return Reason{Code: NotTogether, With: node} }

// related describes what the pod asks for beside other pods.
func (r Reason) related() string {
	on := func(ids string) string {
		if strings.ContainsAny(ids, ",-") {
			return "NUMA nodes " + ids
		}
		return "NUMA node " + ids
	}
	switch would := "; node would use " + on(r.Resource); {
	case r.Code == NotApart:
		return "demands to be apart from pods on " + on(r.With) + would
	case r.Resource == "":
		return "demands to be together with pods on node " + r.With
	case r.With == "":
		return "demands one NUMA node" + would
	default:
		return "demands to be together with pods on " + on(r.With) + would
	}
}

// demands describes what the pod itself asks for.
func (r Reason) demands() string {
	width := numas(int(r.Want))
	if r.Want == 0 {
		width = "as few NUMA nodes as it needs"
	}
	if r.Resource == "" {
		return "demands " + width
	}
	return "demands " + r.Resource + " on " + width
}

// used names the NUMA nodes of With, such as "NUMA nodes 0-1 for cpu, 0 for memory".
func (r Reason) used() string {
	if first, _, _ := strings.Cut(r.With, " "); strings.ContainsAny(first, "-,") {
		return "NUMA nodes " + r.With
	}
	return "NUMA node " + r.With
}

func numas(n int) string {
	if n == 1 {
		return "one NUMA node"
	}
	return fmt.Sprintf("%d NUMA nodes", n)
}

func has(n int) string {
	if n == 1 {
		return "NUMA node has"
	}
	return fmt.Sprintf("%d NUMA nodes have", n)
}

// Quantity renders an amount with its resource, for example "4 nvidia.com/gpu" or "24Gi memory".
func Quantity(resource string, n int64) string { return amount(resource, n) + " " + resource }

// amount renders an amount without its resource; memory and hugepages are in bytes.
func amount(resource string, n int64) string {
	if resource == topo.Memory || strings.HasPrefix(resource, "hugepages-") {
		return roundBytes(n)
	}
	return fmt.Sprint(n)
}

// roundBytes renders bytes with at most one decimal, so that free amounts of any size stay readable.
func roundBytes(n int64) string {
	if s := topo.FormatBytes(n); len(s) <= 6 {
		return s
	}
	for _, u := range []struct {
		name  string
		bytes float64
	}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if v := float64(n) / u.bytes; v >= 1 {
			return fmt.Sprintf("%.1f%s", v, u.name)
		}
	}
	return fmt.Sprint(n)
}
