package affinity

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
)

// state is a machine with its pods, on which moves are tried. Pods and NUMA nodes are given by their indexes.
type state struct {
	rules Rules
	pods  []Pod // in ascending order of their IDs; not changed
	numas []NUMA
	// at is the NUMA node of each pod as an index in numas, or -1 for Nowhere; from is the same before any move.
	at      []int
	from    []int
	links   []link
	linksOf [][]link // the links of each pod
	// free is what is left of each NUMA node: without the pods on it, and without its share of the pods that have no
	// links and run on all NUMA nodes. It may be negative.
	free []amount
	// refused has, by the first pod of a group, why best found no move for the group although one would have a gain.
	refused map[int]refusal
	// released has the pods that release made leave their NUMA node.
	released map[int]bool
}

// refusal is why a group does not move to a NUMA node where some of its traffic would become local.
type refusal struct {
	numa int
	lack *Lack // nil if too little traffic would become local
}

type amount struct{ milli, bytes int64 }

func (a amount) plus(b amount) amount  { return amount{a.milli + b.milli, a.bytes + b.bytes} }
func (a amount) minus(b amount) amount { return amount{a.milli - b.milli, a.bytes - b.bytes} }

func (p *Pod) amount() amount { return amount{p.MilliCPU, p.Bytes} }

// newState returns the machine of the input before any move. Its pods and NUMA nodes are sorted by ID, so that equal
// inputs give equal results.
func newState(in Input, rules Rules) *state {
	s := &state{rules: rules, pods: slices.Clone(in.Pods), numas: slices.Clone(in.NUMAs), refused: map[int]refusal{},
		released: map[int]bool{}}
	slices.SortFunc(s.pods, func(a, b Pod) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.numas, func(a, b NUMA) int { return cmp.Compare(a.ID, b.ID) })
	in.Pods = s.pods
	s.links = links(in, rules)
	s.linksOf = make([][]link, len(s.pods))
	for _, l := range s.links {
		s.linksOf[l.a] = append(s.linksOf[l.a], l)
		s.linksOf[l.b] = append(s.linksOf[l.b], l)
	}
	for _, p := range s.pods {
		s.at = append(s.at, slices.IndexFunc(s.numas, func(n NUMA) bool { return n.ID == p.NUMA }))
	}
	s.from = slices.Clone(s.at)
	s.countFree()
	return s
}

// clone returns a copy whose places can be changed without changing s. The copy shares the maps of s. So explain, on
// s, reads what settle has recorded in refused on the copy.
func (s *state) clone() *state {
	c := *s
	c.at, c.free = slices.Clone(s.at), slices.Clone(s.free)
	return &c
}

// countFree computes free from at. Pods with exclusive CPUs do not count, because Input.NUMAs already leaves out what
// these hold.
func (s *state) countFree() {
	s.free = s.free[:0]
	var whole, floating amount
	for _, n := range s.numas {
		s.free = append(s.free, amount{n.MilliCPU, n.Bytes})
		whole = whole.plus(amount{n.MilliCPU, n.Bytes})
	}
	for i := range s.pods {
		p := &s.pods[i]
		switch k := s.at[i]; {
		case p.Exclusive:
		case k >= 0:
			s.free[k] = s.free[k].minus(p.amount())
		case len(s.linksOf[i]) == 0:
			floating = floating.plus(p.amount())
		}
	}
	for k, n := range s.numas {
		s.free[k] = s.free[k].minus(amount{share(floating.milli, n.MilliCPU, whole.milli),
			share(floating.bytes, n.Bytes, whole.bytes)})
	}
}

// share returns total*part/whole, rounded up; 0 if whole is 0.
func share(total, part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(total), uint64(part))
	out, rest := bits.Div64(high, low, uint64(whole))
	if rest > 0 {
		out++
	}
	return int64(out)
}

// lacks returns what the NUMA node at index k lacks for pods that request the amount coming, or nil if it has room
// for them and for the spare share.
func (s *state) lacks(k int, coming amount) *Lack {
	n := s.numas[k]
	milli := s.free[k].milli - share(n.MilliCPU, s.rules.Spare, 100)
	bytes := s.free[k].bytes - share(n.Bytes, s.rules.Spare, 100)
	switch {
	case coming.milli > milli && coming.milli > 0:
		return &Lack{"cpu", coming.milli, max(0, milli)}
	case coming.bytes > bytes && coming.bytes > 0:
		return &Lack{"memory", coming.bytes, max(0, bytes)}
	}
	return nil
}

// release makes pods leave their NUMA nodes. The first to leave are pods that opted out. Then, where the pods on a
// NUMA node request more than it has, pods leave until the rest fits: first the pod that exchanges the least with
// other pods there, and of equal pods the one that requests the most.
func (s *state) release() {
	for i := range s.pods {
		if s.at[i] >= 0 && !s.pods[i].Exclusive && !s.pods[i].optedIn() {
			s.leave(i)
		}
	}
	for k, n := range s.numas {
		for {
			var used amount
			leaving := -1
			for i := range s.pods {
				if s.at[i] != k || s.pods[i].Exclusive {
					continue
				}
				used = used.plus(s.pods[i].amount())
				if leaving < 0 || s.compareLeaving(i, leaving, k) < 0 {
					leaving = i
				}
			}
			if used.milli <= n.MilliCPU && used.bytes <= n.Bytes {
				break
			}
			s.leave(leaving)
		}
	}
	s.countFree()
}

func (s *state) leave(i int) { s.at[i], s.released[i] = -1, true }

// compareLeaving compares pods i and j on the NUMA node at index k. The one that sorts first leaves the node first.
func (s *state) compareLeaving(i, j, k int) int {
	near := func(i int) (sum int64) {
		for _, l := range s.linksOf[i] {
			if s.at[l.other(i)] == k {
				sum += l.weight()
			}
		}
		return sum
	}
	p, q := &s.pods[i], &s.pods[j]
	return cmp.Or(cmp.Compare(near(i), near(j)), cmp.Compare(q.MilliCPU, p.MilliCPU), cmp.Compare(q.Bytes, p.Bytes),
		cmp.Compare(p.ID, q.ID))
}

// other returns the pod at the other end of a link of pod i.
func (l link) other(i int) int { return l.a + l.b - i }

// apart reports whether the traffic of a link is between NUMA nodes. Traffic of a pod that runs on all NUMA nodes is.
func (s *state) apart(l link) bool { return s.at[l.a] < 0 || s.at[l.a] != s.at[l.b] }

// remote returns the measured bytes per second between NUMA nodes.
func (s *state) remote() (sum int64) {
	for _, l := range s.links {
		if s.apart(l) {
			sum += l.bytes
		}
	}
	return sum
}

// id returns the ID of the NUMA node at an index, or Nowhere for -1.
func (s *state) id(k int) idset.NUMA {
	if k < 0 {
		return Nowhere
	}
	return s.numas[k].ID
}
