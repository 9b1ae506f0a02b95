package place

import "github.com/tenon-numa/tenon/core/topo"

// This file compares what a pod holds with what its node could have given it.

// Extent is the part of a machine that some holdings are spread over.
type Extent struct {
	NUMAs topo.Mask
	// Distance is the longest distance between two of the NUMA nodes, or of one NUMA node to itself. It is 0 if the
	// machine does not report distances.
	Distance int64
}

// ExtentOf returns the extent of holdings taken together.
func ExtentOf(m *topo.Machine, hs ...Holding) (e Extent) {
	for _, h := range hs {
		e.NUMAs |= h.NUMAs(m)
	}
	for _, i := range e.NUMAs.Positions() {
		row := m.NUMAs()[i].Distances
		for _, j := range e.NUMAs.Positions() {
			if j < len(row) {
				e.Distance = max(e.Distance, int64(row[j]))
			}
		}
	}
	return e
}

// Exclusive returns the NUMA nodes of the CPUs and the pinned memory in holdings; devices do not count.
func Exclusive(m *topo.Machine, hs []Holding) (out topo.Mask) {
	for _, h := range hs {
		out |= m.MaskOfCPUs(h.CPUs)
		for _, b := range h.Memory {
			out |= b.NUMAs
		}
	}
	return out
}

// Wider reports whether e has more NUMA nodes than o, or equally many that are farther from each other.
func (e Extent) Wider(o Extent) bool {
	if a, b := e.NUMAs.Len(), o.NUMAs.Len(); a != b {
		return a > b
	}
	return e.Distance > o.Distance
}

// Alignment compares what a container holds with what it would hold on the empty machine. Under the topology manager's
// scope pod it compares all containers of the pod together.
type Alignment struct {
	Container string // empty for the pod as a whole
	Held      Extent
	// Best is the extent on the empty machine. It has no NUMA nodes if the pod does not fit there.
	Best     Extent
	Holdings []Holding
}

// Misaligned reports whether the holdings are on more NUMA nodes, or on more distant ones, than on the empty machine.
func (a Alignment) Misaligned() bool { return a.Best.NUMAs != 0 && a.Held.Wider(a.Best) }

// Ideal returns the usage that [Alignments] compares the pods of a node with: the node's empty machine under its rules.
// The policy none aligns nothing, so Ideal replaces it by best-effort.
func (u *Usage) Ideal() *Usage {
	if u.Rules.Topology.Policy != None {
		return u.Empty()
	}
	r := u.Rules
	r.Topology.Policy = BestEffort
	return NewUsage(u.Machine, r)
}

// Alignments compares what a pod holds with what it would hold on its node's [Usage.Ideal], in the order of held. It
// leaves out init containers, which have ended, and containers that hold nothing.
func Alignments(ideal *Usage, p *Pod, held []Holding) (out []Alignment) {
	m := ideal.Machine
	var running []Holding
	for _, h := range held {
		if h.Kind != Init && h.NUMAs(m) != 0 {
			running = append(running, h)
		}
	}
	if len(running) == 0 {
		return nil
	}
	best := Place(ideal, p).Holdings
	bestOf := func(container string) (hs []Holding) { // of all containers if the name is empty
		for _, h := range best {
			if h.Kind != Init && (container == "" || h.Container == container) {
				hs = append(hs, h)
			}
		}
		return hs
	}
	if ideal.Rules.Topology.Scope == PerPod {
		return []Alignment{{Held: ExtentOf(m, running...), Best: ExtentOf(m, bestOf("")...), Holdings: running}}
	}
	for _, h := range running {
		out = append(out, Alignment{Container: h.Container, Held: ExtentOf(m, h),
			Best: ExtentOf(m, bestOf(h.Container)...), Holdings: []Holding{h}})
	}
	return out
}

// Misaligned reports whether one of the alignments is misaligned.
func Misaligned(all []Alignment) bool {
	for _, a := range all {
		if a.Misaligned() {
			return true
		}
	}
	return false
}
