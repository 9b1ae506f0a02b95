package cli

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

type mapDocument struct {
	Kind     string            `json:"kind"` // "MachineMap"
	Nodes    []nodeDocument    `json:"nodes"`
	NotDrawn []problemDocument `json:"notDrawn"`
}

type nodeDocument struct {
	Name    string   `json:"name"`
	Quality string   `json:"quality"` // exact or coarse
	From    string   `json:"from"`    // NodeLayout, NodeResourceTopology or file
	States  int      `json:"states"`  // in which the node may be; this is one of them
	Notes   []string `json:"notes"`   // what is odd about what the node reports
	// Inexact says why a prediction for the node may differ from what its kubelet does, RestartHazards what goes
	// wrong if the kubelet is restarted now.
	Inexact        []inexactDocument `json:"inexact"`
	RestartHazards []hazardDocument  `json:"restartHazards"`

	Policy       string          `json:"policy"`
	Scope        string          `json:"scope"`
	CPUsStatic   bool            `json:"cpusStatic"`
	MemoryStatic bool            `json:"memoryStatic"`
	ReservedCPUs string          `json:"reservedCPUs"`
	FreeCPUs     string          `json:"freeCPUs"`
	NUMAs        []numaDocument  `json:"numas"`
	Devices      []machineDevice `json:"devices"`
	Pods         []entryDocument `json:"pods"`
}

type numaDocument struct {
	ID        idset.NUMA       `json:"id"`
	Sockets   []idset.Socket   `json:"sockets"`
	CPUs      string           `json:"cpus"`
	CPUCount  int              `json:"cpuCount"`
	FreeCPUs  string           `json:"freeCPUs"`
	FreeCount int              `json:"freeCPUCount"`
	Memory    []memoryDocument `json:"memory"`
	Distances []int            `json:"distances"` // to every numa, in the order of numas
}

type memoryDocument struct {
	Kind     string `json:"kind"`
	Capacity int64  `json:"capacity"`
	Free     int64  `json:"free"` // for Guaranteed pods
}

type machineDevice struct {
	Resource string       `json:"resource"`
	ID       string       `json:"id"`
	NUMAs    []idset.NUMA `json:"numas"`
	Healthy  bool         `json:"healthy"`
	Free     bool         `json:"free"`
}

func mapDocumentOf(nodes []*ledger.Node, problems, notes []NodeProblem, file bool) mapDocument {
	d := mapDocument{Kind: "MachineMap", Nodes: each(nodes, nodeDocumentOf), NotDrawn: each(problems, problem)}
	for i := range d.Nodes {
		if file {
			d.Nodes[i].From = "file"
		}
		for _, n := range notes {
			if n.Node == d.Nodes[i].Name {
				d.Nodes[i].Notes = append(d.Nodes[i].Notes, n.Reason)
			}
		}
	}
	return d
}

func nodeDocumentOf(n *ledger.Node) nodeDocument {
	m := n.Machine
	d := nodeDocument{
		Name: n.Name, Quality: n.Quality.String(), From: "NodeLayout", States: 1 + len(n.Others), Notes: []string{},
		Inexact: inexactOf(n), RestartHazards: hazardsOf(n),
		Policy: n.Rules.Topology.Policy.String(), Scope: n.Rules.Topology.Scope.String(),
		CPUsStatic: n.Rules.CPU.Static, MemoryStatic: n.Rules.Memory.Static,
		ReservedCPUs: n.Rules.CPU.Reserved.String(), FreeCPUs: n.Usage.FreeCPUs().String(),
		NUMAs: []numaDocument{}, Devices: []machineDevice{},
		Pods: each(n.Entries, func(e ledger.Entry) entryDocument { return entryOn(m, e) }),
	}
	if n.Quality == ledger.Coarse {
		d.From = "NodeResourceTopology"
	}
	for i := range m.NUMAs() {
		d.NUMAs = append(d.NUMAs, numaDocumentOf(n.Usage, i))
	}
	for _, r := range m.Resources() {
		free := map[string]bool{}
		for _, dev := range n.Usage.FreeDevices(r.Name) {
			free[dev.ID] = true
		}
		for _, dev := range r.Devices {
			d.Devices = append(d.Devices, machineDevice{r.Name, dev.ID, ids(m, dev.NUMAs), !dev.Unhealthy, free[dev.ID]})
		}
	}
	return d
}

func numaDocumentOf(u *place.Usage, i int) numaDocument {
	n := u.Machine.NUMAs()[i]
	d := numaDocument{
		ID: n.ID, Sockets: []idset.Socket{}, CPUs: n.CPUs.String(), CPUCount: n.CPUs.Len(),
		FreeCPUs: n.CPUs.And(u.FreeCPUs()).String(), FreeCount: n.CPUs.AndLen(u.FreeCPUs()),
		Memory: []memoryDocument{}, Distances: append([]int{}, n.Distances...),
	}
	var sockets idset.Set[idset.Socket]
	for id := range n.CPUs.All() {
		if c, ok := u.Machine.CPU(id); ok {
			sockets = sockets.With(c.Socket)
		}
	}
	d.Sockets = append(d.Sockets, sockets.List()...)
	for _, k := range u.Machine.Kinds() {
		if all := n.Capacity(k); all > 0 {
			d.Memory = append(d.Memory, memoryDocument{k, all, u.FreeMemory(i, k)})
		}
	}
	return d
}
