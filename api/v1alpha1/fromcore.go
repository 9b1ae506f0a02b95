package v1alpha1

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file converts core values to a layout. It is the inverse of core.go.

// FromCore converts core values to the NodeLayout of a node. Equal values give equal objects. Entries keep their
// order, and must be observed, because a layout has no predictions. groups are by the position of the NUMA node.
// Reservations of one NUMA node and kind are added up, as package place does when it reads them.
func FromCore(name string, m *topo.Machine, r place.Rules, entries []state.Entry,
	groups map[int]place.MemoryGroup) *NodeLayout {
	l := &NodeLayout{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion().String(), Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Machine:    fromMachine(m),
		Rules:      fromRules(r),
		Summary:    SummaryOf(m, freeCPUs(m, r, entries), len(entries)),
	}
	l.Summary.Policy, l.Summary.Scope = l.Rules.TopologyManagerPolicy, l.Rules.TopologyManagerScope
	for _, e := range entries {
		p := PodHoldings{Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID}
		for _, h := range e.Holdings {
			p.Containers = append(p.Containers, fromHolding(m, h))
		}
		l.Holdings = append(l.Holdings, p)
	}
	for _, at := range slices.Sorted(maps.Keys(groups)) {
		if at < 0 || at >= len(m.NUMAs()) {
			continue
		}
		g := MemoryGroup{NUMA: int32(m.NUMAs()[at].ID), Group: numaList(m, groups[at].NUMAs)}
		for _, f := range groups[at].Free {
			g.Free = append(g.Free, FreeMemory{Kind: f.Kind, Bytes: f.Bytes})
		}
		l.MemoryGroups = append(l.MemoryGroups, g)
	}
	return l
}

// SummaryOf returns the summary of a node, without policy and scope. free are its free CPUs, and pods is the number
// of pods that hold something.
func SummaryOf(m *topo.Machine, free idset.Set[idset.CPU], pods int) Summary {
	out := Summary{NUMAs: int32(len(m.NUMAs())), CPUs: int32(m.CPUs().Len()), Pods: int32(pods),
		FreeCPUs: int32(free.Len())}
	for _, n := range m.NUMAs() {
		out.LargestFreeNUMA = max(out.LargestFreeNUMA, int32(n.CPUs.AndLen(free)))
	}
	return out
}

// freeCPUs returns the CPUs that are neither held nor reserved.
func freeCPUs(m *topo.Machine, r place.Rules, entries []state.Entry) idset.Set[idset.CPU] {
	free := m.CPUs().Minus(r.CPU.Reserved)
	for _, e := range entries {
		for _, h := range e.Holdings {
			free = free.Minus(h.CPUs)
		}
	}
	return free
}

func fromMachine(m *topo.Machine) (out Machine) {
	for _, n := range m.NUMAs() {
		w := NUMA{ID: int32(n.ID), Memory: n.Bytes, MemoryKind: string(n.MemoryKind)}
		for _, h := range n.Hugepages {
			w.Hugepages = append(w.Hugepages, Hugepages{Size: topo.FormatBytes(h.PageSize), Count: h.Count})
		}
		for _, d := range n.Distances {
			w.Distances = append(w.Distances, Distance(d))
		}
		out.NUMAs = append(out.NUMAs, w)
	}
	out.CPUs = fromCores(m)
	for _, r := range m.Resources() {
		out.Devices = append(out.Devices, fromResource(m, r))
	}
	return out
}

// lanes are the cores of one CPUGroup. A lane has one CPU of every core: the k-th CPU of each lane is a thread of the
// k-th core.
type lanes struct {
	numa, socket, l3 int32
	cpus             [][]idset.CPU
}

// accepts reports whether a core with these CPUs can be the next one of the group. It can only if the CPUs are above
// the last ones of their lanes. A list of ids is written in ascending order, so otherwise the k-th CPU of a lane
// would not stay the k-th.
func (l *lanes) accepts(numa, socket, l3 int32, threads []idset.CPU) bool {
	if l.numa != numa || l.socket != socket || l.l3 != l3 || len(l.cpus) != len(threads) {
		return false
	}
	for i, lane := range l.cpus {
		if lane[len(lane)-1] >= threads[i] {
			return false
		}
	}
	return true
}

