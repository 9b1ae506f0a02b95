package document

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file renders holdings. It passes names that nodes and users chose through [printable.Text].

// NUMANodes names NUMA nodes: "NUMA node 0", "NUMA nodes 0-1", or "no NUMA node".
func NUMANodes(ids v1alpha1.IDList) string {
	switch {
	case ids == "":
		return "no NUMA node"
	case strings.ContainsAny(string(ids), "-,"):
		return "NUMA nodes " + string(ids)
	}
	return "NUMA node " + string(ids)
}

// Items returns what a container holds, for example "cpus 1-4,33-36", "24Gi memory on NUMA node 0" and "nvidia.com/gpu
// gpu-0". A "~" precedes device ids if the kubelet may also take others.
func (c Container) Items() (out []string) {
	if c.CPUs != "" {
		out = append(out, "cpus "+string(c.CPUs))
	}
	for _, b := range c.Memory {
		out = append(out, place.Quantity(b.Kind, b.Bytes)+" on "+NUMANodes(b.NUMAs))
	}
	for _, d := range c.Devices {
		about := " "
		if d.AnyOf {
			about = " ~"
		}
		out = append(out, printable.Text(d.Resource)+about+idList(d.IDs))
	}
	return out
}

// Text joins the items of a container in one line after its name, for example "main: cpus 0-3, 4Gi memory on NUMA node
// 0".
func (c Container) Text() string {
	return NameOf(c.Name) + ": " + strings.Join(c.Items(), ", ")
}

// NameOf names a container for people. The empty name stands for the pod as a whole, and gives "(pod)".
func NameOf(container string) string { return cmp.Or(printable.Text(container), "(pod)") }

