package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// memoryShare sets the tolerance in comparing memory: the amounts may differ by one memoryShare-th of the Node's
// memory, because what the kernel keeps for itself differs from boot to boot.
const memoryShare = 16

// start is the machine with which a kubelet started, as far as an agent has read it.
type start struct {
	machine *topo.Machine // without devices; nil if no agent has read it
	at      time.Time     // when the kubelet started; zero if unknown
}

// publishedStart returns the machine, without devices, and the kubelet's start from a layout that an earlier agent
// published. It returns the zero start if the layout is invalid, or does not record when the kubelet started.
func publishedStart(l *v1alpha1.NodeLayout) (s start) {
	if l.Kubelet.Started.IsZero() {
		return s
	}
	published, err := l.Core()
	if err != nil {
		return s
	}
	spec := published.Machine.Spec()
	spec.Devices = nil
	m, err := topo.New(spec)
	if err != nil {
		return s
	}
	return start{m, l.Kubelet.Started.Time}
}

// factsAtStart compares the present machine with the machine with which the kubelet started, because the kubelet
// decides by the latter until it restarts. It returns how the present machine differs; "" if it does not differ, or
// if the kubelet is not the arbiter.
//
// If it differs, the returned facts have the machine of the kubelet's start, provided that an earlier reconcile or
// agent read that machine during the same run of the kubelet, and that it agrees with what the kubelet reports.
// Otherwise the returned facts have the present machine. A present machine that does not differ is recorded in s as the
// machine of the start.
func (s *State) factsAtStart(o Observation) (Facts, string) {
	f := o.Facts
	if f.Rules.Arbiter != place.ByKubelet {
		return f, ""
	}
	at := kubeletStarted(o.Kubelet)
	why := capacityDifference(f.Machine, o)
	kept := s.start.machine
	if kept != nil && (!s.start.at.Equal(at) || capacityDifference(kept, o) != "") {
		kept = nil
	}
	if kept != nil && why == "" && !at.IsZero() {
		why = startDifference(f.Machine, kept)
	}
	if why == "" {
		s.start = start{f.Machine, at}
		return f, ""
	}
	if kept == nil {
		return f, why
	}
	rules, err := rulesOn(kept, f.Configuration, f.Rules.Release)
	if err != nil {
		return f, why
	}
	f.Machine, f.Rules = kept, rules
	return f, why
}

// kubeletStarted returns when the kubelet started, with the precision of a layout.
func kubeletStarted(o kubelet.Observation) time.Time { return o.Started.Truncate(time.Microsecond) }

// capacityDifference returns how a machine differs from what its kubelet reports; "" if it does not. The kubelet
// reads the machine once, when it starts (pkg/kubelet, GetCachedMachineInfo). It writes the amounts of that machine
// to Node.status.capacity, and its CPUs to the CPU manager's state file.
func capacityDifference(m *topo.Machine, o Observation) string {
	n, s := o.Node, o.Kubelet.CPU
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	gone := o.Facts.Configuration.Rules.CPU.Reserved.Minus(m.CPUs())
	if !gone.Empty() {
		add("CPUs %s are offline, and the kubelet reserves them", gone)
	}
	if s != nil && s.Policy == "static" {
		if gone := s.CPUs().Minus(m.CPUs()).Minus(gone); !gone.Empty() {
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
	return joinDifferences(out)
}

// startDifference returns how the machine m differs from before, the machine with which its kubelet started. It finds
// what equal total amounts hide: other CPUs, a NUMA node that is gone, or hugepages on other NUMA nodes. It returns
// "" if m does not differ.
func startDifference(m, before *topo.Machine) string {
	var out []string
	if gone := before.CPUs().Minus(m.CPUs()); !gone.Empty() {
		out = append(out, fmt.Sprintf("CPUs %s went offline", gone))
	}
	if added := m.CPUs().Minus(before.CPUs()); !added.Empty() {
		out = append(out, fmt.Sprintf("CPUs %s came", added))
	}
	for _, old := range before.NUMAs() {
		i, ok := m.Position(old.ID)
		if !ok {
			out = append(out, fmt.Sprintf("NUMA node %d is gone", old.ID))
			continue
		}
		for _, h := range old.Hugepages {
			kind := h.Kind()
			if now, then := m.NUMAs()[i].Capacity(kind), old.Capacity(kind); now != then {
				out = append(out, fmt.Sprintf("NUMA node %d has %s of %s, the kubelet %s", old.ID,
					topo.FormatBytes(now), kind, topo.FormatBytes(then)))
			}
		}
	}
	return joinDifferences(out)
}

// joinDifferences makes one text of the differences; "" if there are none.
func joinDifferences(in []string) string {
	if len(in) == 0 {
		return ""
	}
	return "the kubelet started with another machine: " + strings.Join(in, "; ")
}
