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
//   - The preferred width counts all CPUs of a NUMA node, reserved and held ones too. A mask fits by its free CPUs
//     and the CPUs that the pod's init containers leave; it must contain the NUMA nodes of what init containers
//     leave.
//   - CPUs inside the affinity are taken first, the rest from anywhere.
//   - An init container's CPUs stay the pod's until the pod ends, and later containers may take them.

// cpuName is the resource name of CPUs in reasons.
const cpuName = "cpu"

// cpuHintSet returns the hint set of the exclusive CPUs of a request.
func (a *admission) cpuHintSet(l *maskSpace, r *request, t tables) hintSet {
	m := a.u.Machine
	universe := l.dense(m.WithCPUs())
	if !a.work.spend(10*l.count() + (2*len(l.at)+4)*a.u.costs.words) {
		return hintSet{resource: cpuName, impossible: true}
	}
	usable := a.u.free.Union(r.spare.cpus)
	for i, at := range l.at {
		t.whole[1<<i] = int64(m.NUMAs()[at].CPUs.Len())
		t.free[1<<i] = int64(m.NUMAs()[at].CPUs.AndLen(usable))
	}
	l.sum(t.whole)
	l.sum(t.free)
	t.open(l, universe)
	t.demand(l, r.cpus)
	f := t.close(l, hintSet{resource: cpuName, want: r.cpus, total: int64(usable.Len()),
		width: bits.OnesCount(uint(universe))})
	for must := l.dense(m.MaskOfCPUs(r.spare.cpus)); must != 0; must &= must - 1 {
		f.ties = append(f.ties, must&-must)
	}
	f.tie(l)
	f.prefer(l)
	if a.u.Rules.CPU.AlignBySocket && a.work.spend(len(f.fits)*len(m.Sockets())) {
		preferSockets(m, l, &f)
	}
	return f
}

// preferSockets also prefers fitting masks that span exactly as many sockets as the width needs (align-by-socket,
// isHintSocketAligned).
func preferSockets(m *topo.Machine, l *maskSpace, f *hintSet) {
	perSocket := m.WithCPUs().Len() / len(m.Sockets())
	if perSocket == 0 {
		return
	}
	need := (f.width + perSocket - 1) / perSocket
	var sockets []int // the NUMA nodes of each socket, as a dense mask
	for _, s := range m.Groups(topo.Sockets) {
		sockets = append(sockets, l.dense(m.MaskOfCPUs(s.CPUs)))
	}
	for d, ok := range f.fits {
		spans := 0
		for _, s := range sockets {
			if d&s != 0 {
				spans++
			}
		}
		f.preferred[d] = f.preferred[d] || (ok && spans == need)
	}
}

// allocateCPUs gives a container its exclusive CPUs. It returns "", or the kubelet's reason for refusing the pod.
func (a *admission) allocateCPUs(i int, h hint) RefusalReason {
	c := &a.pod.Containers[i]
	want := int(a.wholeCPUs(c))
	if want == 0 {
		return ""
	}
	if err := a.smt(c, want); err != "" {
		return err
	}
	a.work.spend(a.u.costs.words * (8 + 2*a.u.numas))
	usable := a.u.free.Union(a.spare.cpus)
	brief := a.brief && a.last(i)
	got, end := cpuSet{}, pickedIf(want <= usable.Len())
	if !brief || !a.u.countDecides(want, usable.Len()) {
		got, end = a.takeCPUs(h, usable, want)
	} else {
		a.work.spend(a.u.costs.picking) // the same steps as for picking, so that Fits and Place agree
	}
	if end != picked {
		a.refuse(a.u.notPicked(end,
			Reason{Container: c.Name, Resource: cpuName, Want: int64(want), Have: int64(usable.Len())}))
		return UnexpectedAdmissionError
	}
	if brief {
		return ""
	}
	a.entryOf(i).CPUs = got
	if !a.last(i) {
		a.bookCPUs(c, got)
	}
	return ""
}

// bookCPUs subtracts a container's CPUs from the usage, and records what an init container leaves to later
// containers.
func (a *admission) bookCPUs(c *Container, got cpuSet) {
	a.ownUsage()
	a.u.setFree(a.u.free.Minus(got))
	if c.Kind == Init {
		a.spare.cpus = a.spare.cpus.Union(got)
	} else {
		a.spare.cpus = a.spare.cpus.Minus(got)
	}
}

