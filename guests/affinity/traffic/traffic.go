// Package traffic measures what the pods of one node send each other, from the kernel's own counters of TCP sockets
// (sock_diag(7)). It needs no kernel module and no program in the kernel, and works on every architecture.
//
// A socket's counters say how many bytes its peer has acknowledged and how many it has received. Its local end is
// the pod that owns the network namespace, or in the node's namespace the pod whose cgroup opened it. Its remote end
// is the pod with that IP, or the owner of the other end in the same namespace.
//
// Invariant: one call of Step takes little more than [Config.Budget] of CPU time, and what is kept is bounded by
// [Config.MaxSockets]. To read one namespace, the kernel goes through the sockets of all namespaces. So on a node
// with many pods, a round may take several calls. A rate is what was sent since the namespace was read before.
//
// The package cannot see connections that open and close between two rounds, UDP, unix sockets and shared memory. If
// two pods reach each other only by Services, it sees only the direction with more traffic.
package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Socket is an established TCP connection as one end has it.
type Socket struct {
	Cookie        uint64 // identifies the socket in its namespace for as long as it exists
	Cgroup        uint64 // ID of the cgroup in the unified hierarchy that opened it; 0 if unknown
	Local, Remote netip.AddrPort
	// Bytes is the sum of what the other end has acknowledged and what was received from it, since the connection was
	// made.
	Bytes uint64
}

// Reader reads the sockets of the network namespace at path. It calls each once per socket, for at most limit
// sockets, and returns true if these are all sockets of the namespace.
type Reader func(path string, limit int, each func(Socket)) (whole bool, err error)

// Pod is a pod whose traffic is measured, or with which others exchange data.
type Pod struct {
	ID string
	// Namespace is the path of the pod's network namespace; for a pod in the node's own namespace it equals
	// [Config.Node]. If it is empty, the pod's own sockets are not read, and only other pods see its traffic, by its
	// IPs.
	Namespace string
	IPs       []netip.Addr
	// Cgroups are the pod's containers' cgroups, by their ID in the unified hierarchy. Only pods in the node's own
	// network namespace need them.
	Cgroups []uint64
}

// Pair is what two pods exchange per second, in both directions together; A < B.
type Pair struct {
	A, B  string
	Bytes int64
}

// Sample is the result of a round, in which the sockets of all pods were read once.
type Sample struct {
	Pairs   []Pair // in ascending order
	Sockets int    // how many were read
	// Used is the CPU time that reading took.
	Used time.Duration
	// Incomplete is set if there are more sockets than may be read, so that some were not.
	Incomplete bool
	// Failed is the reason why some namespaces could not be read, or nil. It is normal that a pod ends meanwhile.
	Failed error
}

// Config is what a Meter needs.
type Config struct {
	Read Reader
	// Node is the path of the node's own network namespace. If it is "", the pods in that namespace are not measured.
	Node string
	// MaxSockets bounds the sockets whose counters are kept; one namespace may have a quarter of them.
	MaxSockets int
	// Budget is the CPU time after which a Step stops, so that the next Step continues the round; 0 means no bound.
	// Clock returns the CPU time that was used so far. If Clock is nil, there is no bound, and every Step is a round.
	Budget time.Duration
	Clock  func() time.Duration
}

// maxRate bounds what is accepted as the traffic of one pair, in bytes per second: a terabyte.
const maxRate = 1 << 40

// Meter keeps the counters of sockets between rounds. It must not be used by several goroutines at once.
type Meter struct {
	cfg    Config
	spaces map[string]*space
	kept   int // counters in spaces
	// round is the round that has begun; nil between rounds.
	round *round
}

// space is what was read last of a network namespace.
type space struct {
	at       time.Time
	whole    bool // all sockets were read the last time
	counters map[uint64]uint64
}

// round is what was found since a round began.
type round struct {
	remaining []string // paths of the namespaces to be read
	// seen is the bytes per second that sockets of one pod exchange with another pod; the first of the two owns the
	// sockets.
	seen   map[[2]string]float64
	failed []error
	Sample
}

// New returns a Meter that has seen nothing: its first round finds no traffic.
func New(cfg Config) *Meter {
	if cfg.Clock == nil {
		cfg.Clock = func() time.Duration { return 0 }
	}
	return &Meter{cfg: cfg, spaces: map[string]*space{}}
}

// Step reads namespaces of pods, at least one, until the budget is used up. If that completes the round, ok is true
// and out is the round's Sample.
func (m *Meter) Step(pods []Pod, now time.Time) (out Sample, ok bool) {
	r := m.newReading(pods)
	if m.round == nil {
		m.round = &round{remaining: r.paths(), seen: map[[2]string]float64{}}
		for path := range m.spaces {
			if _, there := r.ofSpace[path]; !there {
				m.forget(path)
			}
		}
	}
	began := m.cfg.Clock()
	defer func() { out.Used += m.cfg.Clock() - began }()
	for len(m.round.remaining) > 0 {
		path := m.round.remaining[0]
		m.round.remaining = m.round.remaining[1:]
		if _, there := r.ofSpace[path]; !there {
			continue
		}
		if err := r.read(path, now); err != nil {
			m.round.failed = append(m.round.failed, fmt.Errorf("sockets of namespace %s: %w", path, err))
			m.forget(path)
		}
		if m.cfg.Budget > 0 && m.cfg.Clock()-began >= m.cfg.Budget {
			break
		}
	}
	if len(m.round.remaining) > 0 {
		m.round.Used += m.cfg.Clock() - began
		return Sample{}, false
	}
	out = m.round.Sample
	out.Pairs, out.Failed = m.round.pairs(), errors.Join(m.round.failed...)
	m.round = nil
	return out, true
}

