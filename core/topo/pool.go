package topo

import (
	"crypto/sha256"
	"strconv"
	"weak"
)

// Pool makes machines as [New] does, but returns the same machine for equal descriptions. This saves memory, because
// a cluster has a few kinds of nodes, and each report describes its node again. Machines that differ only in their
// devices share the rest.
//
// A pool keeps no machine alive. It finds only machines that are still in use, so the machine of a report takes no
// memory once a later report has replaced it. The zero Pool is ready to use. A Pool belongs to one goroutine.
type Pool struct {
	hardware    machineCache // machines without devices
	withDevices machineCache // machines with devices
}

// New checks a description as [New] does.
func (p *Pool) New(s Spec) (*Machine, error) {
	text := s.hardware()
	key := sha256.Sum256(text)
	bare := p.hardware.get(key)
	if bare == nil {
		var err error
		if bare, err = newHardware(s); err != nil {
			return nil, err
		}
		p.hardware.put(key, bare)
	}
	if len(s.Devices) == 0 {
		return bare, nil
	}
	key = sha256.Sum256(s.appendDevices(text))
	if m := p.withDevices.get(key); m != nil {
		return m, nil
	}
	m, err := bare.with(s.Devices)
	if err == nil {
		p.withDevices.put(key, m)
	}
	return m, err
}

// hardware returns a text that is the same for descriptions with equal NUMA nodes and cores.
func (s Spec) hardware() (b []byte) {
	put := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	put(int64(len(s.NUMAs)))
	for _, n := range s.NUMAs {
		put(int64(n.ID))
		put(n.Bytes)
		put(int64(len(n.MemoryKind)))
		b = append(b, n.MemoryKind...)
		put(int64(len(n.Hugepages)))
		for _, h := range n.Hugepages {
			put(h.PageSize)
			put(h.Count)
		}
		put(int64(len(n.Distances)))
		for _, d := range n.Distances {
			put(int64(d))
		}
	}
	put(int64(len(s.Cores)))
	for _, c := range s.Cores {
		put(int64(c.NUMA))
		put(int64(c.Socket))
		put(int64(c.L3))
		for id := range c.CPUs.All() {
			put(int64(id))
		}
		put(-1)
	}
	return b
}

// appendDevices appends a text that is the same for descriptions with equal devices. Names may be arbitrary here,
// since New has not checked them yet.
func (s Spec) appendDevices(b []byte) []byte {
	put := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	for _, d := range s.Devices {
		for _, text := range []string{d.Resource, d.ID, d.Root} {
			put(int64(len(text)))
			b = append(b, text...)
		}
		for _, id := range d.NUMAs {
			put(int64(id))
		}
		put(-1)
		if d.Unhealthy {
			put(-2)
		}
		put(int64(d.List))
	}
	return b
}

// minSweep is the lowest value of machineCache.sweep.
const minSweep = 64

// machineCache finds the machines that are in use, by a digest of their description.
type machineCache struct {
	machines map[[sha256.Size]byte]weak.Pointer[Machine]
	// sweep is the number of entries at which put drops the entries of freed machines. It is twice the number of
	// machines in use at the last sweep, so the cost per machine does not grow with their number.
	sweep int
}

// get returns the machine with this digest, or nil if no such machine is in use.
func (s *machineCache) get(key [sha256.Size]byte) *Machine { return s.machines[key].Value() }

// put stores a machine. From time to time it also drops the entries of freed machines; see sweep.
func (s *machineCache) put(key [sha256.Size]byte, m *Machine) {
	if s.machines == nil || len(s.machines) >= s.sweep {
		live := map[[sha256.Size]byte]weak.Pointer[Machine]{}
		for k, w := range s.machines {
			if w.Value() != nil {
				live[k] = w
			}
		}
		s.machines, s.sweep = live, max(minSweep, 2*len(live))
	}
	s.machines[key] = weak.Make(m)
}
