package place

import (
	"cmp"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file picks CPUs out of a set as the CPU manager does (cpumanager/cpu_assignment.go). The rules are:
//
//  - Whole sockets, then whole NUMA nodes (the other way round if there are at least as many sockets as NUMA nodes),
//    then whole L3 groups (option), then whole cores, then single CPUs.
//  - A part is one socket, NUMA node, L3 group or core. At every level the part with the fewest free CPUs goes first,
//    and the lower id among equal ones; parts are sorted inside the part above them.
//  - distribute-cpus-across-numa spreads a want evenly over the fewest NUMA nodes that can take it evenly.

type cpuSet = idset.Set[idset.CPU]

// ending is how picking CPUs ends.
type ending int

const (
	failed ending = iota // there are not enough CPUs, or not enough for even shares
	picked
	// endless: the kubelet does not stop in useful time. It hands out a remainder group by group to NUMA nodes that
	// have no group left, or looks at more than maxSets sets of NUMA nodes.
	endless
	// exhausted: computing the CPUs needs more than maxWork steps.
	exhausted
)

func pickedIf(ok bool) ending {
	if ok {
		return picked
	}
	return failed
}

// takeCPUs picks n CPUs out of a set: spread over NUMA nodes or packed, by the options of the CPU manager.
func (u *Usage) takeCPUs(from cpuSet, n int, w *work) (cpuSet, ending) {
	r := u.Rules.CPU
	if r.DistributeAcrossNUMA {
		group := 1
		if r.FullPCPUsOnly {
			group = cpusPerCore(u.Machine)
		}
		return u.takeSpread(from, n, group, w)
	}
	return u.takePacked(from, n, r.PreferAlignByUncoreCaches, w)
}

// picker is the state of one packing.
type picker struct {
	m      *topo.Machine
	free   idset.Bits[idset.CPU] // not yet picked
	picked idset.Bits[idset.CPU]
	rest   idset.Bits[idset.CPU] // scratch: in partsOf, the CPUs that are in no part yet
	need   int                   // CPUs still to pick
	// numaFirst: NUMA nodes are taken before sockets, because there are at least as many sockets as NUMA nodes with
	// CPUs.
	numaFirst bool
	spread    bool // distribute-cpus-across-cores
	roundUp   bool // an odd number of CPUs is given part of an L3 group, too
	// ownSize: a part counts as wholly free by its own size. The agent decides so; a kubelet compares with the mean
	// size.
	ownSize bool
	words   int // the steps of going through one part
	work    work
}

func (u *Usage) picker(from cpuSet, n int, w work) picker {
	m := u.Machine
	return picker{m: m, free: from.And(m.CPUs()).Bits(), need: n, work: w, words: u.costs.words,
		ownSize:   u.Rules.Arbiter == ByAgent,
		spread:    u.Rules.CPU.DistributeAcrossCores,
		roundUp:   u.Rules.Release.has(threadsRoundUp),
		numaFirst: len(m.Sockets()) >= m.WithCPUs().Len()}
}

// takePacked picks n CPUs out of a set, in as few parts as the rules allow. byL3 is prefer-align-cpus-by-uncorecache.
func (u *Usage) takePacked(from cpuSet, n int, byL3 bool, w *work) (cpuSet, ending) {
	if n <= 0 {
		return cpuSet{}, picked
	}
	p := u.picker(from, n, *w)
	if p.need > p.free.Len() {
		return cpuSet{}, failed
	}
	if p.numaFirst {
		p.takeNUMAs()
		p.takeSockets()
	} else {
		p.takeSockets()
		p.takeNUMAs()
	}
	if byL3 {
		p.takeL3s()
	}
	if !p.spread {
		p.takeCores()
	}
	p.takeSingles()
	if *w = p.work; w.over() {
		return cpuSet{}, exhausted
	}
	return p.picked.Set(), pickedIf(p.need <= 0)
}

// take picks all CPUs of a set.
func (p *picker) take(s cpuSet) {
	p.work.spend(p.words)
	p.picked.Add(s)
	p.free.Drop(s)
	p.need -= s.Len()
}

// part is a NUMA node, socket, L3 group or core with its number of free CPUs.
type part struct {
	*topo.Group
	free int
}

// order sorts parts by their number of free CPUs, then id.
func order(parts []part) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.ID, b.ID)) })
}

// partsOf appends the parts of a level that have free CPUs in set, ordered. Each part counts all its free CPUs, also
// those outside the set.
func (p *picker) partsOf(out []part, set cpuSet, level topo.Level) []part {
	return p.partsWith(out, set, level, 0)
}

// partsWith is partsOf for the parts whose number of free CPUs is free; 0 means any number.
func (p *picker) partsWith(out []part, set cpuSet, level topo.Level, free int) []part {
	from := len(out)
	p.work.spend(p.words)
	p.rest.Meet(&p.free, set)
	for id := p.rest.Min(); id >= 0 && p.work.spend(p.words); id = p.rest.Min() {
		g := p.m.GroupOf(level, id)
		if n := p.free.AndLen(g.CPUs); free == 0 || n == free {
			out = append(out, part{g, n})
		}
		p.rest.Drop(g.CPUs)
	}
	order(out[from:])
	return out
}

// numas and sockets return the NUMA nodes or sockets that have free CPUs. The level that is taken second is sorted
// inside the parts of the level that is taken first.
func (p *picker) numas() []part {
	if p.numaFirst {
		return p.partsOf(nil, p.m.CPUs(), topo.NUMAs)
	}
	return p.inside(p.sockets(), topo.NUMAs)
}