// Text renders holdings in one line, container by container, for logs and events; "nothing" if there are none.
func Text(m *topo.Machine, hs []place.Holding) string {
	parts := Each(Containers(m, hs), Container.Text)
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// Items returns the sum of holdings, rendered like [Container.Items] renders one container.
func Items(m *topo.Machine, hs ...place.Holding) []string {
	return Containers(m, []place.Holding{merge(hs)})[0].Items()
}

// Counts returns the sum of holdings on a node with invented ids. It counts the CPUs and devices on each NUMA node,
// for example "12 cpus on NUMA node 0".
func Counts(m *topo.Machine, hs ...place.Holding) []string {
	sum := merge(hs)
	out := CPUCounts(m, sum.CPUs)
	for _, b := range sum.Memory {
		out = append(out, place.Quantity(b.Kind, b.Bytes)+" on "+NUMANodes(NUMAs(m, b.NUMAs)))
	}
	for _, d := range sum.Devices {
		count := map[topo.Mask]int{}
		r, _ := m.Resource(d.Resource)
		for _, dev := range r.Devices {
			if slices.Contains(d.IDs, dev.ID) {
				count[dev.NUMAs]++
			}
		}
		for _, on := range slices.Sorted(maps.Keys(count)) {
			out = append(out, fmt.Sprintf("%d %s on %s", count[on], printable.Text(d.Resource), NUMANodes(NUMAs(m, on))))
		}
	}
	return out
}

// CPUCounts returns, as texts, how many of the given CPUs are on each NUMA node; a NUMA node without any is left out.
func CPUCounts(m *topo.Machine, cpus idset.Set[idset.CPU]) (out []string) {
	for i, n := range m.NUMAs() {
		switch count := n.CPUs.AndLen(cpus); count {
		case 0:
		case 1:
			out = append(out, "1 cpu on "+NUMANodes(NUMAs(m, 1<<uint(i))))
		default:
			out = append(out, fmt.Sprintf("%d cpus on %s", count, NUMANodes(NUMAs(m, 1<<uint(i)))))
		}
	}
	return out
}

// Amounts returns the amounts of holdings and their NUMA nodes, for example "8 cpu, 4Gi memory on NUMA node 0"; "" for
// nothing. A device that several containers hold counts once.
func Amounts(m *topo.Machine, hs []place.Holding) string {
	sum := merge(hs)
	total := map[string]int64{}
	for _, b := range sum.Memory {
		total[b.Kind] += b.Bytes
	}
	for _, d := range sum.Devices {
		total[d.Resource] += int64(len(d.IDs))
	}
	var parts []string
	if !sum.CPUs.Empty() {
		parts = append(parts, place.Quantity("cpu", int64(sum.CPUs.Len())))
	}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		parts = append(parts, place.Quantity(name, total[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + " on " + NUMANodes(Spread(m, hs))
}

// merge adds up holdings: CPUs, memory by kind and NUMA nodes, and devices by resource, each id once.
func merge(hs []place.Holding) (sum place.Holding) {
	for _, h := range hs {
		sum.CPUs = sum.CPUs.Union(h.CPUs)
		for _, b := range h.Memory {
			i := slices.IndexFunc(sum.Memory, func(x place.Block) bool { return x.Kind == b.Kind && x.NUMAs == b.NUMAs })
			if i < 0 {
				sum.Memory = append(sum.Memory, b)
				continue
			}
			sum.Memory[i].Bytes += b.Bytes
		}
		for _, d := range h.Devices {
			i := slices.IndexFunc(sum.Devices, func(x place.DeviceBlock) bool { return x.Resource == d.Resource })
			if i < 0 {
				i, sum.Devices = len(sum.Devices), append(sum.Devices, place.DeviceBlock{Resource: d.Resource})
			}
			all := &sum.Devices[i]
			all.IDs, all.NUMAs, all.Free = append(all.IDs, d.IDs...), all.NUMAs|d.NUMAs, all.Free || d.Free
		}
	}
	for i := range sum.Devices {
		slices.Sort(sum.Devices[i].IDs)
		sum.Devices[i].IDs = slices.Compact(sum.Devices[i].IDs)
	}
	return sum
}

// idList joins ids by commas. It replaces the end of a long list by the number of ids that are left out.
func idList(ids []string) string {
	const room = 60
	out := ""
	for i, id := range ids {
		if i > 0 && len(out)+len(id) > room {
			return fmt.Sprintf("%s,+%d more", out, len(ids)-i)
		}
		if i > 0 {
			out += ","
		}
		out += printable.Text(id)
	}
	return out
}

// RuleItems renders the rules of a node as short texts, for example "restricted per pod", "CPUs static" and
// "full-pcpus-only". It lists the arbiter if that is not the kubelet, then the policies, and then the options that
// are on, by the kubelet's names. Of a coarse node only the rules of the topology manager are known; one item marks
// the others as assumed.
func RuleItems(r place.Rules, q state.Quality) []string {
	align := fmt.Sprintf("%s per %s", r.Topology.Policy, r.Topology.Scope)
	if r.Topology.Policy == place.None {
		align = "no alignment"
	}
	managers := []string{"CPUs " + staticText(r.CPU.Static), "memory " + staticText(r.Memory.Static)}
	if q == state.Estimated {
		managers = []string{"assumed: " + strings.Join(managers, ", ") + ", options at their defaults"}
	}
	out := slices.Concat([]string{align}, managers)
	if r.Arbiter == place.ByAgent {
		out = slices.Insert(out, 0, "the agent decides")
	}
	for _, o := range []struct {
		on   bool
		name string
	}{
		{r.CPU.FullPCPUsOnly, "full-pcpus-only"},
		{r.CPU.DistributeAcrossNUMA, "distribute-cpus-across-numa"},
		{r.CPU.AlignBySocket, "align-by-socket"},
		{r.CPU.DistributeAcrossCores, "distribute-cpus-across-cores"},
		{r.CPU.StrictReservation, "strict-cpu-reservation"},
		{r.CPU.PreferAlignByUncoreCaches, "prefer-align-cpus-by-uncorecache"},
		{r.Topology.PreferClosest, "prefer-closest-numa-nodes"},
		{r.Topology.MaxNUMAs > 0, fmt.Sprintf("max-allowable-numa-nodes=%d", r.Topology.MaxNUMAs)},
	} {
		if o.on {
			out = append(out, o.name)
		}
	}
	return out
}

func staticText(static bool) string {
	if static {
		return "static"
	}
	return "not pinned"
}

// Shape returns the requests of a pod's containers in the form of "top --shape", for example
// "cpu=4,memory=8Gi,example.com/gpu=1"; several containers are joined by "+".
func Shape(p *place.Pod) string {
	var all []string
	for _, c := range p.Containers {
		var out []string
		if c.MilliCPU%1000 != 0 {
			out = append(out, fmt.Sprintf("cpu=%dm", c.MilliCPU))
		} else if c.MilliCPU > 0 {
			out = append(out, fmt.Sprintf("cpu=%d", c.MilliCPU/1000))
		}
		for _, a := range c.Memory {
			out = append(out, a.Kind+"="+topo.FormatBytes(a.Bytes))
		}
		for _, d := range c.Devices {
			out = append(out, fmt.Sprintf("%s=%d", d.Resource, d.N))
		}
		all = append(all, strings.Join(out, ","))
	}
	return strings.Join(all, "+")
}

// Demand renders the requests of a container in one line, for example "4 cpu, 8Gi memory, 1 acme.com/gpu".
func Demand(c place.Container) string {
	var out []string
	if c.MilliCPU > 0 {
		cores := fmt.Sprintf("%d.%03d", c.MilliCPU/1000, c.MilliCPU%1000)
		out = append(out, strings.TrimSuffix(strings.TrimRight(cores, "0"), ".")+" cpu")
	}
	for _, a := range c.Memory {
		out = append(out, topo.FormatBytes(a.Bytes)+" "+a.Kind)
	}
	for _, d := range c.Devices {
		out = append(out, fmt.Sprintf("%d %s", d.N, d.Resource))
	}
	text := strings.Join(out, ", ")
	if c.Kind != place.App {
		text = KindName(c.Kind) + ": " + text
	}
	return text
}
