package place

import (
	"fmt"
	"math/bits"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the CPU manager's static policy (cpumanager/policy_static.go). The rules are:
//
//   - Only whole CPUs of Guaranteed pods are exclusive.
//   - The preferred width counts all CPUs of a numa, reserved and held ones too; what fits counts free
//     ones, and those that the pod's init containers leave, whose numas every mask must contain.
//   - CPUs inside the affinity are taken first, the rest from anywhere.
//   - An init container's CPUs stay the pod's until the pod ends, and later containers may take them.

// cpuName is the resource name of CPUs in reasons.
const cpuName = "cpu"

func (a *admission) cpuFamily(l lattice, r request) family {
	m := a.u.Machine
	universe := l.dense(m.WithCPUs())
	must := l.dense(m.MaskOfCPUs(r.spare.cpus))
	whole := l.sums(func(i int) int64 { return int64(m.NUMAs()[i].CPUs.Len()) })
	usable := a.u.free.Union(r.spare.cpus)
	f := family{
		resource: cpuName, want: r.cpus, total: int64(usable.Len()),
		free:  l.sums(func(i int) int64 { return int64(m.NUMAs()[i].CPUs.AndLen(usable)) }),
		width: bits.OnesCount(uint(universe)),
	}
	f.fill(l, universe, func(d int) bool { return whole[d] >= f.want }, func(d int) bool {
		if f.free[d] < f.want {
			return false
		}
		if d&must != must {
			f.tied = true
			return false
		}
		return true
	})
	if a.u.Rules.CPU.AlignBySocket {
		a.preferSockets(l, &f)
	}
	return f
}

// fill sets width, fits and preferred: width is the fewest numas of the universe that would serve the
// want if nothing were held, and fitting masks of that width are preferred.
func (f *family) fill(l lattice, universe int, serves, fits func(d int) bool) {
	f.fits, f.preferred = make([]bool, l.size()), make([]bool, l.size())
	f.impossible = true
	for d := 1; d < l.size(); d++ {
		if d&^universe != 0 {
			continue
		}
		if n := bits.OnesCount(uint(d)); n < f.width && serves(d) {
			f.width = n
		}
		if fits(d) {
			f.fits[d] = true
			f.impossible = false
		}
	}
	for d, ok := range f.fits {
		f.preferred[d] = ok && bits.OnesCount(uint(d)) == f.width
	}
}

// preferSockets also prefers masks that span no more sockets than the width needs (align-by-socket,
// isHintSocketAligned).
func (a *admission) preferSockets(l lattice, f *family) {
	m := a.u.Machine
	perSocket := m.WithCPUs().Len() / len(m.Sockets())
	if perSocket == 0 {
		return
	}
	need := (f.width + perSocket - 1) / perSocket
	for d, ok := range f.fits {
		if ok && socketsOf(m, l.wide(d)).Len() == need {
			f.preferred[d] = true
		}
	}
}

func socketsOf(m *topo.Machine, mask topo.Mask) idset.Set[idset.Socket] {
	var out []idset.Socket
	for _, i := range mask.Positions() {
		for id := range m.NUMAs()[i].CPUs.All() {
			c, _ := m.CPU(id)
			out = append(out, c.Socket)
		}
	}
	return idset.Of(out...)
}

// allocateCPUs gives a container its exclusive CPUs.
func (a *admission) allocateCPUs(i int, h hint) Error {
	c := &a.pod.Containers[i]
	want := int(a.wholeCPUs(c))
	if want == 0 {
		return ""
	}
	if r, ok := a.smt(c, want); !ok {
		a.refuse(r)
		return SMTAlignmentError
	}
	usable := a.u.free.Union(a.spare.cpus)
	var got idset.Set[idset.CPU]
	if h.set {
		near := usable.And(a.near(h.mask))
		var ok bool
		if got, ok = a.u.takeCPUs(near, min(want, near.Len())); !ok {
			return a.shortCPUs(c, want, usable)
		}
	}
	rest, ok := a.u.takeCPUs(usable.Minus(got), want-got.Len())
	if !ok {
		return a.shortCPUs(c, want, usable)
	}
	got = got.Union(rest)
	a.u.free = a.u.free.Minus(got)
	a.taken[i] = a.holding(i)
	a.taken[i].CPUs = got
	if c.Kind == Init {
		a.spare.cpus = a.spare.cpus.Union(got)
	} else {
		a.spare.cpus = a.spare.cpus.Minus(got)
	}
	return ""
}

func (a *admission) shortCPUs(c *Container, want int, usable idset.Set[idset.CPU]) Error {
	a.refuse(Reason{Code: Short, Container: c.Name, Resource: cpuName, Want: int64(want), Have: int64(usable.Len())})
	return UnexpectedAdmissionError
}

// holding returns the entry of a container with its name set.
func (a *admission) holding(i int) Holding {
	h := a.taken[i]
	h.Container, h.Kind = a.pod.Containers[i].Name, a.pod.Containers[i].Kind
	return h
}

// near returns the CPUs that belong to an affinity: those of its numas, or with align-by-socket those
// of their sockets (getAlignedCPUs).
func (a *admission) near(mask topo.Mask) idset.Set[idset.CPU] {
	m := a.u.Machine
	var out idset.Set[idset.CPU]
	for _, i := range mask.Positions() {
		out = out.Union(m.NUMAs()[i].CPUs)
	}
	if a.u.Rules.CPU.AlignBySocket {
		sockets := socketsOf(m, mask)
		for id := range m.CPUs().All() {
			if c, _ := m.CPU(id); sockets.Has(c.Socket) {
				out = out.With(id)
			}
		}
	}
	return out
}

// smt checks full-pcpus-only: CPUs are given out in whole cores, and a core with a reserved CPU is
// nobody's (enforceSMTAlignment). What init containers leave does not count.
func (a *admission) smt(c *Container, want int) (Reason, bool) {
	if !a.u.Rules.CPU.FullPCPUsOnly {
		return Reason{}, true
	}
	m := a.u.Machine
	whole := a.u.free
	for id := range a.u.Rules.CPU.Reserved.All() {
		if at, ok := m.CPU(id); ok {
			whole = whole.Minus(m.CoreCPUs(at.Core))
		}
	}
	if want%cpusPerCore(m) == 0 && want <= whole.Len() {
		return Reason{}, true
	}
	return Reason{Code: SMT, Container: c.Name, Resource: cpuName, Want: int64(want), Have: int64(whole.Len())}, false
}

func cpusPerCore(m *topo.Machine) int { return m.CPUs().Len() / len(m.Cores()) }

// ReserveCPUs returns the CPUs that a kubelet reserves when it is given an amount, not a list: the
// first n that its own packing takes of the whole machine (cpumanager/policy_static.go, NewStaticPolicy).
// A machine with fewer is an error.
func ReserveCPUs(m *topo.Machine, r CPURules, n int) (idset.Set[idset.CPU], error) {
	r.Reserved = idset.Set[idset.CPU]{}
	u := NewUsage(m, Rules{CPU: r})
	if n >= 0 {
		if got, ok := u.takeCPUs(m.CPUs(), n); ok {
			return got, nil
		}
	}
	return idset.Set[idset.CPU]{}, fmt.Errorf("reserve %d CPUs of %d: not possible", n, m.CPUs().Len())
}
