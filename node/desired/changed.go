package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// memoryShare is the part of a machine's memory by which a Node may differ from it: what the kernel keeps for itself
// differs from boot to boot.
const memoryShare = 16

// atStart returns the facts with the machine of the kubelet's start, and how the present machine differs from it, or
// "". If the agent has not read that machine, because it started later, it returns the facts as they are.
func (s *State) atStart(f Facts, n Node, cpus *kubelet.CPUState) (Facts, string) {
	if f.Rules.Arbiter != place.ByKubelet {
		return f, ""
	}
	why := changed(f.Machine, n, cpus)
	if why == "" {
		s.start = f
		return f, ""
	}
	start := s.start.Machine
	if start == nil || changed(start, n, cpus) != "" {
		return f, why
	}
	rules, err := f.Configuration.On(start, f.Rules.Release)
	if err != nil {
		return f, why
	}
	f.Machine, f.Detail, f.Rules = start, s.start.Detail, rules
	return f, why
}

// changed returns how a machine differs from the one with which its kubelet started, or "". The kubelet reads the
// machine once, when it starts (pkg/kubelet, GetCachedMachineInfo); it writes that one's amounts to
// Node.status.capacity, and its CPUs to the CPU manager's state file.
func changed(m *topo.Machine, n Node, s *kubelet.CPUState) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s != nil && s.Policy == "static" {
		if gone := s.CPUs().Minus(m.CPUs()); !gone.Empty() {
			add("CPUs %s are offline, and the kubelet gives them out", gone)
		}
	}
	if cpus := int64(m.CPUs().Len()); n.CPUs != 0 && cpus != n.CPUs {
		add("the machine has %d CPUs, the kubelet %d", cpus, n.CPUs)
	}
	var memory int64
	pages := map[string]int64{}
	for _, numa := range m.NUMAs() {
		memory += numa.Bytes
		for _, h := range numa.Hugepages {
			pages[h.Kind()] += h.PageSize * h.Count
		}
	}
	if n.Memory != 0 && max(memory, n.Memory)-min(memory, n.Memory) > n.Memory/memoryShare {
		add("the machine has %s memory, the kubelet %s", topo.FormatBytes(memory), topo.FormatBytes(n.Memory))
	}
	for _, kind := range slices.Sorted(maps.Keys(n.Hugepages)) {
		if bytes := n.Hugepages[kind]; pages[kind] != bytes {
			add("the machine has %s of %s, the kubelet %s", topo.FormatBytes(pages[kind]), kind, topo.FormatBytes(bytes))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "the kubelet started with another machine: " + strings.Join(out, "; ")
}
