package place

import (
	"math/bits"
	"slices"
	"strings"
)

// This file finds the reasons of a refusal. It runs only after the verdict is known, and never changes
// it: it makes the families again, each in tables of its own.

// explain says why the families of a request have no affinity that the policy admits.
func (a *admission) explain(l *lattice, r *request) []Reason {
	fams := a.choosy(l, r)
	single := policyTable[a.u.Rules.Topology.Policy].single
	var out []Reason
	for i := range fams {
		if why, bad := fams[i].explain(single); bad {
			why.Container = r.container
			out = append(out, why)
		}
	}
	if len(out) > 0 {
		return out
	}
	if why, bad := uneven(fams); bad && !single && !a.u.Rules.CPU.AlignBySocket {
		why.Container = r.container
		return []Reason{why}
	}
	return []Reason{together(r.container, fams)}
}

// choosy returns the families that have an opinion, memory kind by kind.
func (a *admission) choosy(l *lattice, r *request) (out []family) {
	for k := range r.families() {
		f, choosy := a.family(l, r, k, newTables(l.size()))
		switch {
		case choosy && f.kinds > 0:
			out = append(out, a.kindsOf(l, r, f)...)
		case choosy:
			out = append(out, f)
		}
	}
	return out
}

// kindsOf returns the joint family of memory once per kind, with the kind's own amounts.
func (a *admission) kindsOf(l *lattice, r *request, joint family) (out []family) {
	for _, w := range r.memory {
		f, t := joint, newTables(l.size())
		a.u.sumMemory(l, a.u.kind(w.Kind), t)
		f.resource, f.want, f.free, f.total = w.Kind, w.Bytes, t.free, t.free[len(t.free)-1]
		out = append(out, f)
	}
	return out
}

func together(container string, fams []family) Reason {
	var names []string
	for i := range fams {
		names = append(names, fams[i].resource)
	}
	return Reason{Code: Together, Container: container, Resource: strings.Join(names, ", ")}
}

// uneven names two families that are preferred on different numbers of numas.
func uneven(fams []family) (Reason, bool) {
	low, high := 0, 0
	for i := range fams {
		if fams[i].width < fams[low].width {
			low = i
		}
		if fams[i].width > fams[high].width {
			high = i
		}
	}
	if len(fams) == 0 || fams[low].width == fams[high].width {
		return Reason{}, false
	}
	return Reason{Code: Widths, Resource: fams[low].resource, Want: int64(fams[low].width),
		With: fams[high].resource, Have: int64(fams[high].width)}, true
}

// explain says why a family by itself cannot be served; bad is false where it could.
func (f *family) explain(single bool) (r Reason, bad bool) {
	if f.total < f.want {
		return Reason{Code: Short, Resource: f.resource, Want: f.want, Have: f.total}, true
	}
	width := f.width
	if single {
		width = 1
	}
	for d, ok := range f.preferred {
		if ok && (!single || bits.OnesCount(uint(d)) == 1) {
			return Reason{}, false
		}
	}
	return f.lack(width, 0)
}

// lack says what the masks of a width that contain some numas lack; bad is false where one has enough
// of the resource, but not of what it is judged together with.
func (f *family) lack(width, within int) (r Reason, bad bool) {
	r = Reason{Resource: f.resource, Want: f.want, Width: width}
	able, untied := false, int64(0)
	for d, free := range f.free {
		if bits.OnesCount(uint(d)) != width || d&within != within {
			continue
		}
		able = able || f.able[d]
		r.Have = max(r.Have, free)
		if f.touches(d) {
			untied = max(untied, free)
		}
	}
	switch {
	case able && len(f.ties) > 0:
		r.Code, r.Have, r.Width = Reuse, untied, 0
	case able:
		r.Code, r.Width = Group, 0
	case r.Have >= f.want:
		return Reason{}, false
	case width == 1:
		r.Code, r.Width = OneNUMA, 0
	default:
		r.Code = Width
	}
	return r, true
}

// memoryReasons says why the memory manager could not assign a container's memory near an affinity.
func (a *admission) memoryReasons(c *Container, h hint) []Reason {
	l := newLattice(a.u.Machine.All())
	if len(l.at) > maxLattice {
		return []Reason{{Code: Unsupported, Container: c.Name, Want: int64(len(l.at)), Have: maxLattice}}
	}
	r := request{memory: c.Memory, spare: a.spare}
	joint := a.memoryFamily(&l, &r, newTables(l.size()))
	kinds := a.kindsOf(&l, &r, joint)
	var out []Reason
	if joint.impossible {
		if out = shortOf(c.Name, kinds); len(out) > 0 {
			return out
		}
	}
	if joint.impossible || !h.preferred || a.hasFree(h.mask, c.Memory) {
		return barred(c.Name, kinds)
	}
	// Some numas would do, but not the preferred number of them with the affinity among them.
	within, elsewhere := l.dense(h.mask), slices.Contains(joint.preferred, true)
	for i := range kinds {
		if why, bad := kinds[i].lack(max(joint.width, bits.OnesCount(uint(within))), within); bad {
			if elsewhere && why.Code != Group {
				why.Code = Chosen
			}
			why.Container = c.Name
			out = append(out, why)
		}
	}
	if len(out) == 0 {
		out = append(out, together(c.Name, kinds))
	}
	return out
}

// shortOf returns the kinds of which the whole node has not enough.
func shortOf(container string, kinds []family) (out []Reason) {
	for _, k := range kinds {
		if k.total < k.want {
			out = append(out, Reason{Code: Short, Container: container, Resource: k.resource, Want: k.want, Have: k.total})
		}
	}
	return out
}

// barred says of every kind that groups of numas rule out what would do.
func barred(container string, kinds []family) (out []Reason) {
	for _, k := range kinds {
		out = append(out, Reason{Code: Group, Container: container, Resource: k.resource, Want: k.want, Have: k.total})
	}
	return out
}
