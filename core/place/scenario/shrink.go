package scenario

import (
	"iter"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Shrink returns a smaller scenario for which the function fails still returns true. It drops steps, containers,
// requests, NUMA nodes, devices, cores and rules one after the other, and calls the function no more often than
// tries. The function must return true for s, and false for a scenario that it cannot judge. Shrink does not change
// s.
func Shrink(s *Scenario, fails func(*Scenario) bool, tries int) *Scenario {
	for progress := true; progress; {
		progress = false
		for _, cuts := range []func(*Scenario) iter.Seq[*Scenario]{
			fewerSteps, fewerContainers, lessWanted, fewerNUMAs, fewerDevices, fewerCores, lessMemory, fewerRules, plainIDs,
		} {
			for {
				smaller := first(cuts(s), fails, &tries)
				if smaller == nil {
					break
				}
				s, progress = smaller, true
			}
		}
	}
	return s
}

// first returns the first candidate that still fails, or nil.
func first(candidates iter.Seq[*Scenario], fails func(*Scenario) bool, tries *int) *Scenario {
	for c := range candidates {
		if *tries <= 0 {
			return nil
		}
		*tries--
		if fails(c) {
			return c
		}
	}
	return nil
}

// with applies change to a copy of the scenario and returns the copy. change must not modify the containers of pods
// in place, since the copy shares them.
func (s *Scenario) with(change func(*Scenario)) *Scenario {
	c := *s
	c.Steps = slices.Clone(s.Steps)
	c.Rules.Memory.Reserved = slices.Clone(s.Rules.Memory.Reserved)
	change(&c)
	return &c
}

// fewerSteps yields scenarios without a run of steps: first without one half of them, then without shorter and shorter
// runs, down to single steps. Runs at the end come first.
func fewerSteps(s *Scenario) iter.Seq[*Scenario] {
	return func(yield func(*Scenario) bool) {
		for n := len(s.Steps) / 2; n > 0; n /= 2 {
			for from := len(s.Steps) - n; from >= 0; from -= n {
				if !yield(s.with(func(c *Scenario) { c.Steps = slices.Delete(c.Steps, from, from+n) })) {
					return
				}
			}
		}
	}
}

// admits yields the indexes of the steps that admit.
func admits(s *Scenario) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s.Steps {
			if s.Steps[i].Do == Admit && !yield(i) {
				return
			}
		}
	}
}

// fewerContainers drops containers, and turns others into app containers.
func fewerContainers(s *Scenario) iter.Seq[*Scenario] {
	return func(yield func(*Scenario) bool) {
		for i := range admits(s) {
			for k := range s.Steps[i].Pod.Containers {
				c := s.with(func(c *Scenario) {
					p := &c.Steps[i].Pod
					p.Containers = slices.Delete(slices.Clone(p.Containers), k, k+1)
				})
				if len(c.Steps[i].Pod.Containers) > 0 && !yield(c) {
					return
				}
				if s.Steps[i].Pod.Containers[k].Kind == place.App {
					continue
				}
				asApp := s.with(func(c *Scenario) {
					p := &c.Steps[i].Pod
					app := p.Containers[k]
					app.Kind = place.App
					p.Containers = append(slices.Delete(slices.Clone(p.Containers), k, k+1), app)
				})
				if !yield(asApp) {
					return
				}
			}
		}
	}
}