// takeCPUs takes CPUs inside the affinity first, and the remaining ones from anywhere.
func (a *admission) takeCPUs(h hint, usable cpuSet, want int) (got cpuSet, end ending) {
	if h.set {
		near := usable.And(a.alignedCPUs(h.mask))
		if got, end = a.u.takeCPUs(near, min(want, near.Len()), &a.work); end != picked {
			return cpuSet{}, end
		}
	}
	rest, end := a.u.takeCPUs(usable.Minus(got), want-got.Len(), &a.work)
	return got.Union(rest), end
}

// notPicked completes the reason for CPUs that could not be picked, with the code Short or Endless.
func (u *Usage) notPicked(end ending, r Reason) Reason {
	if r.Code = Short; end != endless {
		return r
	}
	r.Code = Endless
	if u.Rules.CPU.FullPCPUsOnly {
		var lone cpuSet
		for id := range u.Rules.CPU.Reserved.And(u.Machine.CPUs()).All() {
			if !u.Machine.GroupOf(topo.Cores, id).CPUs.SubsetOf(u.Rules.CPU.Reserved) {
				lone = lone.With(id)
			}
		}
		r.With = lone.String()
	}
	return r
}

// countDecides reports whether comparing n with the number of usable CPUs decides if n CPUs can be picked. It does
// not decide that if CPUs are spread, or if fewer than n are usable and parts of the machine have unequal sizes. The
// kubelet then compares parts with a mean size, and may still find enough (testdata/unequal_*.txt).
func (u *Usage) countDecides(n, usable int) bool {
	return !u.Rules.CPU.DistributeAcrossNUMA && (n <= usable || u.even)
}

// even reports whether all sockets have equally many CPUs, and all cores too.
func even(m *topo.Machine) bool {
	for _, level := range []topo.Level{topo.Sockets, topo.Cores} {
		for _, g := range m.Groups(level) {
			if g.CPUs.Len() != m.Groups(level)[0].CPUs.Len() {
				return false
			}
		}
	}
	return true
}

// alignedCPUs returns the CPUs inside an affinity: the CPUs of its NUMA nodes, or with align-by-socket the CPUs of
// their sockets (getAlignedCPUs).
func (a *admission) alignedCPUs(mask topo.Mask) (out cpuSet) {
	m := a.u.Machine
	for rest := mask; rest != 0; rest &= rest - 1 {
		out = out.Union(m.NUMAs()[rest.First()].CPUs)
	}
	if a.u.Rules.CPU.AlignBySocket {
		for _, s := range m.Groups(topo.Sockets) {
			if m.MaskOfCPUs(s.CPUs)&mask != 0 {
				out = out.Union(s.CPUs)
			}
		}
	}
	return out
}

// smt checks full-pcpus-only: the manager gives out whole cores, and no core that has a reserved CPU
// (enforceSMTAlignment). Like the kubelet, it does not count the CPUs that init containers leave.
func (a *admission) smt(c *Container, want int) RefusalReason {
	if !a.u.Rules.CPU.FullPCPUsOnly {
		return ""
	}
	whole := int(a.u.cpus - a.u.halves)
	if want%a.u.perCore == 0 && want <= whole {
		return ""
	}
	a.refuse(Reason{Code: SMT, Container: c.Name, Resource: cpuName, Want: int64(want), Have: int64(whole)})
	return SMTAlignmentError
}

// coresOf returns all CPUs of the cores that have a CPU in s. It ignores CPUs that the machine lacks.
func coresOf(m *topo.Machine, s cpuSet) cpuSet {
	var out idset.Bits[idset.CPU]
	for id := range s.All() {
		if _, ok := m.CPU(id); ok {
			out.Add(m.GroupOf(topo.Cores, id).CPUs)
		}
	}
	return out.Set()
}

// cpusPerCore returns the mean number of CPUs of a core, rounded down.
func cpusPerCore(m *topo.Machine) int { return m.CPUs().Len() / len(m.Cores()) }

// Reserve returns the n CPUs of m that a kubelet reserves when its configuration has a number and no list. These are
// the CPUs that its static CPU manager takes first on the empty machine (cpumanager/policy_static.go,
// NewStaticPolicy). It ignores r.CPU.Reserved. A machine with fewer than n CPUs is an error.
func (r Rules) Reserve(m *topo.Machine, n int) (idset.Set[idset.CPU], error) {
	r = Rules{Release: r.Release, CPU: r.CPU}
	r.CPU.Reserved = idset.Set[idset.CPU]{}
	u := NewUsage(m, r)
	if n >= 0 {
		if got, end := u.takeCPUs(m.CPUs(), n, &work{}); end == picked {
			return got, nil
		}
	}
	return idset.Set[idset.CPU]{}, fmt.Errorf("reserve %d CPUs of %d: not possible", n, m.CPUs().Len())
}
