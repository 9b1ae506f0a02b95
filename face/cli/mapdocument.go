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
	Name         string          `json:"name"`
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
	FreeCPUs  string           `json:"freeCPUs"`
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

func mapDocumentOf(nodes []*ledger.Node, problems []NodeProblem) mapDocument {
	return mapDocument{Kind: "MachineMap", Nodes: each(nodes, nodeDocumentOf), NotDrawn: each(problems, problem)}
}

func nodeDocumentOf(n *ledger.Node) nodeDocument {
	m := n.Machine
	d := nodeDocument{
		Name: n.Name, Policy: n.Rules.Topology.Policy.String(), Scope: n.Rules.Topology.Scope.String(),
		CPUsStatic: n.Rules.CPU.Static, MemoryStatic: n.Rules.Memory.Static,
		ReservedCPUs: n.Rules.CPU.Reserved.String(), FreeCPUs: n.Usage.FreeCPUs().String(),
		NUMAs: []numaDocument{}, Devices: []machineDevice{},
		Pods: each(n.Entries, func(e ledger.Entry) entryDocument { return entryOn(m, e) }),
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
		ID: n.ID, Sockets: []idset.Socket{}, CPUs: n.CPUs.String(), FreeCPUs: n.CPUs.And(u.FreeCPUs()).String(),
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
