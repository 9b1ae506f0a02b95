package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Text writes the scenario, without outcomes.
func (s *Scenario) Text() string {
	var b strings.Builder
	for _, c := range s.Comment {
		b.WriteString(strings.TrimSpace("# "+c) + "\n")
	}
	for _, l := range machineLines(s.Machine) {
		b.WriteString(l + "\n")
	}
	b.WriteString(s.rulesLine() + "\n\n")
	for _, st := range s.Steps {
		b.WriteString(st.line() + "\n")
	}
	return b.String()
}

// Played writes the scenario with the outcomes of its steps, as [File.Play] does. A file with this text passes as a
// test.
func (s *Scenario) Played() (string, error) {
	f, err := Parse("scenario", s.Text())
	if err != nil {
		return "", fmt.Errorf("read what was written: %w", err)
	}
	return f.Play(), nil
}

// machineLines writes a machine: NUMA nodes with their CPUs if the short form can express them, else a line per core.
func machineLines(m *topo.Machine) (out []string) {
	var distances, cores []string
	for i, n := range m.NUMAs() {
		l := fmt.Sprintf("numa %d", n.ID)
		if short, ok := shortCores(m, i); ok {
			l += short
		} else {
			cores = append(cores, coreLines(m, i)...)
		}
		if n.Bytes > 0 {
			l += " memory " + topo.FormatBytes(n.Bytes)
		}
		for _, h := range n.Hugepages {
			l += fmt.Sprintf(" %s %d", h.Kind(), h.Count)
		}
		out = append(out, l)
		if len(n.Distances) > 0 {
			distances = append(distances, "distances "+strings.Trim(fmt.Sprint(n.Distances), "[]"))
		}
	}
	out = append(out, cores...)
	if len(distances) == len(m.NUMAs()) {
		out = append(out, distances...)
	}
	for _, r := range m.Resources() {
		out = append(out, deviceLines(m, r)...)
	}
	return out
}

// coresOf returns the cores of the NUMA node at a position, ascending.
func coresOf(m *topo.Machine, numa int) (out []topo.CPU) {
	for _, id := range m.Cores() {
		if c, _ := m.CPU(idset.CPU(id)); c.NUMA == numa {
			out = append(out, c)
		}
	}
	return out
}

// shortCores writes the CPUs of a NUMA node as lists of threads; ok is false if such lists cannot express them.
func shortCores(m *topo.Machine, numa int) (text string, ok bool) {
	cores := coresOf(m, numa)
	if len(cores) == 0 {
		return "", true
	}
	threads := m.CoreCPUs(cores[0].Core).Len()
	lanes := make([][]idset.CPU, threads)
	for _, c := range cores {
		ids := m.CoreCPUs(c.Core).List()
		if len(ids) != threads || c.Socket != cores[0].Socket {
			return "", false
		}
		for t, id := range ids {
			lanes[t] = append(lanes[t], id)
		}
	}
	groups, ok := l3Groups(m, cores)
	if !ok {
		return "", false
	}
	var lists []string
	for _, lane := range lanes {
		if !slices.IsSorted(lane) {
			return "", false
		}
		lists = append(lists, idset.Of(lane...).String())
	}
	text = fmt.Sprintf(" socket %d cpus %s", cores[0].Socket, strings.Join(lists, "/"))
	if groups > 1 {
		text += fmt.Sprintf(" l3 %d", groups)
	}
	return text, true
}

// l3Groups returns the number of L3 groups of a NUMA node's cores. ok is false unless the groups belong to this NUMA
// node alone, have equal sizes, follow the order of the cores, and have their lowest CPUs as ids.
func l3Groups(m *topo.Machine, cores []topo.CPU) (n int, ok bool) {
	foreign := 0 // CPUs of other NUMA nodes in the groups: at the end, all their CPUs less the CPUs of this NUMA node
	for i, c := range cores {
		if i == 0 || c.L3 != cores[i-1].L3 {
			n++
		}
	}
	if len(cores)%n != 0 {
		return 0, false
	}
	own := map[idset.L3]bool{}
	for i, c := range cores {
		if c.L3 != cores[i/(len(cores)/n)*(len(cores)/n)].L3 {
			return 0, false
		}
		if low := m.GroupOf(topo.L3s, idset.CPU(c.Core)).CPUs.Min(); int(low) != int(c.L3) {
			return 0, false
		}
		own[c.L3] = true
		foreign -= m.CoreCPUs(c.Core).Len()
	}
	for id := range m.CPUs().All() {
		if c, _ := m.CPU(id); own[c.L3] {
			foreign++
		}
	}
	return n, foreign == 0 && len(own) == n
}

func coreLines(m *topo.Machine, numa int) (out []string) {
	for _, c := range coresOf(m, numa) {
		out = append(out, fmt.Sprintf("core %s numa %d socket %d l3 %d",
			m.CoreCPUs(c.Core), m.NUMAs()[numa].ID, c.Socket, c.L3))
	}
	return out
}

