package place

import (
	"fmt"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxMilliCPU is the bound on a CPU request, in thousandths.
const maxMilliCPU = topo.MaxBytes * 1000

// Validate returns the first precondition of [Place] that the pod does not meet, or nil. The preconditions: known
// classes and kinds, init containers before app containers, container names that are not empty and not repeated,
// amounts between 0 and the bounds of package topo, and requests in ascending order without duplicates. The verdict for
// an invalid pod has no meaning. Pods that package api/pod makes from pods of an API server are valid.
func (p *Pod) Validate() error {
	if p.QoS < BestEffortQoS || p.QoS > Guaranteed {
		return fmt.Errorf("validate pod: unknown %s", p.QoS)
	}
	if err := amounts(p.Whole.MilliCPU, p.Whole.Memory); err != nil {
		return fmt.Errorf("validate pod: as a whole: %w", err)
	}
	names := make(map[string]bool, len(p.Containers))
	last := Init
	for i := range p.Containers {
		c := &p.Containers[i]
		if err := c.validate(); err != nil {
			return fmt.Errorf("validate pod: container %q: %w", c.Name, err)
		}
		switch {
		case names[c.Name]:
			return fmt.Errorf("validate pod: container %q: a container before it has the same name", c.Name)
		case c.Kind != App && last == App:
			return fmt.Errorf("validate pod: container %q: an app container comes before this %s container", c.Name, c.Kind)
		}
		names[c.Name], last = true, c.Kind
	}
	return nil
}

func (c *Container) validate() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("it has no name")
	case c.Kind < App || c.Kind > Sidecar:
		return fmt.Errorf("unknown %s", c.Kind)
	}
	if err := amounts(c.MilliCPU, c.Memory); err != nil {
		return err
	}
	for i, d := range c.Devices {
		switch {
		case d.Resource == "":
			return fmt.Errorf("a resource has no name")
		case d.N < 0 || d.N > topo.MaxBytes:
			return fmt.Errorf("%s: %d devices are outside 0..%d", d.Resource, d.N, int64(topo.MaxBytes))
		case i > 0 && c.Devices[i-1].Resource >= d.Resource:
			return fmt.Errorf("%s follows %s: want resources in ascending order, each once", d.Resource, c.Devices[i-1].Resource)
		}
	}
	return nil
}

// amounts returns what is wrong with requests of CPU and memory, or nil.
func amounts(milliCPU int64, memory []Amount) error {
	if milliCPU < 0 || milliCPU > maxMilliCPU {
		return fmt.Errorf("%d thousandths of a CPU are outside 0..%d", milliCPU, int64(maxMilliCPU))
	}
	for i, a := range memory {
		switch {
		case !memoryKind(a.Kind):
			return fmt.Errorf(`unknown kind of memory %q: want "memory" or "hugepages-SIZE"`, a.Kind)
		case a.Bytes < 0 || a.Bytes > topo.MaxBytes:
			return fmt.Errorf("%s: %d bytes are outside 0..%d", a.Kind, a.Bytes, int64(topo.MaxBytes))
		case i > 0 && memory[i-1].Kind >= a.Kind:
			return fmt.Errorf("%s follows %s: want kinds of memory in ascending order, each once", a.Kind, memory[i-1].Kind)
		}
	}
	return nil
}

func memoryKind(name string) bool {
	return name == topo.Memory || strings.HasPrefix(name, "hugepages-")
}

// Validate returns the first precondition of [NewUsage] on this machine that the rules do not meet, or nil. The
// preconditions: known policies and scopes, and reservations of CPUs and NUMA nodes that the machine has, without
// negative amounts. A kubelet may refuse valid rules: see [Rules.Obstacles].
func (r Rules) Validate(m *topo.Machine) error {
	switch t := r.Topology; {
	case r.Arbiter < ByKubelet || r.Arbiter > ByAgent:
		return fmt.Errorf("validate rules: unknown %s", r.Arbiter)
	case r.Release < 0 || r.Release > maxRelease:
		return fmt.Errorf("validate rules: release 1.%d is outside 1.1..1.%d", int(r.Release), maxRelease)
	case t.Policy < None || t.Policy > SingleNUMA:
		return fmt.Errorf("validate rules: unknown topology manager policy %d", int(t.Policy))
	case t.Scope < PerContainer || t.Scope > PerPod:
		return fmt.Errorf("validate rules: unknown topology manager scope %d", int(t.Scope))
	case r.PodLevelManagers && r.Release.orDefault() < podLevelManagersSince:
		return fmt.Errorf("validate rules: kubelets of release %s have no gate PodLevelResourceManagers", r.Release)
	case t.MaxNUMAs < 0:
		return fmt.Errorf("validate rules: max-allowable-numa-nodes is %d: want 0 or more", t.MaxNUMAs)
	}
	if missing := r.CPU.Reserved.Minus(m.CPUs()); !missing.Empty() {
		return fmt.Errorf("validate rules: reserved CPUs %s: the machine does not have them", missing)
	}
	type reservation struct {
		numa idset.NUMA
		kind string
	}
	met := map[reservation]bool{}
	for _, x := range r.Memory.Reserved {
		key := reservation{x.NUMA, x.Kind}
		_, ok := m.Position(x.NUMA)
		switch {
		case !ok:
			return fmt.Errorf("validate rules: reserved memory: the machine has no NUMA node %d", x.NUMA)
		case !memoryKind(x.Kind):
			return fmt.Errorf("validate rules: reserved memory of NUMA node %d: unknown kind %q", x.NUMA, x.Kind)
		case x.Bytes < 0 || x.Bytes > topo.MaxBytes:
			return fmt.Errorf("validate rules: reserved %s of NUMA node %d: %d bytes are outside 0..%d",
				x.Kind, x.NUMA, x.Bytes, int64(topo.MaxBytes))
		case met[key]:
			return fmt.Errorf("validate rules: reserved %s of NUMA node %d is there twice", x.Kind, x.NUMA)
		}
		met[key] = true
	}
	return nil
}

// Validate returns the first precondition of [Judge] that the demand does not meet, or nil. The preconditions: a known
// policy and scope, and at most one of Align and Ignore.
func (d Demand) Validate() error {
	switch {
	case d.Policy < None || d.Policy > SingleNUMA:
		return fmt.Errorf("validate demand: unknown policy %d", int(d.Policy))
	case d.Scope < PerContainer || d.Scope > PerPod:
		return fmt.Errorf("validate demand: unknown scope %d", int(d.Scope))
	case d.Align != "" && d.Ignore != "":
		return fmt.Errorf("validate demand: it has resources to align and resources to ignore: want one of them")
	}
	for _, names := range []Names{d.Align, d.Ignore} {
		if NamesOf(names.List()...) != names {
			return fmt.Errorf("validate demand: resources %q are not in ascending order, each once", string(names))
		}
	}
	return nil
}