// fromCores groups the cores of a machine by NUMA node, socket, L3 group and number of threads. A core that cannot
// follow in its group begins another one.
func fromCores(m *topo.Machine) []CPUGroup {
	var all []*lanes
	byPlace := map[[3]int32][]*lanes{}
	for _, core := range m.Cores() {
		c, _ := m.CPU(idset.CPU(core))
		threads := m.CoreCPUs(core).List()
		numa, socket, l3 := int32(m.NUMAs()[c.NUMA].ID), int32(c.Socket), int32(c.L3)
		key := [3]int32{numa, socket, l3}
		at := slices.IndexFunc(byPlace[key], func(l *lanes) bool { return l.accepts(numa, socket, l3, threads) })
		var l *lanes
		if at >= 0 {
			l = byPlace[key][at]
		} else {
			l = &lanes{numa: numa, socket: socket, l3: l3, cpus: make([][]idset.CPU, len(threads))}
			byPlace[key] = append(byPlace[key], l)
			all = append(all, l)
		}
		for i, id := range threads {
			l.cpus[i] = append(l.cpus[i], id)
		}
	}
	out := make([]CPUGroup, len(all))
	for i, l := range all {
		out[i] = CPUGroup{NUMA: l.numa, Socket: l.socket, L3: l.l3}
		for _, lane := range l.cpus {
			out[i].CPUs = append(out[i].CPUs, IDList(idset.Of(lane...).String()))
		}
	}
	return out
}

// fromResource groups the devices of a resource by all of their properties except the id.
func fromResource(m *topo.Machine, r topo.Resource) Resource {
	out := Resource{Resource: r.Name}
	type key struct {
		numas     topo.Mask
		list      topo.NUMAList
		unhealthy bool
		root      string
	}
	at := map[key]int{}
	for _, d := range r.Devices {
		k := key{d.NUMAs, d.List, d.Unhealthy, d.Root}
		i, ok := at[k]
		if !ok {
			i = len(out.Groups)
			at[k] = i
			out.Groups = append(out.Groups, DeviceGroup{NUMAs: numaList(m, d.NUMAs), NUMAList: d.List.String(),
				Unhealthy: d.Unhealthy, Root: d.Root})
		}
		out.Groups[i].IDs = append(out.Groups[i].IDs, d.ID)
	}
	return out
}

func fromRules(r place.Rules) Rules {
	out := Rules{
		TopologyManagerPolicy: r.Topology.Policy.String(),
		TopologyManagerScope:  r.Topology.Scope.String(),
		TopologyManagerPolicyOptions: TopologyOptions{
			PreferClosestNUMANodes: r.Topology.PreferClosest, MaxAllowableNUMANodes: int32(r.Topology.MaxNUMAs)},
		CPUManagerPolicy: "none",
		CPUManagerPolicyOptions: CPUOptions{
			FullPCPUsOnly:                r.CPU.FullPCPUsOnly,
			DistributeCPUsAcrossNUMA:     r.CPU.DistributeAcrossNUMA,
			AlignBySocket:                r.CPU.AlignBySocket,
			DistributeCPUsAcrossCores:    r.CPU.DistributeAcrossCores,
			StrictCPUReservation:         r.CPU.StrictReservation,
			PreferAlignCPUsByUncoreCache: r.CPU.PreferAlignByUncoreCaches,
		},
		ReservedCPUs:        IDList(r.CPU.Reserved.String()),
		MemoryManagerPolicy: "None",
	}
	if r.Arbiter != place.ByKubelet {
		out.Arbiter = r.Arbiter.String()
	}
	if r.CPU.Static {
		out.CPUManagerPolicy = "static"
	}
	if r.Memory.Static {
		out.MemoryManagerPolicy = "Static"
	}
	out.ReservedMemory = fromReserved(r.Memory.Reserved)
	return out
}

// fromReserved adds up the reservations of one NUMA node and kind, in ascending order of both, because a layout may
// have only one entry for them.
func fromReserved(in []place.Reserved) (out []ReservedMemory) {
	for _, x := range in {
		same := func(o ReservedMemory) bool { return o.NUMA == int32(x.NUMA) && o.Kind == x.Kind }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Bytes += x.Bytes
		} else {
			out = append(out, ReservedMemory{NUMA: int32(x.NUMA), Kind: x.Kind, Bytes: x.Bytes})
		}
	}
	slices.SortFunc(out, func(a, b ReservedMemory) int {
		return cmp.Or(cmp.Compare(a.NUMA, b.NUMA), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

func fromHolding(m *topo.Machine, h place.Holding) ContainerHolding {
	out := ContainerHolding{Name: h.Container, CPUs: IDList(h.CPUs.String())}
	if h.Kind != place.App {
		out.Kind = kindNames()[h.Kind]
	}
	for _, b := range h.Memory {
		out.Memory = append(out.Memory, MemoryBlock{Kind: b.Kind, NUMAs: numaList(m, b.NUMAs), Bytes: b.Bytes})
	}
	for _, d := range h.Devices {
		out.Devices = append(out.Devices, HeldDevices{Resource: d.Resource, IDs: slices.Clone(d.IDs)})
	}
	return out
}
