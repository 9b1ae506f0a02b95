// Package document has the types that Tenon prints about nodes and pods for programs and people. They are the answers
// of the scheduler's inspection endpoint, and the output of kubectl tenon with -o json and -o yaml. It also renders
// holdings as text, so that the CLI, the drawings, events and logs use the same words.
//
// Invariant: parts that a NodeLayout also has use NodeLayout's types and keys. Keys are stable: fields may be added,
// and none is renamed or changes its meaning. CPUs and NUMA nodes are ids in the Linux list format, and memory is in
// bytes. Ids of CPUs and devices of coarse nodes are invented: only their number has a meaning.
//
// The package does not decide: it renders values that its callers computed, and Tenon reads no document back.
package document

import (
	"strings"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Pod names a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// PodOf converts the ledger's id of a pod.
func PodOf(id state.PodID) Pod { return Pod{id.Namespace, id.Name, id.UID} }

// Holder is a pod that holds something: NodeLayout's PodHoldings, and their source.
type Holder struct {
	Pod
	// Source is observed, predicted or, on coarse nodes, counted.
	Source     string          `json:"source"`
	NUMAs      v1alpha1.IDList `json:"numas,omitempty"`
	Containers []Container     `json:"containers"`
	// Misaligned is set if the pod holds parts of more NUMA nodes, or of more distant ones, than it would on the empty
	// machine.
	Misaligned bool `json:"misaligned,omitempty"`
	// Gone is set if the pod has no object any more, and the node still reports it.
	Gone bool `json:"gone,omitempty"`
	// InFlightSeconds is how long ago the prediction was reserved; nil if it is not a prediction, or if the scheduler
	// has no record of its reservation.
	InFlightSeconds *float64 `json:"inFlightSeconds,omitempty"`
}

// Container is what one container holds: NodeLayout's ContainerHolding, with the NUMA nodes of all of it.
type Container struct {
	// Name is empty for holdings of the pod as a whole (pod-level resources).
	Name string `json:"name,omitempty"`
	// Kind is init or sidecar; empty for app.
	Kind    string                 `json:"kind,omitempty"`
	NUMAs   v1alpha1.IDList        `json:"numas,omitempty"`
	CPUs    v1alpha1.IDList        `json:"cpus,omitempty"`
	Memory  []v1alpha1.MemoryBlock `json:"memory,omitempty"`
	Devices []Devices              `json:"devices,omitempty"`
}

// Devices are the devices of one resource: NodeLayout's HeldDevices, with their NUMA nodes.
type Devices struct {
	v1alpha1.HeldDevices
	NUMAs v1alpha1.IDList `json:"numas,omitempty"`
	// AnyOf is set if the ids are not certain, because the kubelet may take other devices that are equal for it.
	AnyOf bool `json:"anyOf,omitempty"`
}

// HolderOf returns a pod's holdings on a machine.
func HolderOf(m *topo.Machine, e state.Entry) Holder {
	source := [...]string{state.Predicted: "predicted", state.Observed: "observed", state.Counted: "counted"}[e.Source]
	return Holder{Pod: PodOf(e.Pod), Source: source, NUMAs: Spread(m, e.Holdings), Containers: Containers(m, e.Holdings)}
}

// Containers returns holdings in their order. If the machine is nil, NUMA nodes are positions instead of ids.
func Containers(m *topo.Machine, hs []place.Holding) []Container {
	return Each(hs, func(h place.Holding) Container {
		c := Container{Name: h.Container, NUMAs: Spread(m, []place.Holding{h}), CPUs: v1alpha1.IDList(h.CPUs.String())}
		if h.Kind != place.App {
			c.Kind = KindName(h.Kind)
		}
		for _, b := range h.Memory {
			c.Memory = append(c.Memory, v1alpha1.MemoryBlock{Kind: b.Kind, NUMAs: NUMAs(m, b.NUMAs), Bytes: b.Bytes})
		}
		for _, d := range h.Devices {
			held := v1alpha1.HeldDevices{Resource: d.Resource, IDs: append([]string{}, d.IDs...)}
			c.Devices = append(c.Devices, Devices{HeldDevices: held, NUMAs: NUMAs(m, d.NUMAs), AnyOf: d.Free})
		}
		return c
	})
}

// Spread returns the NUMA nodes on which the holdings are; "" if the machine is nil.
func Spread(m *topo.Machine, hs []place.Holding) v1alpha1.IDList {
	if m == nil {
		return ""
	}
	return NUMAs(m, place.Verdict{Holdings: hs}.NUMAs(m))
}

// NUMAs returns the ids of NUMA nodes, or positions if the machine is nil or has no such positions.
func NUMAs(m *topo.Machine, on topo.Mask) v1alpha1.IDList {
	if m == nil || on&^m.All() != 0 {
		return v1alpha1.IDList(idset.Of(on.Positions()...).String())
	}
	return v1alpha1.IDList(idset.Of(m.IDs(on)...).String())
}

// Verdict is what one node would do with a pod, computed for a question or recorded by a scheduler.
type Verdict struct {
	Node string `json:"node"`
	// Quality is how the node is known: exact or coarse; empty in a decision of a scheduler.
	Quality string `json:"quality,omitempty"`
	Fits    bool   `json:"fits"`
	// Cost is the cost that a scheduler computed for a node that fits; lower is better.
	Cost *int64 `json:"cost,omitempty"`
	// Error is the error that the kubelet would give.
	Error string `json:"error,omitempty"`
	// Why is the reason why there is no verdict, because there is no data about the node. Reasons is empty then.
	Why        string          `json:"why,omitempty"`
	NUMAs      v1alpha1.IDList `json:"numas,omitempty"`
	Containers []Container     `json:"containers,omitempty"`
	Reasons    []Reason        `json:"reasons"`
	// Inexact lists why the kubelet may deviate from the verdict.
	Inexact []v1alpha1.Inexact `json:"inexact,omitempty"`
	// Way is how the node can get room for the pod; nil if the pod fits, or if no way is known.
	Way *Way `json:"way,omitempty"`
}

// VerdictOf returns the verdict of place for a node.
func VerdictOf(n *state.Node, v place.Verdict) Verdict {
	return Verdict{Node: n.Name, Quality: n.Quality.String(), Fits: v.Fits(), Error: string(v.Refusal),
		NUMAs: Spread(n.Machine, v.Holdings), Containers: Containers(n.Machine, v.Holdings),
		Reasons: Each(v.Reasons, ReasonOf), Inexact: inexact(n)}
}

// Reason is one thing that a node lacks. Code is stable; Text is for people.
type Reason struct {
	Code string `json:"code"`
	// Container is empty if the reason is about the pod as a whole, and Resource if it is about several resources
	// together.
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource,omitempty"`
	// Want is what was asked for, and Have what is available, in CPUs, devices or bytes of memory. The meaning of Width
	// depends on Code; see place.Reason.
	Want  int64 `json:"want"`
	Have  int64 `json:"have"`
	Width int   `json:"width,omitempty"`
	// With completes the reason for some codes, for example by the name of another resource; see place.Reason.
	With string `json:"with,omitempty"`
	// When is when the pod may fit: never, changed (after a change of the pod or the node), or later.
	When string `json:"when"`
	Text string `json:"text"`
	// Remedy is what to change, or what to wait for.
	Remedy string `json:"remedy,omitempty"`
}

// ReasonOf converts a reason of place.
func ReasonOf(r place.Reason) Reason {
	return Reason{Code: string(r.Code), Container: r.Container, Resource: r.Resource, Want: r.Want, Have: r.Have,
		Width: r.Width, With: r.With, When: string(r.When()), Text: r.Text(), Remedy: r.Remedy()}
}

// Way is how a node gets room for a pod. Pods is the smallest set that was found of pods whose end makes room.
type Way struct {
	Pods    []Pod     `json:"pods"`
	Missing []Missing `json:"missing"`
}

// Missing is an amount that the end of a Way's pods must free, on the NUMA nodes in NUMAs or, if NUMAs is empty, on
// the node as a whole.
type Missing struct {
	Resource string          `json:"resource"`
	More     int64           `json:"more"`
	NUMAs    v1alpha1.IDList `json:"numas,omitempty"`
}

// Text renders the amount, for example "24 more cpu on NUMA node 1".
func (m Missing) Text() string {
	n, resource, _ := strings.Cut(place.Quantity(m.Resource, m.More), " ")
	if m.NUMAs == "" {
		return n + " more " + resource
	}
	return n + " more " + resource + " on " + NUMANodes(m.NUMAs)
}

// Request is what one container requests.
type Request struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"` // app, init or sidecar
	MilliCPU int64    `json:"milliCPU"`
	Memory   []Amount `json:"memory"`
	Devices  []Count  `json:"devices"`
}

// Amount is memory of one kind.
type Amount struct {
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
}

// Count is a number of devices of one resource.
type Count struct {
	Resource string `json:"resource"`
	Count    int64  `json:"count"`
}

// RequestOf returns what a container requests.
func RequestOf(c place.Container) Request {
	return Request{Name: c.Name, Kind: KindName(c.Kind), MilliCPU: c.MilliCPU,
		Memory:  Each(c.Memory, func(a place.Amount) Amount { return Amount{a.Kind, a.Bytes} }),
		Devices: Each(c.Devices, func(n place.Count) Count { return Count{n.Resource, n.N} }),
	}
}

// KindName returns app, init or sidecar.
func KindName(k place.Kind) string {
	return [...]string{place.App: "app", place.Init: "init", place.Sidecar: "sidecar"}[k]
}

// QoSName returns the QoS class of a pod as Kubernetes names it.
func QoSName(c place.QoS) string {
	return [...]string{place.BestEffortQoS: "BestEffort", place.Burstable: "Burstable", place.Guaranteed: "Guaranteed"}[c]
}

// Each converts a slice. The result is never nil, so that JSON has [] and not null.
func Each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}
