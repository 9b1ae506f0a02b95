package place

import (
	"math/bits"
	"strings"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds the reasons of a refusal. It runs only after the verdict is known, and never changes it.

// explain says why the families of a request have no affinity that the policy admits.
func explain(u *Usage, l lattice, container string, fams []family) []Reason {
	single := policyTable[u.Rules.Topology.Policy].single
	var out []Reason
	for i := range fams {
		if r, bad := fams[i].explain(single); bad {
			r.Container = container
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out
	}
	var names []string
	for i := range fams {
		names = append(names, fams[i].resource)
	}
	return []Reason{{Code: Together, Container: container, Resource: strings.Join(names, ", ")}}
}

// explain says why a family by itself cannot be served; bad is false where it could.
func (f *family) explain(single bool) (r Reason, bad bool) {
	r = Reason{Resource: f.resource, Want: f.want, Have: f.total}
	if f.total < f.want {
		r.Code = Short
		return r, true
	}
	width := f.width
	if single {
		width = 1
	}
	best := int64(0)
	for d := range f.free {
		if bits.OnesCount(uint(d)) != width {
			continue
		}
		if f.preferred != nil && f.preferred[d] {
			return Reason{}, false
		}
		best = max(best, f.free[d])
	}
	r.Have, r.Width = best, width
	switch {
	case best >= f.want && f.grouped:
		r.Code = Group
	case best >= f.want && f.tied:
		r.Code = Reuse
	case best >= f.want:
		// Free, but the rest of the joint memory is not: Together names all.
		return Reason{}, false
	case width == 1:
		r.Code, r.Width = OneNUMA, 0
	default:
		r.Code = Width
	}
	return r, true
}

// memoryReasons says why the memory manager could not assign a container's memory.
func (a *admission) memoryReasons(c *Container) []Reason {
	l := newLattice(a.u.Machine.All())
	if len(l.at) > maxLattice {
		return []Reason{{Code: Unsupported, Container: c.Name, Want: int64(len(l.at)), Have: maxLattice}}
	}
	f := a.memoryFamilies(l, c.Memory, a.spare)
	var out []Reason
	for _, k := range f.kinds {
		r := Reason{Container: c.Name, Resource: k.resource, Want: k.want, Have: k.total}
		switch {
		case k.total < k.want:
			r.Code = Short
		case f.joint.grouped:
			r.Code = Group
		default:
			continue
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		r := Reason{Code: Group, Container: c.Name, Resource: topo.Memory}
		if len(c.Memory) > 0 {
			r.Resource, r.Want = c.Memory[0].Kind, c.Memory[0].Bytes
		}
		out = append(out, r)
	}
	return out
}
