package topo

import (
	"strconv"
)

// Pool makes machines as [New] does, but of equal descriptions one machine: the nodes of a cluster are of a
// few kinds, and each node is described anew whenever it reports. Machines that differ in their devices
// alone share all the rest. The zero Pool is ready; it is not for several goroutines at once.
type Pool struct {
	hardware recent[string]
	whole    recent[poolKey]
}

// poolKey is a machine without devices, and its devices.
type poolKey struct {
	hardware *Machine
	devices  string
}

// New checks a description as [New] does.
func (p *Pool) New(s Spec) (*Machine, error) {
	key := s.hardware()
	bare, ok := p.hardware.get(key)
	if !ok {
		var err error
		if bare, err = New(Spec{NUMAs: s.NUMAs, Cores: s.Cores}); err != nil {
			return nil, err
		}
		p.hardware.put(key, bare)
	}
	if len(s.Devices) == 0 {
		return bare, nil
	}
	full := poolKey{bare, s.devices()}
	if m, ok := p.whole.get(full); ok {
		return m, nil
	}
	m := *bare
	if err := m.addDevices(s.Devices); err != nil {
		return nil, err
	}
	p.whole.put(full, &m)
	return &m, nil
}

// hardware is a text that is equal for descriptions of equal numas and cores.
func (s Spec) hardware() string {
	var b []byte
	put := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	put(int64(len(s.NUMAs)))
	for _, n := range s.NUMAs {
		put(int64(n.ID))
		put(n.Bytes)
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
	for _, c := range s.Cores {
		put(int64(c.NUMA))
		put(int64(c.Socket))
		put(int64(c.L3))
		for id := range c.CPUs.All() {
			put(int64(id))
		}
		put(-1)
	}
	return string(b)
}

// devices is a text that is equal for descriptions of equal devices. Names may be anything here: New has
// not seen them yet.
func (s Spec) devices() string {
	var b []byte
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
	return string(b)
}

// maxRecent bounds what a pool remembers of each sort: twice as many.
const maxRecent = 512

// recent remembers the machines that were asked for last.
type recent[K comparable] struct {
	young, old map[K]*Machine
}

func (r *recent[K]) get(key K) (*Machine, bool) {
	if m, ok := r.young[key]; ok {
		return m, true
	}
	m, ok := r.old[key]
	if ok {
		r.put(key, m)
	}
	return m, ok
}

func (r *recent[K]) put(key K, m *Machine) {
	if r.young == nil || len(r.young) >= maxRecent {
		r.old, r.young = r.young, map[K]*Machine{}
	}
	r.young[key] = m
}
