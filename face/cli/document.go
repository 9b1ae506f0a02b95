package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the JSON that the commands write with "-o json". Field names are stable: fields may be
// added, none is renamed or given another meaning. CPUs are in the Linux list format, memory is in
// bytes, numas are ids. Ids of CPUs and devices of coarse nodes are made up: they count, and mean nothing else.

type podDocument struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

type explanationDocument struct {
	Kind       string            `json:"kind"` // "PodExplanation"
	Pod        podDocument       `json:"pod"`
	QoS        string            `json:"qos"`
	Phase      string            `json:"phase"`
	Node       string            `json:"node,omitempty"` // where it is bound
	Reason     string            `json:"reason,omitempty"`
	Message    string            `json:"message,omitempty"`
	Containers []wantDocument    `json:"containers"`
	Holds      *entryDocument    `json:"holds,omitempty"` // what it holds on Node
	Verdicts   []verdictDocument `json:"verdicts"`        // of the nodes where it holds nothing
	NotJudged  []problemDocument `json:"notJudged"`
}

type wantDocument struct {
	Name     string           `json:"name"`
	Kind     string           `json:"kind"` // app, init or sidecar
	MilliCPU int64            `json:"milliCPU"`
	Memory   []amountDocument `json:"memory"`
	Devices  []countDocument  `json:"devices"`
}

type amountDocument struct {
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
}

type countDocument struct {
	Resource string `json:"resource"`
	Count    int64  `json:"count"`
}

type entryDocument struct {
	Pod      podDocument       `json:"pod"`
	Source   string            `json:"source"` // observed, predicted or, on coarse nodes, counted
	NUMAs    []idset.NUMA      `json:"numas"`
	Holdings []holdingDocument `json:"holdings"`
}

type holdingDocument struct {
	Container string           `json:"container"`
	NUMAs     []idset.NUMA     `json:"numas"`
	CPUs      string           `json:"cpus"`
	Memory    []blockDocument  `json:"memory"`
	Devices   []deviceDocument `json:"devices"`
}

type blockDocument struct {
	Kind  string       `json:"kind"`
	Bytes int64        `json:"bytes"`
	NUMAs []idset.NUMA `json:"numas"`
}

type deviceDocument struct {
	Resource string       `json:"resource"`
	IDs      []string     `json:"ids"`
	NUMAs    []idset.NUMA `json:"numas"`
	AnyOf    bool         `json:"anyOf"` // the kubelet may as well take other, equal devices
}

type verdictDocument struct {
	Node     string            `json:"node"`
	Quality  string            `json:"quality"` // exact or coarse
	Fits     bool              `json:"fits"`
	Error    string            `json:"error,omitempty"` // the kubelet's reason for refusing
	NUMAs    []idset.NUMA      `json:"numas"`
	Holdings []holdingDocument `json:"holdings"`
	Reasons  []reasonDocument  `json:"reasons"`
	Inexact  []inexactDocument `json:"inexact,omitempty"` // why the kubelet may do something else
}

type reasonDocument struct {
	Code      string `json:"code"`
	Container string `json:"container,omitempty"` // absent: the pod as a whole
	Resource  string `json:"resource,omitempty"`
	Want      int64  `json:"want"`
	Have      int64  `json:"have"`
	Width     int    `json:"width,omitempty"`
	With      string `json:"with,omitempty"` // the other resource, where two do not go together
	Text      string `json:"text"`
}

type problemDocument struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

func writeJSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// each converts a slice; the result is never nil, so that JSON has [] and not null.
func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}

func (e *explanation) document() explanationDocument {
	p := e.pod
	d := explanationDocument{
		Kind: "PodExplanation", Pod: podRef(p.ID), QoS: qosNames[p.Pod.QoS], Phase: p.Phase,
		Node: p.Node, Reason: p.Reason, Message: p.Message,
		Containers: each(p.Pod.Containers, want),
		Verdicts:   each(e.verdicts, verdictOn.document),
		NotJudged:  each(e.problems, problem),
	}
	if e.holds != nil {
		entry := entryOn(e.home.Machine, *e.holds)
		d.Holds = &entry
	}
	return d
}

func podRef(id ledger.PodID) podDocument { return podDocument{id.Namespace, id.Name, id.UID} }

func problem(p NodeProblem) problemDocument { return problemDocument(p) }

func want(c place.Container) wantDocument {
	return wantDocument{
		Name: c.Name, Kind: kindNames[c.Kind], MilliCPU: c.MilliCPU,
		Memory:  each(c.Memory, func(a place.Amount) amountDocument { return amountDocument{a.Kind, a.Bytes} }),
		Devices: each(c.Devices, func(n place.Count) countDocument { return countDocument{n.Resource, n.N} }),
	}
}

func ids(m *topo.Machine, on topo.Mask) []idset.NUMA {
	return append([]idset.NUMA{}, m.IDs(on)...)
}

func entryOn(m *topo.Machine, e ledger.Entry) entryDocument {
	source := [...]string{ledger.Predicted: "predicted", ledger.Observed: "observed", ledger.Counted: "counted"}[e.Source]
	return entryDocument{podRef(e.Pod), source, ids(m, place.Verdict{Holdings: e.Holdings}.NUMAs(m)),
		holdingsOn(m, e.Holdings)}
}

func holdingsOn(m *topo.Machine, hs []place.Holding) []holdingDocument {
	return each(hs, func(h place.Holding) holdingDocument {
		return holdingDocument{
			Container: h.Container, NUMAs: ids(m, h.NUMAs(m)), CPUs: h.CPUs.String(),
			Memory: each(h.Memory, func(b place.Block) blockDocument {
				return blockDocument{b.Kind, b.Bytes, ids(m, b.NUMAs)}
			}),
			Devices: each(h.Devices, func(d place.DeviceBlock) deviceDocument {
				return deviceDocument{d.Resource, append([]string{}, d.IDs...), ids(m, d.NUMAs), d.Free}
			}),
		}
	})
}

func (v verdictOn) document() verdictDocument {
	m := v.node.Machine
	return verdictDocument{Inexact: inexactOf(v.node),
		Node: v.node.Name, Quality: v.node.Quality.String(), Fits: v.verdict.Fits(), Error: string(v.verdict.Refusal),
		NUMAs: ids(m, v.verdict.NUMAs(m)), Holdings: holdingsOn(m, v.verdict.Holdings),
		Reasons: each(v.verdict.Reasons, reason),
	}
}

func reason(r place.Reason) reasonDocument {
	return reasonDocument{string(r.Code), r.Container, r.Resource, r.Want, r.Have, r.Width, r.With, r.Text()}
}
