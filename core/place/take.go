package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file picks CPUs out of a set as the CPU manager does (cpumanager/cpu_assignment.go). The rules are:
//
//   - Whole sockets, then whole numas (the other way round where there are no fewer sockets than numas),
//     then whole L3 groups (option), then whole cores, then single CPUs.
//   - Everywhere the part with the fewest free CPUs goes first, ties by the lower id; parts are sorted
//     inside the part above them.
//   - distribute-cpus-across-numa spreads a want evenly over the fewest numas that can take it evenly.

type cpuSet = idset.Set[idset.CPU]

// ending is how picking CPUs ends.
type ending int

const (
	failed ending = iota
	picked
	// endless: the kubelet hands out what does not divide evenly, group by group, to numas that have no
	// group left, and does not stop; or it looks at more sets of numas than anybody waits for.
	endless
)

// maxSets bounds the sets of numas that a search looks at. 8 numas have fewer than 7,000; a kubelet looks at
// a million for some ten seconds, with its lock held, and at all those of 36 numas for years.
const maxSets = 1 << 20

func pickedIf(ok bool) ending {
	if ok {
		return picked
	}
	return failed
}

// takeCPUs picks n CPUs out of from.
func (u *Usage) takeCPUs(from cpuSet, n int) (cpuSet, ending) {
	r := u.Rules.CPU
	if r.DistributeAcrossNUMA {
		group := 1
		if r.FullPCPUsOnly {
			group = cpusPerCore(u.Machine)
		}
		return u.takeSpread(from, n, group)
	}
	got, ok := u.takePacked(from, n, r.PreferAlignByUncoreCaches)
	return got, pickedIf(ok)
}

// picker is one packing under way.
type picker struct {
	m      *topo.Machine
	free   idset.Bits[idset.CPU] // not yet picked
	picked idset.Bits[idset.CPU]
	rest   idset.Bits[idset.CPU] // what partsOf has not put into a part yet
	need   int
	// numaFirst: sockets lie inside numas, or are as many.
	numaFirst bool
	spread    bool // distribute-cpus-across-cores
}

func (u *Usage) picker(from cpuSet, n int) picker {
	m := u.Machine
	return picker{m: m, free: from.And(m.CPUs()).Bits(), need: n, spread: u.Rules.CPU.DistributeAcrossCores,
		numaFirst: len(m.Sockets()) >= m.WithCPUs().Len()}
}

func (u *Usage) takePacked(from cpuSet, n int, byL3 bool) (cpuSet, bool) {
	if n <= 0 {
		return cpuSet{}, true
	}
	p := u.picker(from, n)
	if p.need > p.free.Len() {
		return cpuSet{}, false
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
	return p.picked.Set(), p.need <= 0
}

func (p *picker) take(s cpuSet) {
	p.picked.Add(s)
	p.free.Drop(s)
	p.need -= s.Len()
}

// part is a numa, socket, L3 group or core with its number of free CPUs.
type part struct {
	*topo.Group
	free int
}

// order sorts parts by their number of free CPUs, then id.
func order(parts []part) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.ID, b.ID)) })
}

// partsOf adds the parts of a level that have free CPUs in a set, ordered; each part counts its free
// CPUs in all of p.free, also those outside the set.
func (p *picker) partsOf(out []part, set cpuSet, level topo.Level) []part {
	from := len(out)
	p.rest.Meet(&p.free, set)
	for id := p.rest.Min(); id >= 0; id = p.rest.Min() {
		g := p.m.GroupOf(level, id)
		out = append(out, part{g, p.free.AndLen(g.CPUs)})
		p.rest.Drop(g.CPUs)
	}
	order(out[from:])
	return out
}

// numas and sockets return the parts that have free CPUs, the inner ones sorted inside the outer ones.
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

func (p *picker) inside(outer []part, level topo.Level) []part {
	out := make([]part, 0, min(len(p.m.Groups(level)), p.free.Len()))
	for _, o := range outer {
		out = p.partsOf(out, o.CPUs, level)
	}
	return out
}

func (p *picker) cores() []part {
	if p.numaFirst {
		return p.inside(p.sockets(), topo.Cores)
	}
	return p.inside(p.numas(), topo.Cores)
}

