package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file is the JSON of simulate; document.go has the rules for it. docs/reference/kubectl-tenon.md shows it.

type simulationDocument struct {
	Kind     string `json:"kind"` // "Simulation"
	Strategy string `json:"strategy"`
	Fits     bool   `json:"fits"` // all pods have a place
	// Without are the nodes that the simulation takes away.
	Without []leavingDocument `json:"without"`
	// Altered are the nodes with a changed configuration, and Added counts the nodes that joined.
	Altered []leavingDocument `json:"altered,omitempty"`
	Added   int               `json:"added,omitempty"`
	// Needs is the number of nodes of a machine that the pods need. It is present if the user asked for it, or if
	// pods have no place.
	Needs   *need `json:"needs,omitempty"`
	Waiting int   `json:"waiting"` // pods without a node; the simulation keeps no room for them
	// Rounds has one round, in which all workloads are placed together. With --count max it has one round for each
	// workload.
	Rounds []roundDocument `json:"rounds"`
	// Groups are the PodGroups of the files, and the other groups that pods of the files name.
	Groups   []gangDocument     `json:"groups,omitempty"`
	NotKnown []document.Problem `json:"notKnown"` // nodes whose NUMA nodes are not known
	// NotJudged are objects of files whose pods are not judged, and why.
	NotJudged []string `json:"notJudged,omitempty"`
	Coarse    []string `json:"coarse"` // nodes that report only amounts, by NUMA node
	// Partial is as in PodExplanation. Only pods that you may read count as waiting, and move.
	Partial string `json:"partial,omitempty"`
}

type leavingDocument struct {
	Node  string `json:"node"`
	Moved int    `json:"moved"` // pods to be placed anew
	Stay  int    `json:"stay"`  // pods that end with the node
}

type roundDocument struct {
	Workloads []workloadDocument `json:"workloads"`
	Nodes     []changeDocument   `json:"nodes"` // the nodes that changed
}

type workloadDocument struct {
	Kind       string              `json:"kind"`
	Namespace  string              `json:"namespace"`
	Name       string              `json:"name"`
	Group      string              `json:"group,omitempty"` // the PodGroup that its pods name
	From       string              `json:"from,omitempty"`  // the node that its pod loses
	QoS        string              `json:"qos"`
	Containers []document.Request  `json:"containers"`
	Unjudged   []string            `json:"unjudged"`
	Wanted     *int                `json:"wanted,omitempty"` // absent: as many as fit
	Placed     int                 `json:"placed"`
	NoPlace    int                 `json:"noPlace"`
	Bounded    bool                `json:"bounded"` // stopped at the bound: more may fit
	Placements []placementDocument `json:"placements"`
	Refusals   []refusalDocument   `json:"refusals"` // of the first pod without a place
}

type placementDocument struct {
	Pod        string               `json:"pod"`
	Node       string               `json:"node"`
	Known      bool                 `json:"known"` // whether the node's NUMA nodes are known
	NUMAs      v1alpha1.IDList      `json:"numas"`
	Containers []document.Container `json:"containers"`
}

type refusalDocument struct {
	Nodes   []string          `json:"nodes"`
	Bar     string            `json:"bar,omitempty"`   // the reason why the pod may not go there at all
	Error   string            `json:"error,omitempty"` // the kubelet's reason for refusing
	Reasons []document.Reason `json:"reasons"`         // have is the most that any of the nodes has
}

type changeDocument struct {
	Name  string          `json:"name"`
	Left  []leftDocument  `json:"left"` // what the scheduler may still give out, regardless of NUMA nodes
	NUMAs []wasIsDocument `json:"numas"`
}

type leftDocument struct {
	Resource    string `json:"resource"` // "cpu" is in thousandths
	Allocatable int64  `json:"allocatable"`
	Before      int64  `json:"before"`
	After       int64  `json:"after"`
}

type wasIsDocument struct {
	ID     idset.NUMA   `json:"id"`
	Before freeDocument `json:"before"`
	After  freeDocument `json:"after"`
}

type freeDocument struct {
	CPUs    string            `json:"cpus"`
	Memory  []document.Amount `json:"memory"`
	Devices []document.Count  `json:"devices"`
}