func (p *picker) sockets() []part {
	if p.numaFirst {
		return p.inside(p.numas(), topo.Sockets)
	}
	return p.partsOf(nil, p.m.CPUs(), topo.Sockets)
}

// inside returns the parts of a level, sorted inside each outer part. As in the kubelet, a part is listed twice if
// two outer parts have CPUs of it.
func (p *picker) inside(outer []part, level topo.Level) []part {
	out := make([]part, 0, min(len(p.m.Groups(level)), p.free.Len()))
	for _, o := range outer {
		out = p.partsOf(out, o.CPUs, level)
	}
	return out
}

func (p *picker) cores() []part { return p.inside(p.aboveCores(), topo.Cores) }

// aboveCores returns the parts that cores are sorted inside.
func (p *picker) aboveCores() []part {
	if p.numaFirst {
		return p.sockets()
	}
	return p.numas()
}

// takeWhole takes each part that is wholly free and not larger than the need. A part is wholly free if it has size
// free CPUs; size 0 stands for the part's own number of CPUs. Where the agent decides, the size is always the part's
// own, and a part that is listed twice is taken once.
func (p *picker) takeWhole(parts []part, size int) {
	for _, x := range parts {
		all := x.CPUs.Len()
		if p.ownSize {
			size, x.free = 0, p.free.AndLen(x.CPUs)
		}
		if x.free == cmp.Or(size, all) && p.need >= all {
			p.take(x.CPUs)
		}
	}
}

func (p *picker) takeNUMAs() {
	if p.need > 0 {
		p.takeWhole(p.numas(), 0)
	}
}

// takeSockets counts a socket as wholly free if its free CPUs are as many as the machine's mean per socket. The
// kubelet does so, too; it may therefore count a part of a larger socket as whole. [ByAgent] compares with the
// socket's own size.
func (p *picker) takeSockets() {
	mean := p.m.CPUs().Len() / len(p.m.Sockets())
	if p.ownSize {
		mean = 1
	}
	if p.need >= mean { // a socket with that many free CPUs is no smaller
		p.takeWhole(p.sockets(), mean)
	}
}

// takeCores counts a core as wholly free if its free CPUs are as many as the machine's mean per core, as the kubelet
// does. It lists the cores part by part of the level above, and stops when no core is needed any more. [ByAgent]
// compares with the core's own size.
func (p *picker) takeCores() {
	mean := cpusPerCore(p.m)
	with := mean
	if p.ownSize {
		mean, with = 1, 0
	}
	if p.need < max(1, mean) {
		return
	}
	var few [32]part
	for _, o := range p.aboveCores() {
		if p.need < mean {
			return
		}
		p.takeWhole(p.partsWith(few[:0], o.CPUs, topo.Cores, with), with)
	}
}

// takeSingles takes the needed CPUs one by one, or nothing if there are fewer.
func (p *picker) takeSingles() {
	if p.need <= 0 {
		return
	}
	ids := p.singles()
	if p.ownSize {
		ids = once(ids)
	}
	if len(ids) >= p.need {
		p.take(idset.Of(ids[:p.need]...))
		p.need = 0 // a CPU listed twice counts twice, as in the kubelet
	}
}

// once returns the CPUs in the same order, each one time.
func once(ids []idset.CPU) (out []idset.CPU) {
	var seen cpuSet
	for _, id := range ids {
		if !seen.Has(id) {
			seen, out = seen.With(id), append(out, id)
		}
	}
	return out
}

// singles lists the free CPUs core by core, or with distribute-cpus-across-cores socket by socket.
func (p *picker) singles() (out []idset.CPU) {
	var parts []part
	if p.spread {
		parts = p.sockets()
	} else {
		parts = p.cores()
	}
	for _, x := range parts {
		p.work.spend(3 * p.words)
		p.rest.Meet(&p.free, x.CPUs)
		own := p.rest.Set()
		for id := range own.All() {
			out = append(out, id)
		}
	}
	return out
}

// takeL3s takes whole L3 groups, and then cores of one more group, as many as are still needed
// (prefer-align-cpus-by-uncorecache, takeUncoreCache).
func (p *picker) takeL3s() {
	if p.need <= 0 {
		return
	}
	mean := p.m.CPUs().Len() / len(p.m.L3s())
	parts := p.inside(p.numas(), topo.L3s)
	if p.need >= mean { // the kubelet tries this for each part, but only the first try can take anything
		p.takeWhole(parts, 0)
	}
	for _, x := range parts {
		if p.need <= 0 || p.work.over() {
			return
		}
		p.takePartOfL3(x.CPUs)
	}
}

// takePartOfL3 takes the free CPUs of the lowest cores of an L3 group, or nothing if these are not exactly the needed
// number.
func (p *picker) takePartOfL3(l3 cpuSet) {
	per := cpusPerCore(p.m)
	cores := p.need / per
	if p.roundUp {
		cores = (p.need + per - 1) / per
	}
	parts := p.partsOf(nil, l3, topo.Cores)
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.ID, b.ID) })
	var got idset.Bits[idset.CPU]
	for _, x := range parts[:min(cores, len(parts))] {
		p.work.spend(2 * p.words)
		p.rest.Meet(&p.free, x.CPUs)
		got.Add(p.rest.Set())
	}
	ids := got.Set().List()
	// An odd need on machines with threads: one CPU of the last core is enough.
	if p.roundUp && p.need%2 != 0 && per > 1 && len(ids) > p.need {
		ids = ids[:len(ids)-1]
	}
	if len(ids) == p.need {
		p.take(idset.Of(ids...))
	}
}