// deviceLines writes the devices of a resource. Devices that differ only in their ids are on one line.
func deviceLines(m *topo.Machine, r topo.Resource) (out []string) {
	var order []string
	ids := map[string][]string{}
	for _, d := range r.Devices {
		rest := " numa " + numaIDs(m, d.NUMAs)
		if d.List != topo.UsualList {
			rest += " list " + d.List.String()
		}
		if d.Unhealthy {
			rest += " unhealthy"
		}
		if ids[rest] == nil {
			order = append(order, rest)
		}
		ids[rest] = append(ids[rest], d.ID)
	}
	for _, rest := range order {
		out = append(out, "device "+r.Name+" "+strings.Join(ids[rest], ",")+rest)
	}
	return out
}

func (s *Scenario) rulesLine() string {
	r := s.Rules
	w := []string{"rules"}
	if r.Release != 0 {
		w = append(w, "release="+r.Release.String())
	}
	if r.PodLevelManagers {
		w = append(w, "pod-level-managers")
	}
	w = append(w, "topology="+r.Topology.Policy.String(), "scope="+r.Topology.Scope.String())
	if r.Topology.PreferClosest {
		w = append(w, "prefer-closest")
	}
	if r.Topology.MaxNUMAs > 0 {
		w = append(w, fmt.Sprintf("max-numas=%d", r.Topology.MaxNUMAs))
	}
	if r.CPU.Static {
		w = append(w, "cpu=static")
	}
	if s.ReserveCPUs > 0 {
		w = append(w, fmt.Sprintf("reserve-cpus=%d", s.ReserveCPUs))
	} else if !r.CPU.Reserved.Empty() {
		w = append(w, "reserved="+r.CPU.Reserved.String())
	}
	var on []string
	for _, o := range options() {
		if *o.at(&r.CPU) {
			on = append(on, o.name)
		}
	}
	if len(on) > 0 {
		w = append(w, "options="+strings.Join(on, ","))
	}
	if r.Memory.Static {
		w = append(w, "memory=Static")
	}
	var reserve []string
	for _, x := range r.Memory.Reserved {
		reserve = append(reserve, fmt.Sprintf("%d:%s:%s", x.NUMA, x.Kind, topo.FormatBytes(x.Bytes)))
	}
	if len(reserve) > 0 {
		w = append(w, "reserve="+strings.Join(reserve, ","))
	}
	return strings.Join(w, " ")
}

func (s Step) line() string {
	switch s.Do {
	case Admit:
		return s.admitLine()
	case Start, Remove, End:
		return s.Do.String() + " " + s.Name
	case Unhealthy, Healthy:
		return s.Do.String() + " " + s.Resource + " " + strings.Join(s.Devices, ",")
	default:
		return s.Do.String()
	}
}

func (s Step) admitLine() string {
	w := []string{"admit", s.Name}
	switch s.Pod.QoS {
	case place.Burstable:
		w = append(w, "burstable")
	case place.BestEffortQoS:
		w = append(w, "best-effort")
	}
	if s.Pod.PodLevel {
		word := "pod-level"
		whole := strings.Join(amounts(s.Pod.Whole.MilliCPU, s.Pod.Whole.Memory), ",")
		if whole = strings.ReplaceAll(whole, "=", ":"); whole != defaultWhole && whole != "" {
			word += "=" + whole
		}
		w = append(w, word)
	}
	if s.Demand.Policy != place.None {
		w = append(w, "policy="+s.Demand.Policy.String())
	}
	if s.Demand.Scope != place.PerContainer {
		w = append(w, "scope="+s.Demand.Scope.String())
	}
	if s.Demand.Align != "" {
		w = append(w, "align="+string(s.Demand.Align))
	}
	if s.Demand.Ignore != "" {
		w = append(w, "ignore="+string(s.Demand.Ignore))
	}
	var cs []string
	for _, c := range s.Pod.Containers {
		// The word "unequal" is written only where Parse does not conclude it from the requests.
		c.Unequal = c.Unequal && s.Pod.PodLevel && !mustBeUnequal(s.Pod.QoS, &c)
		cs = append(cs, containerText(c))
	}
	return strings.Join(w, " ") + " : " + strings.Join(cs, " / ")
}

func containerText(c place.Container) string {
	w := []string{c.Name}
	switch c.Kind {
	case place.Init:
		w = []string{"init", c.Name}
	case place.Sidecar:
		w = []string{"sidecar", c.Name}
	}
	if c.Unequal {
		w = append(w, "unequal")
	}
	w = append(w, amounts(c.MilliCPU, c.Memory)...)
	for _, d := range c.Devices {
		w = append(w, fmt.Sprintf("%s=%d", d.Resource, d.N))
	}
	return strings.Join(w, " ")
}

func amounts(milliCPU int64, memory []place.Amount) (w []string) {
	switch {
	case milliCPU%1000 != 0:
		w = append(w, fmt.Sprintf("cpu=%dm", milliCPU))
	case milliCPU > 0:
		w = append(w, fmt.Sprintf("cpu=%d", milliCPU/1000))
	}
	for _, a := range memory {
		if a.Fractional { // the value of the fraction does not matter
			w = append(w, fmt.Sprintf("%s=%d500m", a.Kind, a.Bytes-1))
			continue
		}
		w = append(w, a.Kind+"="+topo.FormatBytes(a.Bytes))
	}
	return w
}