// takeWhole takes the parts that are wholly free, as far as the need is at least as large. A part is
// wholly free if it has this many free CPUs; 0 stands for its own number.
func (p *picker) takeWhole(parts []part, size int) {
	for _, x := range parts {
		all := x.CPUs.Len()
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

// takeSockets counts a socket as whole by the machine's mean CPUs per socket, as the kubelet does.
func (p *picker) takeSockets() {
	mean := p.m.CPUs().Len() / len(p.m.Sockets())
	if p.need >= mean { // a part with that many free CPUs is no smaller
		p.takeWhole(p.sockets(), mean)
	}
}

// takeCores counts a core as whole by the machine's mean CPUs per core, as the kubelet does.
func (p *picker) takeCores() {
	mean := cpusPerCore(p.m)
	if p.need >= max(1, mean) {
		p.takeWhole(p.cores(), mean)
	}
}

func (p *picker) takeSingles() {
	if p.need <= 0 {
		return
	}
	if ids := p.singles(); len(ids) >= p.need {
		p.take(idset.Of(ids[:p.need]...))
		p.need = 0 // a CPU that is listed twice counts twice, as it does for the kubelet
	}
}

// singles lists the free CPUs core by core, or with distribute-cpus-across-cores socket by socket.
func (p *picker) singles() (out []idset.CPU) {
	parts := p.cores
	if p.spread {
		parts = p.sockets
	}
	for _, x := range parts() {
		p.rest.Meet(&p.free, x.CPUs)
		own := p.rest.Set()
		for id := range own.All() {
			out = append(out, id)
		}
	}
	return out
}

// takeL3s takes whole L3 groups, and of one more group as many cores as are still needed
// (prefer-align-cpus-by-uncorecache, takeUncoreCache).
func (p *picker) takeL3s() {
	if p.need <= 0 {
		return
	}
	mean := p.m.CPUs().Len() / len(p.m.L3s())
	for _, x := range p.inside(p.numas(), topo.L3s) {
		if p.need >= mean {
			p.takeWhole(p.inside(p.numas(), topo.L3s), 0)
		}
		if p.need > 0 {
			p.takePartOfL3(x.CPUs)
		}
		if p.need <= 0 {
			return
		}
	}
}

func (p *picker) takePartOfL3(l3 cpuSet) {
	per := cpusPerCore(p.m)
	cores := (p.need + per - 1) / per
	parts := p.partsOf(nil, l3, topo.Cores)
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.ID, b.ID) })
	var got idset.Bits[idset.CPU]
	for _, x := range parts[:min(cores, len(parts))] {
		p.rest.Meet(&p.free, x.CPUs)
		got.Add(p.rest.Set())
	}
	ids := got.Set().List()
	// An odd need on machines with threads: one CPU of the last core is enough.
	if p.need%2 != 0 && per > 1 && len(ids) > p.need {
		ids = ids[:len(ids)-1]
	}
	if len(ids) == p.need {
		p.take(idset.Of(ids...))
	}
}

// takeSpread implements distribute-cpus-across-numa (KEP-2902, takeByTopologyNUMADistributed): over the
// fewest numas that can each give an even share in whole groups of CPUs; what does not divide goes to
// the subset that leaves the machine most even. Where no numas can, it packs.
func (u *Usage) takeSpread(from cpuSet, n, group int) (cpuSet, ending) {
	p := u.picker(from, n)
	if n > 0 && n%group == 0 && n <= p.free.Len() {
		s := spreading{p: &p, n: n, group: group}
		for _, x := range p.numas() {
			s.numas = append(s.numas, x.ID)
		}
		least, most := s.span()
		for k := least; k <= most; k++ {
			combo, extra := s.best(k)
			switch {
			case s.endless:
				return cpuSet{}, endless
			case combo != nil:
				return u.hand(&p, combo, extra, n, group)
			}
		}
	}
	got, ok := u.takePacked(from, n, false)
	return got, pickedIf(ok)
}

// spreading searches the numas to spread a want over.
type spreading struct {
	p     *picker
	numas []int // positions, in the order in which the kubelet sorts them
	n     int   // CPUs wanted
	group int   // CPUs that stay together
	sets  int   // of numas that were looked at
	// endless: the kubelet does not come to the end of this search.
	endless bool
}

func (s *spreading) freeOn(numa int) int { return s.p.free.AndLen(s.p.m.NUMAs()[numa].CPUs) }

// span returns the fewest and the most numas that the want can take.
func (s *spreading) span() (least, most int) {
	groups := (s.p.m.CPUs().Len()-1)/s.group + 1
	perNUMA := (groups-1)/s.p.m.WithCPUs().Len() + 1
	wanted := (s.n-1)/s.group + 1
	return (wanted-1)/perNUMA + 1, min(wanted, len(s.numas))
}

