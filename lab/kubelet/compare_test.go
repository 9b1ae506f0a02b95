package kubelet_test

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
)

// What the judge compares: the containers' holdings, and what is left.

// same compares the holdings of the sure containers, without the devices that are chosen at random. Memory of init
// containers is reused by later ones, so that it is sure only if all containers are.
func (t *trial) same(name string, p *place.Pod, v place.Verdict, seen []place.Holding, sure int) error {
	all := sure == len(p.Containers)
	ok := holdingOf(v.Holdings, "").Matches(holdingOf(seen, "")) // of the pod as a whole
	for _, c := range p.Containers[:sure] {
		said, got := holdingOf(v.Holdings, c.Name), holdingOf(seen, c.Name)
		if !all && c.Kind == place.Init {
			said.Memory, got.Memory = nil, nil
		}
		ok = ok && said.Matches(got)
	}
	if ok {
		return nil
	}
	return differs(aboutHoldings, "pod %s: the managers gave %v, place said %v", name, shown(t.node.Machine, seen),
		shown(t.node.Machine, v.Holdings))
}

func holdingOf(hs []place.Holding, container string) place.Holding {
	for _, h := range hs {
		if h.Container == container {
			return h
		}
	}
	return place.Holding{}
}

func shown(m *topo.Machine, hs []place.Holding) (out []string) {
	for _, h := range hs {
		out = append(out, scenario.Show(m, h))
	}
	return out
}

// twice reports whether the managers have given one CPU to two pods, or to two containers that run together, or have a
// held CPU among the free ones. On machines with unequal sockets or cores the kubelet has this fault
// (cpumanager/cpu_assignment.go, takeFullSockets), and frees the CPU with the first of them.
func (t *trial) twice() bool {
	free := t.freeCPUs()
	var held idset.Set[idset.CPU]
	for _, p := range t.node.Pods {
		var own, inits idset.Set[idset.CPU]
		for _, h := range p.Holdings {
			if h.CPUs.AndLen(held) > 0 || h.CPUs.AndLen(own) > 0 {
				return true
			}
			if h.Kind == place.Init {
				inits = inits.Union(h.CPUs)
			} else {
				own = own.Union(h.CPUs)
			}
		}
		held = held.Union(own).Union(inits)
	}
	return held.AndLen(free) > 0
}

// contradiction looks for a fault in the managers' own records.
func (t *trial) contradiction() error {
	if t.twice() {
		return errTwice
	}
	return nil
}

// freeCPUs is the CPU manager's shared pool: reserved CPUs are in it, or not.
func (t *trial) freeCPUs() idset.Set[idset.CPU] { return t.real.SharedCPUs() }

// How left compares devices: by their ids, by their number on every set of NUMA nodes, or not at all.
const (
	byID = iota
	byNUMA
	noDevices
)

// left compares what is free.
func (t *trial) left(about, when string, u *place.Usage, devices int) error {
	if t.node.Rules.CPU.Static {
		if have := t.freeCPUs().Minus(t.node.Rules.CPU.Reserved); !have.Equal(u.FreeCPUs()) {
			return differs(about, "%s: CPUs %s are free, place has %s", when, have, u.FreeCPUs())
		}
	}
	if t.node.Rules.Memory.Static {
		free := t.real.FreeMemory()
		for i, n := range t.node.Machine.NUMAs() {
			for kind, bytes := range free[n.ID] {
				if have := u.FreeMemory(i, kind); bytes != have {
					return differs(about, "%s: NUMA node %d has %d bytes of %s free, place has %d", when, n.ID, bytes, kind, have)
				}
			}
		}
	}
	if devices == noDevices {
		return nil
	}
	for _, r := range t.node.Machine.Resources() {
		have, said := t.freeDevices(r.Name), u.FreeDevices(r.Name)
		if devices == byNUMA {
			have, said = unnamed(have), unnamed(said)
		}
		if !slices.Equal(have, said) {
			return differs(about, "%s: %s free are %v, place has %v", when, r.Name, have, said)
		}
	}
	return nil
}

// freeDevices returns the healthy devices that the device manager has not assigned.
func (t *trial) freeDevices(name string) (out []topo.Device) {
	held := map[string]bool{}
	for _, pod := range t.pods {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, d := range t.real.Holding(pod.UID, c.Name).Devices {
				for _, id := range d.IDs {
					held[id] = held[id] || d.Resource == name
				}
			}
		}
	}
	healthy := t.real.Healthy(name)
	r, _ := t.node.Machine.Resource(name)
	for _, d := range r.Devices {
		if slices.Contains(healthy, d.ID) && !held[d.ID] {
			d.Unhealthy = false
			out = append(out, d)
		}
	}
	return out
}

func unnamed(in []topo.Device) (out []topo.Device) {
	for _, d := range in {
		out = append(out, topo.Device{NUMAs: d.NUMAs})
	}
	slices.SortFunc(out, func(a, b topo.Device) int { return int(a.NUMAs) - int(b.NUMAs) })
	return out
}
