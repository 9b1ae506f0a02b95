package topo

import (
	"crypto/sha256"
	"strconv"
	"weak"
)

// Pool makes machines as [New] does, but of equal descriptions one machine: the nodes of a cluster are of a
// few kinds, and each node is described anew whenever it reports. Machines that differ in their devices
// alone share all the rest.
//
// A pool keeps no machine alive. It finds the machines that somebody else still uses, so what a node said
// earlier takes no memory once the node has said something else, whatever the number of its reports. The zero
// Pool is ready; it is not for several goroutines at once.
type Pool struct {
	hardware shared // machines without devices
	whole    shared
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
	if m := p.whole.get(key); m != nil {
		return m, nil
	}
	m, err := bare.with(s.Devices)
	if err == nil {
		p.whole.put(key, m)
	}
	return m, err
}

// hardware is a text that is equal for descriptions of equal NUMA nodes and cores.
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

// appendDevices adds a text that is equal for descriptions of equal devices. Names may be anything here: New
// has not seen them yet.
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
	}
	return b
}

// minSweep is the least number of machines from which on a pool looks for those that are gone.
const minSweep = 64

// shared finds the machines that are in use, by a digest of their description.
type shared struct {
	machines map[[sha256.Size]byte]weak.Pointer[Machine]
	// sweep is the number of machines at which those that are gone are forgotten: twice as many as were in
	// use last, so that a machine costs the same however many there are.
	sweep int
}

func (r *shared) get(key [sha256.Size]byte) *Machine { return r.machines[key].Value() }

func (r *shared) put(key [sha256.Size]byte, m *Machine) {
	if r.machines == nil || len(r.machines) >= r.sweep {
		live := map[[sha256.Size]byte]weak.Pointer[Machine]{}
		for k, w := range r.machines {
			if w.Value() != nil {
				live[k] = w
			}
		}
		r.machines, r.sweep = live, max(minSweep, 2*len(live))
	}
	r.machines[key] = weak.Make(m)
}