func (s *simulation) document() simulationDocument {
	return simulationDocument{
		Kind: "Simulation", Strategy: s.rules.Strategy.Type.String(),
		Fits: s.unplaced() == 0 && len(s.notJudged) == 0, Waiting: s.stage.Waiting(),
		Without: document.Each(s.without, leaving.document), Altered: document.Each(s.altered, leaving.document),
		Added: s.added, Needs: s.needed,
		Rounds: document.Each(s.rounds, func(r round) roundDocument {
			return roundDocument{
				Workloads: document.Each(r.tasks, func(t *task) workloadDocument { return t.document(r.plan) }),
				Nodes: document.Each(r.plan.Changed(), func(i int) changeDocument {
					return changed(r.plan.Before()[i],
						r.plan.Nodes()[i])
				}),
			}
		}),
		NotKnown: append([]document.Problem{}, s.problems...), Coarse: append([]string{}, coarse(s.stage.Nodes())...),
		NotJudged: s.notJudged, Partial: s.partial, Groups: s.groupDocuments(),
	}
}

func (l leaving) document() leavingDocument { return leavingDocument{l.node, l.moved, l.ended} }

func (t *task) document(p *whatif.Plan) workloadDocument {
	w := t.workload
	d := workloadDocument{
		Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Group: w.Group, From: t.from,
		QoS:        document.QoSName(w.Want.Pod.QoS),
		Containers: document.Each(w.Want.Pod.Containers, document.RequestOf), Unjudged: append([]string{}, w.Unjudged...),
		Placed: t.placed(), NoPlace: t.unplaced(), Bounded: t.countMax && t.placed() == t.wanted,
		Placements: document.Each(t.outcome.Placed, func(x whatif.Placement) placementDocument {
			return placementOn(p.Nodes()[x.Node], x)
		}),
		Refusals: document.Each(t.outcome.Refusals, func(r whatif.Refusal) refusalDocument {
			return refusalDocument{r.Nodes, bar(r), string(r.Error), document.Each(r.Reasons, document.ReasonOf)}
		}),
	}
	if !t.countMax {
		d.Wanted = &t.wanted
	}
	return d
}

// bar returns the reasons that last until something is changed, such as a taint; "" if there are none.
func bar(r whatif.Refusal) string {
	var out []string
	for _, x := range r.Reasons {
		if x.When() == place.Changed {
			out = append(out, x.Text())
		}
	}
	return strings.Join(out, "; ")
}

func placementOn(n whatif.Node, x whatif.Placement) placementDocument {
	d := placementDocument{Pod: x.Pod.String(), Node: n.Name, Known: n.State != nil, Containers: []document.Container{}}
	if n.State != nil {
		m := n.State.Machine
		d.NUMAs, d.Containers = document.Spread(m, x.Holdings), document.Containers(m, x.Holdings)
	}
	return d
}

// changed returns what a node had and has left for pods, as a whole and on each NUMA node.
func changed(before, after whatif.Node) changeDocument {
	d := changeDocument{Name: after.Name, Left: []leftDocument{}, NUMAs: []wasIsDocument{}}
	for _, r := range slices.Sorted(maps.Keys(after.Allocatable)) {
		if after.Allocatable[r] >= whatif.MaxAmount {
			continue // its amount is unknown
		}
		d.Left = append(d.Left, leftDocument{r, after.Allocatable[r], before.Left(r), after.Left(r)})
	}
	if after.State == nil {
		return d
	}
	for i, n := range after.State.Machine.NUMAs() {
		d.NUMAs = append(d.NUMAs, wasIsDocument{n.ID, freeOn(before.State.Usage, i), freeOn(after.State.Usage, i)})
	}
	return d
}

// freeOn returns what is free on the NUMA node at position i. A device that several NUMA nodes share counts on each.
func freeOn(u *place.Usage, i int) freeDocument {
	n := u.Machine.NUMAs()[i]
	d := freeDocument{CPUs: n.CPUs.And(u.FreeCPUs()).String(), Memory: []document.Amount{}, Devices: []document.Count{}}
	for _, k := range u.Kinds() {
		if n.Capacity(k) > 0 {
			d.Memory = append(d.Memory, document.Amount{Kind: k, Bytes: u.FreeMemory(i, k)})
		}
	}
	for at, r := range u.Machine.Resources() {
		if slices.ContainsFunc(r.Devices, func(x topo.Device) bool { return x.NUMAs.Has(i) }) {
			d.Devices = append(d.Devices, document.Count{Resource: r.Name, Count: u.FreeDevicesOn(at, 1<<uint(i))})
		}
	}
	return d
}