// best returns the k numas to spread over and those that take the remainder; combo is nil where no k
// numas will do. The kubelet's own iterator hands out slices that share memory between combinations of
// one prefix, so a remembered combination may change under it; combinations does the same.
func (s *spreading) best(k int) (combo, extra []int) {
	bestScore := math.MaxFloat64
	combinations(s.numas, k, func(c []int) bool {
		if bestScore == 0 {
			return false
		}
		if score, rest, ok := s.score(c); ok && score < bestScore {
			bestScore, combo, extra = score, c, rest
		}
		return !s.endless
	})
	return combo, extra
}

// look counts a set of numas that is looked at.
func (s *spreading) look() {
	s.sets++
	s.endless = s.endless || s.sets > maxSets
}

// remains is the number of free CPUs by position of the numa.
type remains [topo.MaxNUMAs]int

// score says how even the machine is after spreading over the numas of a combination.
func (s *spreading) score(combo []int) (score float64, extra []int, ok bool) {
	s.look()
	share := s.n / len(combo) / s.group * s.group
	total, groups := 0, 0
	for _, numa := range combo {
		free := s.freeOn(numa)
		total += free
		groups += free / s.group
		if free < share {
			return 0, nil, false
		}
	}
	if total < s.n || groups*s.group < s.n {
		return 0, nil, false
	}
	var left remains
	for _, numa := range s.numas {
		left[numa] = s.freeOn(numa)
	}
	var takers []int
	for _, numa := range combo {
		if left[numa] -= share; left[numa] >= s.group {
			takers = append(takers, numa)
		}
	}
	rest := s.n - share*len(combo)
	if rest == 0 {
		return deviation(s.numas, left), nil, true
	}
	score = math.MaxFloat64
	for k := len(takers); k >= 1 && !s.endless; k-- {
		combinations(takers, k, func(sub []int) bool {
			if d, ok := s.afterRest(sub, left, rest); ok && d < score {
				score, extra = d, sub
			}
			return !s.endless
		})
	}
	return score, extra, true
}

// afterRest is the evenness after the remainder went to a subset. The kubelet adds up the free CPUs of
// the subset to see whether they suffice, but takes whole groups: CPUs that belong to no whole group, as
// half reserved cores leave them, make it go round for ever.
func (s *spreading) afterRest(sub []int, left remains, rest int) (float64, bool) {
	s.look()
	sum := 0
	for _, numa := range sub {
		sum += left[numa]
	}
	if sum < rest {
		return 0, false
	}
	for rest > 0 {
		moved := false
		for _, numa := range sub {
			if rest > 0 && left[numa] >= s.group {
				left[numa] -= s.group
				rest -= s.group
				moved = true
			}
		}
		if !moved {
			s.endless = true
			return 0, false
		}
	}
	return deviation(s.numas, left), true
}

// deviation is the standard deviation, mean and result rounded to thousandths as the kubelet rounds.
func deviation(numas []int, left remains) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	n := float64(len(numas))
	var sum, squares float64
	for _, numa := range numas {
		sum += float64(left[numa])
	}
	mean := round(sum / n)
	for _, numa := range numas {
		squares += (float64(left[numa]) - mean) * (float64(left[numa]) - mean)
	}
	return round(math.Sqrt(squares / n))
}

// hand takes the even share of every numa of a combination, then the remainder in groups.
func (u *Usage) hand(p *picker, combo, extra []int, n, group int) (cpuSet, ending) {
	share := n / len(combo) / group * group
	give := func(numa, count int) {
		p.rest.Meet(&p.free, p.m.NUMAs()[numa].CPUs)
		got, _ := u.takePacked(p.rest.Set(), count, false)
		p.take(got)
	}
	for _, numa := range combo {
		give(numa, share)
	}
	for rest := n - share*len(combo); rest > 0; {
		before := rest
		for _, numa := range extra {
			if rest > 0 && p.free.AndLen(p.m.NUMAs()[numa].CPUs) >= group {
				give(numa, group)
				rest -= group
			}
		}
		if rest == before {
			return cpuSet{}, endless
		}
	}
	return p.picked.Set(), pickedIf(p.need == 0)
}

// combinations calls f with every k of the given positions, in their order, until f returns false.
// Slices are grown as the kubelet grows them: from length 4 on (and again from 6 to 8) combinations of
// one prefix share their memory.
func combinations(from []int, k int, f func([]int) bool) {
	if k < 1 {
		return
	}
	var pick func(k, start int, acc []int) bool
	pick = func(k, start int, acc []int) bool {
		if k == 0 {
			return f(acc)
		}
		for i := start; i <= len(from)-k; i++ {
			if !pick(k-1, i+1, append(acc, from[i])) {
				return false
			}
		}
		return true
	}
	pick(k, 0, []int{})
}