// lessWanted yields scenarios in which one pod has no demand, or one request is smaller or dropped.
func lessWanted(s *Scenario) iter.Seq[*Scenario] {
	return func(yield func(*Scenario) bool) {
		for i := range admits(s) {
			if d := (place.Demand{}); s.Steps[i].Demand != d &&
				!yield(s.with(func(c *Scenario) { c.Steps[i].Demand = d })) {
				return
			}
			for k := range s.Steps[i].Pod.Containers {
				for smaller := range lessOf(s.Steps[i].Pod.Containers[k]) {
					c := s.with(func(c *Scenario) {
						p := &c.Steps[i].Pod
						p.Containers = slices.Clone(p.Containers)
						p.Containers[k] = smaller
					})
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}

// lessOf yields the container with one request smaller or dropped.
func lessOf(c place.Container) iter.Seq[place.Container] {
	return func(yield func(place.Container) bool) {
		for k := range c.Devices {
			less := c
			less.Devices = slices.Delete(slices.Clone(c.Devices), k, k+1)
			if !yield(less) {
				return
			}
			if c.Devices[k].N > 0 {
				less.Devices = slices.Clone(c.Devices)
				less.Devices[k].N--
				if !yield(less) {
					return
				}
			}
		}
		for k := range c.Memory {
			less := c
			less.Memory = slices.Delete(slices.Clone(c.Memory), k, k+1)
			if !yield(less) {
				return
			}
			if c.Memory[k].Fractional {
				less.Memory = slices.Clone(c.Memory)
				less.Memory[k].Fractional = false
				if !yield(less) {
					return
				}
			}
			if half := c.Memory[k].Bytes / 2 >> 20 << 20; half > 0 {
				less.Memory = slices.Clone(c.Memory)
				less.Memory[k].Bytes = half
				if !yield(less) {
					return
				}
			}
		}
		for _, milli := range []int64{1000, c.MilliCPU / 2 / 1000 * 1000, c.MilliCPU - 1000, c.MilliCPU / 1000 * 1000} {
			less := c
			if less.MilliCPU = milli; milli > 0 && milli < c.MilliCPU && !yield(less) {
				return
			}
		}
	}
}

// onMachine yields the scenario on each machine that specs describe. It skips invalid machines, and machines that the
// rules do not fit.
func onMachine(s *Scenario, specs iter.Seq[topo.Spec]) iter.Seq[*Scenario] {
	return func(yield func(*Scenario) bool) {
		for spec := range specs {
			m, err := topo.New(spec)
			if err != nil {
				continue
			}
			c := s.with(func(c *Scenario) { c.Machine = m })
			if c.fitRules() && !yield(c) {
				return
			}
		}
	}
}

// fitRules removes from the rules what the machine no longer has. It returns false if the machine cannot reserve the
// required number of CPUs.
func (s *Scenario) fitRules() bool {
	s.Rules.Memory.Reserved = slices.DeleteFunc(s.Rules.Memory.Reserved, func(r place.Reserved) bool {
		_, ok := s.Machine.Position(r.NUMA)
		return !ok
	})
	if s.ReserveCPUs == 0 {
		s.Rules.CPU.Reserved = s.Rules.CPU.Reserved.And(s.Machine.CPUs())
		return true
	}
	var err error
	s.Rules.CPU.Reserved, err = s.Rules.Reserve(s.Machine, s.ReserveCPUs)
	return err == nil
}

// fewerNUMAs drops a NUMA node with its cores, and all devices that are on it.
func fewerNUMAs(s *Scenario) iter.Seq[*Scenario] {
	return onMachine(s, func(yield func(topo.Spec) bool) {
		for i, n := range s.Machine.NUMAs() {
			if spec := s.Machine.Spec(); len(spec.NUMAs) > 1 {
				spec.NUMAs = slices.Delete(spec.NUMAs, i, i+1)
				for k := range spec.NUMAs {
					if d := spec.NUMAs[k].Distances; i < len(d) {
						spec.NUMAs[k].Distances = slices.Delete(d, i, i+1)
					}
				}
				spec.Cores = slices.DeleteFunc(spec.Cores, func(c topo.CoreSpec) bool { return c.NUMA == n.ID })
				spec.Devices = slices.DeleteFunc(spec.Devices, func(d topo.DeviceSpec) bool {
					return slices.Contains(d.NUMAs, n.ID)
				})
				if !yield(spec) {
					return
				}
			}
		}
	})
}

// fewerDevices drops devices, heals them, and gives them fewer NUMA nodes.
func fewerDevices(s *Scenario) iter.Seq[*Scenario] {
	return onMachine(s, func(yield func(topo.Spec) bool) {
		for i := range s.Machine.Spec().Devices {
			spec := s.Machine.Spec()
			d := spec.Devices[i]
			spec.Devices = slices.Delete(spec.Devices, i, i+1)
			if !yield(spec) {
				return
			}
			if d.Unhealthy {
				spec = s.Machine.Spec()
				spec.Devices[i].Unhealthy = false
				if !yield(spec) {
					return
				}
			}
			for k := range d.NUMAs {
				if spec = s.Machine.Spec(); len(d.NUMAs) > 1 {
					spec.Devices[i].NUMAs = slices.Delete(spec.Devices[i].NUMAs, k, k+1)
					if !yield(spec) {
						return
					}
				}
			}
		}
	})
}

// fewerCores drops runs of cores, then single threads, and last puts all cores on one socket.
func fewerCores(s *Scenario) iter.Seq[*Scenario] {
	return onMachine(s, func(yield func(topo.Spec) bool) {
		count := len(s.Machine.Spec().Cores)
		for n := count / 2; n > 0; n /= 2 {
			for from := 0; from+n <= count; from += n {
				spec := s.Machine.Spec()
				spec.Cores = slices.Delete(spec.Cores, from, from+n)
				if !yield(spec) {
					return
				}
			}
		}
		for i := range count { // the last thread
			spec := s.Machine.Spec()
			c := &spec.Cores[i]
			if c.CPUs = c.CPUs.Minus(idset.Of(c.CPUs.Max())); !c.CPUs.Empty() && !yield(spec) {
				return
			}
		}
		spec, changed := s.Machine.Spec(), false
		for i := range spec.Cores {
			changed = changed || spec.Cores[i].Socket > 0
			spec.Cores[i].Socket = 0
		}
		if changed {
			yield(spec)
		}
	})
}

// lessMemory drops distances and hugepages, and halves memory.
func lessMemory(s *Scenario) iter.Seq[*Scenario] {
	return onMachine(s, func(yield func(topo.Spec) bool) {
		spec := s.Machine.Spec()
		if !s.Rules.Topology.PreferClosest && len(spec.NUMAs[0].Distances) > 0 {
			for i := range spec.NUMAs {
				spec.NUMAs[i].Distances = nil
			}
			if !yield(spec) {
				return
			}
		}
		for i, n := range s.Machine.NUMAs() {
			for k := range n.Hugepages {
				spec = s.Machine.Spec()
				spec.NUMAs[i].Hugepages = slices.Delete(spec.NUMAs[i].Hugepages, k, k+1)
				if !yield(spec) {
					return
				}
			}
			spec = s.Machine.Spec()
			if spec.NUMAs[i].Bytes = n.Bytes / 2 >> 30 << 30; spec.NUMAs[i].Bytes < n.Bytes && !yield(spec) {
				return
			}
		}
	})
}

// fewerRules switches off options, scope pod, managers and reservations, one by one.
func fewerRules(s *Scenario) iter.Seq[*Scenario] {
	var changes []func(*Scenario)
	on := func(set bool, change func(*Scenario)) {
		if set {
			changes = append(changes, change)
		}
	}
	r := s.Rules
	for _, o := range options() {
		on(*o.at(&r.CPU), func(c *Scenario) { *o.at(&c.Rules.CPU) = false })
	}
	on(r.Topology.PreferClosest, func(c *Scenario) { c.Rules.Topology.PreferClosest = false })
	on(r.Topology.MaxNUMAs > 0, func(c *Scenario) { c.Rules.Topology.MaxNUMAs = 0 })
	on(r.Topology.Scope == place.PerPod, func(c *Scenario) { c.Rules.Topology.Scope = place.PerContainer })
	on(r.CPU.Static, func(c *Scenario) { c.Rules.CPU = place.CPURules{}; c.ReserveCPUs = 0 })
	on(r.Memory.Static, func(c *Scenario) { c.Rules.Memory = place.MemoryRules{} })
	on(s.ReserveCPUs > 0, func(c *Scenario) { c.ReserveCPUs = 0 })
	for id := range r.CPU.Reserved.All() {
		on(s.ReserveCPUs == 0, func(c *Scenario) { c.Rules.CPU.Reserved = c.Rules.CPU.Reserved.Minus(idset.Of(id)) })
	}
	for i, x := range r.Memory.Reserved {
		on(x.Kind != topo.Memory, func(c *Scenario) {
			c.Rules.Memory.Reserved = slices.Delete(c.Rules.Memory.Reserved, i, i+1)
		})
	}
	return func(yield func(*Scenario) bool) {
		for _, change := range changes {
			if c := s.with(change); c.fitRules() && !yield(c) {
				return
			}
		}
	}
}

// plainIDs yields the scenario with NUMA nodes numbered from 0 without holes, unless they are already.
func plainIDs(s *Scenario) iter.Seq[*Scenario] {
	return func(yield func(*Scenario) bool) {
		spec, changed := s.Machine.Spec(), false
		plain := map[idset.NUMA]idset.NUMA{}
		for i := range spec.NUMAs {
			plain[spec.NUMAs[i].ID] = idset.NUMA(i)
			changed = changed || spec.NUMAs[i].ID != idset.NUMA(i)
			spec.NUMAs[i].ID = idset.NUMA(i)
		}
		for i := range spec.Cores {
			spec.Cores[i].NUMA = plain[spec.Cores[i].NUMA]
		}
		for i := range spec.Devices {
			for k, id := range spec.Devices[i].NUMAs {
				spec.Devices[i].NUMAs[k] = plain[id]
			}
		}
		m, err := topo.New(spec)
		if err != nil || !changed {
			return
		}
		yield(s.with(func(c *Scenario) {
			c.Machine = m
			for i := range c.Rules.Memory.Reserved {
				x := &c.Rules.Memory.Reserved[i]
				x.NUMA = plain[x.NUMA]
			}
		}))
	}
}
