package place

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/topo"
)

// Demand is what a pod asks of the outcome, whatever the node's own policy is called: the zero Demand
// asks for nothing.
type Demand struct {
	Policy Policy
	Scope  Scope
}

// Judge returns the verdict with the demand taken into account: holdings that the node would give but
// that do not satisfy the demand become a refusal with reasons. A verdict that is a refusal already is
// returned as it is.
//
// SingleNUMA asks that everything a container (or the pod) holds lies on one numa. Restricted asks that
// it lies on no more numas than the widest of its resources needs on this machine when nothing is held.
func Judge(u *Usage, p *Pod, v Verdict, d Demand) Verdict {
	if !v.Fits() || !policyTable[d.Policy].preferred {
		return v
	}
	for _, g := range grouped(v.Holdings, d.Scope) {
		allowed := 1
		if d.Policy == Restricted {
			allowed = max(1, needed(u, g.holdings))
		}
		var used topo.Mask
		for _, h := range g.holdings {
			used |= h.NUMAs(u.Machine)
		}
		if used.Len() > allowed {
			v.Error = TopologyAffinityError
			v.Reasons = append(v.Reasons, Reason{Code: Demanded, Container: g.container, Want: int64(allowed), Have: int64(used.Len())})
		}
	}
	if v.Error != "" {
		v.Holdings = nil
	}
	return v
}

type group struct {
	container string
	holdings  []Holding
}

func grouped(hs []Holding, s Scope) []group {
	if s == PerPod {
		return []group{{holdings: hs}}
	}
	var out []group
	for _, h := range hs {
		out = append(out, group{h.Container, []Holding{h}})
	}
	return out
}

// needed returns the fewest numas that the widest resource of some holdings needs on the empty machine.
func needed(u *Usage, hs []Holding) int {
	cpus, amounts := 0, map[string]int64{}
	for _, h := range hs {
		cpus += h.CPUs.Len()
		for _, b := range h.Memory {
			amounts[b.Kind] += b.Bytes
		}
		for _, d := range h.Devices {
			amounts[d.Resource] += int64(len(d.IDs))
		}
	}
	w := fewest(u.Machine, int64(cpus), func(i int) int64 { return int64(u.Machine.NUMAs()[i].CPUs.Len()) })
	for name, n := range amounts {
		w = max(w, fewest(u.Machine, n, func(i int) int64 { return u.capacity(i, name) }))
	}
	return w
}

func (u *Usage) capacity(i int, name string) int64 {
	_, r, ok := u.resource(name)
	if !ok {
		return u.Allocatable(i, name)
	}
	n := int64(0)
	for _, d := range r.Devices {
		if d.NUMAs.Has(i) {
			n++
		}
	}
	return n
}

// fewest returns how many numas, largest first, add up to n; all of them where they do not.
func fewest(m *topo.Machine, n int64, value func(i int) int64) int {
	var used topo.Mask
	for n > 0 && used != m.All() {
		best := -1
		for i := range m.NUMAs() {
			if !used.Has(i) && (best < 0 || value(i) > value(best)) {
				best = i
			}
		}
		n -= value(best)
		used |= 1 << uint(best)
	}
	return bits.OnesCount64(uint64(used))
}
