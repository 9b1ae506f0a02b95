package topo

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
)

// Level is a way to partition the CPUs of a machine. Every CPU is in one part of each level. Parts of different
// levels need not lie inside each other.
type Level int

// The levels.
const (
	NUMAs Level = iota // a part's id is the position in Machine.NUMAs
	Sockets
	L3s
	Cores
	levels
)

// Group is one part of a level.
type Group struct {
	ID   int
	CPUs idset.Set[idset.CPU]
}

// partition makes the groups of a level: CPUs for which id returns the same number are in one group. A group with the
// same CPUs as a group of an earlier level shares its set.
func (m *Machine) partition(level Level, id func(CPU) int) error {
	members := map[int][]idset.CPU{}
	for cpu := range m.all.All() {
		k := id(m.cpus[cpu])
		members[k] = append(members[k], cpu)
	}
	m.groupOf[level] = make([]int32, len(m.cpus))
	for _, k := range slices.Sorted(maps.Keys(members)) {
		cpus, found := m.sharedSet(level, members[k])
		if !found {
			if err := m.grow(8 * (int(slices.Max(members[k]))/64 + 1)); err != nil {
				return err
			}
			cpus = idset.Of(members[k]...)
		}
		for _, cpu := range members[k] {
			m.groupOf[level][cpu] = int32(len(m.groups[level]))
		}
		m.groups[level] = append(m.groups[level], Group{k, cpus})
	}
	return m.grow(len(members) * groupSize)
}

// sharedSet looks for a group of an earlier level that has exactly these CPUs, and returns its set.
func (m *Machine) sharedSet(level Level, cpus []idset.CPU) (set idset.Set[idset.CPU], found bool) {
	for earlier := range level {
		set = m.GroupOf(earlier, cpus[0]).CPUs
		if set.Len() == len(cpus) && !slices.ContainsFunc(cpus, func(c idset.CPU) bool { return !set.Has(c) }) {
			return set, true
		}
	}
	return set, false
}

// CoreCPUs returns the CPUs of a core; empty if the machine has no such core.
func (m *Machine) CoreCPUs(c idset.Core) idset.Set[idset.CPU] {
	i, ok := slices.BinarySearch(m.cores, c)
	if !ok {
		return idset.Set[idset.CPU]{}
	}
	return m.groups[Cores][i].CPUs
}

// Groups returns the parts of a level that have CPUs, in ascending order of id.
func (m *Machine) Groups(level Level) []Group { return m.groups[level] }

// GroupOf returns the part of a level that contains a CPU. The machine must have that CPU.
func (m *Machine) GroupOf(level Level, id idset.CPU) *Group {
	return &m.groups[level][m.groupOf[level][id]]
}
