package document

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// None is the quality of a node without a usable report; the ledger has the other qualities.
const None = "none"

// Node has the data about a node: the sections machine, rules and holdings of its NodeLayout, and values derived from
// them. The sections are missing if there is no data about the node, and in overviews of nodes.
type Node struct {
	Name string `json:"name"`
	// Quality is exact (the holder of each CPU is known), coarse (amounts per NUMA node are known) or none.
	Quality string `json:"quality"`
	// From is NodeLayout, NodeResourceTopology, Numatopology or file.
	From string `json:"from,omitempty"`
	// Problem is why the node's published object was rejected.
	Problem string `json:"problem,omitempty"`
	// AgeSeconds is how long ago the node's report last changed.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
	Summary    Summary  `json:"summary"`

	// States counts the possible states of the node that the ledger keeps. Holdings and free amounts describe one of
	// them.
	States int `json:"states"`
	// Unsettled is set if more states are possible than the ledger keeps. Then no pod that holds anything fits before
	// the node reports.
	Unsettled bool `json:"unsettled,omitempty"`
	// Crowded is set if more of the node may be free than is counted; see state.Node.
	Crowded bool `json:"crowded,omitempty"`
	// Silent is set if a report of the node is overdue.
	Silent bool `json:"silent,omitempty"`
	// Refused has the errors with which the node refused pods that should have fitted. Pods of the same shape wait for
	// the node's next report.
	Refused []string `json:"refused,omitempty"`
	// Warnings are anomalies of the hardware or the report.
	Warnings []string `json:"warnings,omitempty"`
	// Inexact has why predictions may differ from what the kubelet does, RestartHazards what goes wrong if the kubelet
	// is restarted now.
	Inexact        []v1alpha1.Inexact `json:"inexact,omitempty"`
	RestartHazards []Hazard           `json:"restartHazards,omitempty"`
	// Unaligned are the resources that the kubelet's settings do not align.
	Unaligned []Unaligned `json:"unaligned,omitempty"`

	Machine *v1alpha1.Machine `json:"machine,omitempty"`
	Rules   *v1alpha1.Rules   `json:"rules,omitempty"`
	// FreeCPUs and FreeDevices are what a Guaranteed pod may get. NUMAs has, for each NUMA node, its CPUs and memory,
	// and how much of them is free.
	FreeCPUs    v1alpha1.IDList        `json:"freeCPUs,omitempty"`
	FreeDevices []v1alpha1.HeldDevices `json:"freeDevices,omitempty"`
	// NeverGiven are devices that the kubelet gives to no pod, however much is free: their NUMA nodes are unknown to it.
	NeverGiven []v1alpha1.HeldDevices `json:"neverGiven,omitempty"`
	NUMAs      []NUMA                 `json:"numas,omitempty"`
	// Holdings are in the order in which the node admitted the pods.
	Holdings []Holder `json:"holdings,omitempty"`
	// Kept is the room that is kept for pods that have not come yet and that will hold something.
	Kept []Kept `json:"kept,omitempty"`
	// Claims are the devices that drivers publish for claims (DRA); absent if there are none.
	Claims *NodeClaims `json:"claims,omitempty"`
}

// Kept is room that is kept for pods of a ProvisioningRequest.
type Kept struct {
	// Request is "namespace/name".
	Request string `json:"request"`
	// Pods is how many of its pods have not come yet.
	Pods int `json:"pods"`
}

// KeptOn returns the room that a node keeps, by request, in ascending order.
func KeptOn(n *state.Node) (out []Kept) {
	for i := range n.Promised {
		at, there := slices.BinarySearchFunc(out, n.Promised[i].For, func(k Kept, name string) int {
			return strings.Compare(k.Request, name)
		})
		if !there {
			out = slices.Insert(out, at, Kept{Request: n.Promised[i].For})
		}
		out[at].Pods++
	}
	return out
}

// Summary is a node in numbers: NodeLayout's summary, and the sources of the holdings.
type Summary struct {
	v1alpha1.Summary
	// Observed counts the pods whose holdings the node has reported, and Predicted the pods that are assumed since
	// then.
	Observed  int `json:"observed"`
	Predicted int `json:"predicted"`
}

// NUMA is one NUMA node: what it has, and how much of it is free.
type NUMA struct {
	ID           int32           `json:"id"`
	CPUs         v1alpha1.IDList `json:"cpus"`
	CPUCount     int             `json:"cpuCount"`
	FreeCPUs     v1alpha1.IDList `json:"freeCPUs"`
	FreeCPUCount int             `json:"freeCPUCount"`
	Memory       []Memory        `json:"memory"`
}

// Memory is memory of one kind on one NUMA node. Allocatable is what the kubelet does not reserve for the system, and
// Free what a Guaranteed pod may get.
type Memory struct {
	Kind        string `json:"kind"`
	Capacity    int64  `json:"capacity"`
	Allocatable int64  `json:"allocatable"`
	Free        int64  `json:"free"`
}

// Hazard is what goes wrong when the kubelet of a node restarts.
type Hazard struct {
	Code string `json:"code"`
	// Stops is set if the kubelet does not start again. Otherwise it starts and ends pods.
	Stops bool `json:"stops"`
	// Sure is false if the outcome depends on chance, or on something that the ledger does not have.
	Sure bool   `json:"sure"`
	Text string `json:"text"`
}