// forget drops the counters of a namespace.
func (m *Meter) forget(path string) {
	if s := m.spaces[path]; s != nil {
		m.kept -= len(s.counters)
		delete(m.spaces, path)
	}
}

// reading finds the pods at both ends of a connection.
type reading struct {
	*Meter
	ofSpace  map[string]string // the pod that owns a namespace; "" for the node's own
	ofIP     map[netip.Addr]string
	ofCgroup map[uint64]string
}

// newReading returns a reading that finds the given pods by namespace, IP and cgroup.
func (m *Meter) newReading(pods []Pod) *reading {
	r := &reading{Meter: m, ofSpace: map[string]string{}, ofIP: map[netip.Addr]string{}, ofCgroup: map[uint64]string{}}
	for _, p := range pods {
		switch p.Namespace {
		case "":
		case m.cfg.Node:
			r.ofSpace[p.Namespace] = ""
			for _, id := range p.Cgroups {
				r.ofCgroup[id] = p.ID
			}
			continue // the pod's IPs are the node's
		default:
			r.ofSpace[p.Namespace] = p.ID
		}
		for _, ip := range p.IPs {
			r.ofIP[ip.Unmap()] = p.ID
		}
	}
	return r
}

// paths returns the paths of the namespaces to be read, sorted.
func (r *reading) paths() (out []string) {
	for path := range r.ofSpace {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// halves are ends of connections between pods of the node's own namespace, by local and remote address.
type halves map[[2]netip.AddrPort]half

// half is one end of a connection: its pod, and the bytes per second that it counted.
type half struct {
	pod  string
	rate float64
}

// read reads the namespace at path, compares the counters with the last ones, and adds the differences to the round
// as rates. The first time, there is nothing to compare with, so it finds no traffic.
func (r *reading) read(path string, now time.Time) error {
	last := r.spaces[path]
	next := &space{at: now, counters: map[uint64]uint64{}}
	seconds, limit := 0.0, r.cfg.MaxSockets-r.kept
	if last != nil {
		seconds, limit = now.Sub(last.at).Seconds(), limit+len(last.counters)
	}
	inside := halves{}
	var err error
	next.whole, err = r.cfg.Read(path, min(limit, max(1, r.cfg.MaxSockets/4)), func(s Socket) {
		next.counters[s.Cookie] = s.Bytes
		if seconds <= 0 {
			return
		}
		before, known := last.counters[s.Cookie]
		if !known && !last.whole || s.Bytes < before {
			return // the socket may be older than the last read, so its rate is unknown
		}
		if n := s.Bytes - before; n > 0 {
			r.count(path, s, float64(n)/seconds, inside)
		}
	})
	if err != nil {
		return err
	}
	for ends, h := range inside {
		if o, ok := inside[[2]netip.AddrPort{ends[1], ends[0]}]; ok && o.pod != h.pod {
			r.round.seen[[2]string{h.pod, o.pod}] += h.rate
		}
	}
	r.forget(path)
	r.spaces[path] = next
	r.kept += len(next.counters)
	r.round.Sockets += len(next.counters)
	r.round.Incomplete = r.round.Incomplete || !next.whole
	return nil
}

// count adds the rate of a socket to what its pod exchanges with the pod at the other end. In the node's own
// namespace, the other pod is not known by its IP: count stores this end in inside, where read finds both ends.
func (r *reading) count(path string, s Socket, rate float64, inside halves) {
	local := r.ofSpace[path]
	if path == r.cfg.Node {
		local = r.ofCgroup[s.Cgroup]
	}
	if local == "" {
		return
	}
	remote := r.ofIP[s.Remote.Addr().Unmap()]
	switch {
	case remote == local:
	case remote != "":
		r.round.seen[[2]string{local, remote}] += rate
	case path == r.cfg.Node:
		inside[[2]netip.AddrPort{unmapped(s.Local), unmapped(s.Remote)}] = half{local, rate}
	}
}

// unmapped returns an IPv4 address in its own form, also if it was given as an IPv6 address.
func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// pairs returns what pods exchange. Both ends of a connection count the same bytes, but one end may not see the
// other: for example, a client that uses the address of a Service does not see the server. So pairs takes the end
// that has seen more.
func (r *round) pairs() (out []Pair) {
	for ends, rate := range r.seen {
		back, seen := r.seen[[2]string{ends[1], ends[0]}]
		if seen && (rate < back || rate == back && ends[0] > ends[1]) {
			continue
		}
		out = append(out, Pair{min(ends[0], ends[1]), max(ends[0], ends[1]), int64(min(rate, maxRate))})
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	return out
}
