package place

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds the reasons for a refusal. It runs only after the verdict is computed, and never changes it: it makes
// the hint sets again, one after the other in the same tables.

// need is the number of NUMA nodes that the hint set of one resource prefers.
type need struct {
	resource string
	width    int
}

// explain returns why the hint sets of a request have no affinity that the policy admits.
func (a *admission) explain(l *maskSpace, r *request) []Reason {
	single := policyTable[a.u.Rules.Topology.Policy].single
	if !a.work.spend(l.size() * (1 + r.hintSets())) {
		return nil
	}
	t := newTables(l.size())
	var out []Reason
	var needs []need
	for k := range r.hintSets() {
		f, choosy := a.hintSet(l, r, k, t)
		for i := 0; choosy && i < max(1, f.kinds); i++ {
			if f.kinds > 0 {
				f = a.ofKind(l, f, r.memory[i], t)
			}
			needs = append(needs, need{f.resource, f.width})
			if why, bad := f.explain(single); bad {
				why.Container = r.container
				out = append(out, why)
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	if why, bad := unevenReason(needs); bad && !single && !a.u.Rules.CPU.AlignBySocket {
		why.Container = r.container
		return []Reason{why}
	}
	return []Reason{togetherReason(r.container, needs)}
}

// ofKind returns the joint hint set of all memory with the amounts of one kind. It uses the same tables.
func (a *admission) ofKind(l *maskSpace, joint hintSet, w Amount, t tables) hintSet {
	if a.work.spend(8 * l.size()) {
		a.u.sumMemory(l, a.u.kind(w.Kind), t)
	}
	joint.resource, joint.want, joint.total = w.Kind, w.Bytes, a.u.freeOn(a.u.all, w.Kind)
	return joint
}

// togetherReason returns the reason that each resource fits by itself, and all together do not.
func togetherReason(container string, needs []need) Reason {
	var names []string
	for _, n := range needs {
		names = append(names, n.resource)
	}
	return Reason{Code: Together, Container: container, Resource: strings.Join(names, ", ")}
}

// unevenReason names two resources that need different numbers of NUMA nodes; the second result is false if all need
// the same number.
func unevenReason(needs []need) (Reason, bool) {
	if len(needs) == 0 {
		return Reason{}, false
	}
	low, high := needs[0], needs[0]
	for _, n := range needs {
		if n.width < low.width {
			low = n
		}
		if n.width > high.width {
			high = n
		}
	}
	return Reason{Code: Widths, Resource: low.resource, Want: int64(low.width),
		With: high.resource, Have: int64(high.width)}, low.width != high.width
}

// explain returns why a hint set cannot be served even by itself; bad is false if it can.
func (h *hintSet) explain(single bool) (r Reason, bad bool) {
	if h.total < h.want {
		return Reason{Code: Short, Resource: h.resource, Want: h.want, Have: h.total}, true
	}
	if near := h.total - h.apart; near < h.want {
		return Reason{Code: NoNUMA, Resource: h.resource, Want: h.want, Have: near, Width: int(h.apart)}, true
	}
	width := h.width
	if single {
		width = 1
	}
	for d, ok := range h.preferred {
		if ok && (!single || bits.OnesCount(uint(d)) == 1) {
			return Reason{}, false
		}
	}
	return h.lack(width, 0)
}

// lack looks at the masks that have width NUMA nodes and contain a given mask (within). It returns why none of them
// serves the hint set. bad is false if one of these masks has enough of the resource, and lacks only a resource that
// is judged together with it.
func (h *hintSet) lack(width, within int) (r Reason, bad bool) {
	r = Reason{Resource: h.resource, Want: h.want, Width: width}
	able, untied := false, int64(0)
	for d, free := range h.free {
		if bits.OnesCount(uint(d)) != width || d&within != within {
			continue
		}
		able = able || h.able[d]
		r.Have = max(r.Have, free)
		if h.touches(d) {
			untied = max(untied, free)
		}
	}
	switch {
	case able && len(h.ties) > 0:
		r.Code, r.Have, r.Width = Reuse, untied, 0
	case able:
		r.Code, r.Width = Group, 0
	case r.Have >= h.want:
		return Reason{}, false
	case width == 1:
		r.Code, r.Width = OneNUMA, 0
	default:
		r.Code = Width
	}
	return r, true
}

// memoryReasons returns why the memory manager could not assign a container's memory near an affinity.
func (a *admission) memoryReasons(c *Container, h hint) []Reason {
	if len(c.Memory) == 0 {
		return []Reason{{Code: Sharer, Container: c.Name, Resource: topo.Memory}}
	}
	l := newMaskSpace(a.u.Machine.All())
	if len(l.at) > maxMaskSpace {
		return a.wideReasons(c)
	}
	r := request{memory: c.Memory, spare: a.spare}
	if !a.work.spend(l.size()) {
		return nil
	}
	t := newTables(l.size())
	joint := a.memoryHintSet(&l, &r, t)
	within, elsewhere := l.dense(h.mask), slices.Contains(joint.preferred, true)
	// barred: the affinity does not explain the refusal, so the reason is Group, unless the whole machine has too
	// little.
	barred := joint.impossible || !h.preferred || a.hasFree(h.mask, c.Memory)
	var out, short []Reason
	var needs []need
	for _, w := range c.Memory {
		f := a.ofKind(&l, joint, w, t)
		needs = append(needs, need{f.resource, f.width})
		why, bad := Reason{Code: Group, Resource: f.resource, Want: f.want, Have: f.total}, barred
		if !barred {
			// Some NUMA nodes could serve, but no set that has the preferred number of NUMA nodes and contains the
			// affinity.
			if why, bad = f.lack(max(f.width, bits.OnesCount(uint(within))), within); elsewhere && why.Code != Group {
				why.Code = Chosen
			}
		}
		if why.Container = c.Name; bad {
			out = append(out, why)
		}
		if joint.impossible && f.total < f.want {
			why.Code = Short
			short = append(short, why)
		}
	}
	switch {
	case len(short) > 0:
		return short
	case len(out) > 0:
		return out
	}
	return []Reason{togetherReason(c.Name, needs)}
}