// Unaligned is a resource that a kubelet does not align because of one setting.
type Unaligned struct {
	Code   string `json:"code"`
	What   string `json:"what"`
	Remedy string `json:"remedy"`
	// Choice is set if the setting may be intended, since it is one of several sensible ones.
	Choice bool `json:"choice,omitempty"`
}

// Problem is a node that cannot be judged or drawn, and why.
type Problem struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// SummaryOf returns a node without its sections: its summary and its flags. For a node without a usable report, n is
// nil.
func SummaryOf(name string, n *state.Node) Node {
	out := Node{Name: name, Quality: None}
	if n == nil || n.Machine == nil {
		return out
	}
	out.Quality, out.From = n.Quality.String(), v1alpha1.Kind
	if n.Quality == state.Estimated {
		out.From = cmp.Or(n.From, "NodeResourceTopology")
	}
	out.Summary.Summary = v1alpha1.SummaryOf(n.Machine, n.Usage.FreeCPUs(), len(n.Entries))
	for _, e := range n.Entries {
		if e.Source == state.Predicted {
			out.Summary.Predicted++
		} else {
			out.Summary.Observed++
		}
	}
	out.States, out.Unsettled, out.Crowded, out.Silent = 1+len(n.Others), n.Unsettled, n.Crowded, n.Silent
	for _, why := range n.Refused {
		out.Refused = append(out.Refused, string(why))
	}
	slices.Sort(out.Refused)
	return out
}

// NodeOf returns the complete document of a node. For a node without a usable report, n is nil, and the sections are
// missing.
func NodeOf(name string, n *state.Node) Node {
	out := SummaryOf(name, n)
	if out.Quality == None {
		return out
	}
	layout := v1alpha1.FromCore(name, n.Machine, n.Rules, nil, nil)
	out.Machine, out.Rules = &layout.Machine, &layout.Rules
	out.FreeCPUs = v1alpha1.IDList(n.Usage.FreeCPUs().String())
	out.Inexact, out.RestartHazards, out.Unaligned = inexact(n), hazards(n), unaligned(n)
	out.Kept = KeptOn(n)
	for i := range n.Machine.NUMAs() {
		out.NUMAs = append(out.NUMAs, numaOf(n.Usage, i))
	}
	for _, r := range n.Machine.Resources() {
		var free, never []string
		for _, d := range n.Usage.FreeDevices(r.Name) {
			if n.Rules.Stranded(n.Machine, r.Name, d) {
				never = append(never, d.ID)
			} else {
				free = append(free, d.ID)
			}
		}
		if len(free) > 0 {
			out.FreeDevices = append(out.FreeDevices, v1alpha1.HeldDevices{Resource: r.Name, IDs: free})
		}
		if len(never) > 0 {
			out.NeverGiven = append(out.NeverGiven, v1alpha1.HeldDevices{Resource: r.Name, IDs: never})
		}
	}
	for _, e := range n.Entries {
		h := HolderOf(n.Machine, e)
		h.Gone = slices.Contains(n.Gone, e.Pod)
		out.Holdings = append(out.Holdings, h)
	}
	return out
}

func numaOf(u *place.Usage, i int) NUMA {
	n := u.Machine.NUMAs()[i]
	free := n.CPUs.And(u.FreeCPUs())
	out := NUMA{ID: int32(n.ID), CPUs: v1alpha1.IDList(n.CPUs.String()), CPUCount: n.CPUs.Len(),
		FreeCPUs: v1alpha1.IDList(free.String()), FreeCPUCount: free.Len(), Memory: []Memory{}}
	for _, kind := range u.Machine.Kinds() {
		if all := n.Capacity(kind); all > 0 {
			out.Memory = append(out.Memory, Memory{kind, all, u.Allocatable(i, kind), u.FreeMemory(i, kind)})
		}
	}
	return out
}

func inexact(n *state.Node) (out []v1alpha1.Inexact) {
	for _, r := range n.Inexact {
		out = append(out, v1alpha1.Inexact{Code: string(r.Code), Message: r.Message})
	}
	return out
}

func hazards(n *state.Node) (out []Hazard) {
	for _, h := range n.RestartHazards() {
		out = append(out, Hazard{string(h.Code), h.Stops, h.Sure, h.Text()})
	}
	return out
}

// unaligned returns what the node's kubelet does not align. It returns nil for coarse nodes, whose reports do not
// show it.
func unaligned(n *state.Node) (out []Unaligned) {
	if n.Quality == state.Estimated {
		return nil
	}
	for _, u := range n.Rules.Unaligned(n.Machine) {
		out = append(out, Unaligned{string(u.Code), u.What, u.Remedy, u.Choice})
	}
	return out
}

// Forgotten returns what the node's kubelet leaves unaligned by default and not by choice; see place.Rules.Forgotten.
// It returns nil for coarse nodes.
func Forgotten(n *state.Node) []place.Unaligned {
	if n.Quality == state.Estimated || n.Usage == nil {
		return nil
	}
	return n.Rules.Forgotten(n.Machine)
}

// ByName orders problems by node and reason.
func ByName(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Reason, b.Reason))
}
