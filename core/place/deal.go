package place

import "math"

// This file finds by dynamic programming the set that the kubelet finds by enumeration when it spreads CPUs over NUMA
// nodes; spread.go has the rules. The kubelet hands out groups in turns. After L full turns, each chosen NUMA node
// has given L groups, or all that it had. In the last turn, the first NUMA nodes give one more. For every L, called
// level here, a table holds the least sum of squares that the NUMA nodes from an index on can reach. A walk from the
// first to the last NUMA node then takes each one with which the sum can stay within the limit (see func bound). The
// result is the first set of the enumeration.

// impossible is the cost of a choice that cannot be made.
const impossible = math.MaxInt64 / 4

// seat is one NUMA node in a deal.
type seat struct {
	spare int   // whole groups that the NUMA node can give beyond its share
	free  int64 // free CPUs after the NUMA node has given its share
	base  int64 // what the NUMA node adds to the sum of squares by giving its share
}

// deal is the choice of some seats, and of the number of groups that each gives.
type deal struct {
	seats       []seat
	size, rest  int // seats to choose, groups to give
	group       int64
	idle        bool // a chosen seat may give nothing although others give more
	levels      int
	best        []int64 // by level, seat, seats to choose, groups to give, and whether a seat gave less
	perLevel    int     // entries of best for one level; perSeat and perChoice likewise
	perSeat     int
	perChoice   int
	from, taken []int64 // see take: the least cost so far, by level and state
}

// deal makes the tables; ok is false if they need more work than is left.
func (s *spreading) deal(seats []seat, size int, idle bool) (d deal, ok bool) {
	d = deal{seats: seats, size: size, rest: s.rest, group: int64(s.group), idle: idle, levels: max(1, s.rest)}
	d.perChoice = 2 * (d.rest + 1)
	d.perSeat = (size + 1) * d.perChoice
	d.perLevel = (len(seats) + 1) * d.perSeat
	if !s.work.spend(4 * d.levels * d.perLevel) {
		return d, false
	}
	d.best = make([]int64, d.levels*d.perLevel)
	d.from, d.taken = make([]int64, d.levels*d.perChoice), make([]int64, d.levels*d.perChoice)
	for level := range d.levels {
		d.fill(level)
	}
	return d, true
}

// at returns the costs of choosing a number of seats, choose, among seat i and the seats after it. The index in the
// result is the state; see choices.
func (d *deal) at(level, i, choose int) []int64 {
	return d.best[level*d.perLevel+i*d.perSeat+choose*d.perChoice:][:d.perChoice]
}

// fill computes the table of a level, from the last seat to the first.
func (d *deal) fill(level int) {
	for choose := range d.size + 1 {
		end := d.at(level, len(d.seats), choose)
		for k := range end {
			if end[k] = impossible; choose == 0 && k < 2 {
				end[k] = 0
			}
		}
	}
	for i := len(d.seats) - 1; i >= 0; i-- {
		for choose := range d.size + 1 {
			out := d.at(level, i, choose)
			copy(out, d.at(level, i+1, choose))
			if choose == 0 {
				continue
			}
			next := d.at(level, i+1, choose-1)
			for k := range out {
				d.choices(i, level, k, func(to int, cost int64) { out[k] = min(out[k], cost+next[to]) })
			}
		}
	}
}

// choices calls f for every number of groups that seat i may give if it is chosen, with the next state and the cost.
// A state is twice the number of groups still to give, plus one once a seat gave less than the seats before it.
func (d *deal) choices(i, level, state int, f func(to int, cost int64)) {
	x := &d.seats[i]
	if d.idle {
		f(state, x.base)
	}
	give := func(groups int, less int) {
		if 2*groups <= state {
			f(state-2*groups|less, x.base+d.cost(x, groups))
		}
	}
	switch {
	case x.spare <= 0:
	case x.spare <= level:
		give(x.spare, 0)
	default:
		if state&1 == 0 {
			give(level+1, 0)
		}
		give(level, 1)
	}
}

// cost returns what a seat adds to the sum of squares by giving groups beyond its share.
func (d *deal) cost(x *seat, groups int) int64 {
	n := int64(groups) * d.group
	return n*n - 2*n*x.free
}

// least returns the least cost of choosing size seats.
func (d *deal) least(size int) int64 {
	out := int64(impossible)
	for level := range d.levels {
		out = min(out, d.at(level, 0, size)[2*d.rest])
	}
	return out
}

// first returns the set that comes first in the enumeration among the sets with size members that cost no more than
// limit.
func (d *deal) first(size int, limit int64) (out []int) {
	for k := range d.from {
		d.from[k] = impossible
	}
	for level := range d.levels {
		d.from[level*d.perChoice+2*d.rest] = 0
	}
	for i := 0; size > 0; i++ {
		if d.take(i, size) <= limit {
			out = append(out, i)
			d.from, d.taken = d.taken, d.from
			size--
		}
	}
	return out
}

// take computes in taken the states that follow from the states in from if seat i is chosen. It returns the least
// cost of a choice of size seats that contains seat i and otherwise only later seats.
func (d *deal) take(i, size int) int64 {
	out := int64(impossible)
	for k := range d.taken {
		d.taken[k] = impossible
	}
	for level := range d.levels {
		from, to := d.from[level*d.perChoice:][:d.perChoice], d.taken[level*d.perChoice:][:d.perChoice]
		behind := d.at(level, i+1, size-1)
		for k, sum := range from {
			if sum >= impossible {
				continue
			}
			d.choices(i, level, k, func(state int, cost int64) {
				to[state] = min(to[state], sum+cost)
				out = min(out, sum+cost+behind[state])
			})
		}
	}
	return out
}

// bound returns the largest cost that the kubelet cannot distinguish from cost, because both deviations round to the
// same number.
func (s *spreading) bound(cost int64) int64 {
	n, sum, squares := len(s.free), int64(-s.wanted*s.group), int64(0)
	for _, f := range s.free {
		sum += int64(f)
		squares += int64(f) * int64(f)
	}
	rounded := deviation(n, sum, squares+cost)
	width := int64(1)
	for deviation(n, sum, squares+cost+width) == rounded {
		width *= 2
	}
	low, high := width/2, width // equal at low, not at high
	for low+1 < high {
		if mid := (low + high) / 2; deviation(n, sum, squares+cost+mid) == rounded {
			low = mid
		} else {
			high = mid
		}
	}
	return cost + low
}

// seat returns NUMA node i as a seat that gives its share.
func (s *spreading) seat(i int) seat {
	share, free := int64(s.share*s.group), int64(s.free[i])
	return seat{spare: s.spare(i), free: free - share, base: share*share - 2*share*free}
}

// firstBest returns the first set of k NUMA nodes that leads to the least deviation; nil if that needs more work than
// is left.
func (s *spreading) firstBest() []int {
	var seats []seat
	var at []int
	for i := range s.free {
		if s.spare(i) >= 0 {
			seats, at = append(seats, s.seat(i)), append(at, i)
		}
	}
	d, ok := s.deal(seats, s.k, true)
	if !ok {
		return nil
	}
	return pickInts(at, d.first(s.k, s.bound(d.least(s.k))))
}

// extra returns the NUMA nodes of a combination that give the remaining groups. Among the sets that reach the least
// deviation, the kubelet takes the first of the sets with the most members. Later sets then overwrite the end of that
// set (see overwritten).
func (s *spreading) extra(combo []int) ([]int, ending) {
	if s.rest == 0 {
		return nil, picked
	}
	var seats []seat
	var at []int
	shares := int64(0)
	for _, i := range combo {
		x := s.seat(i)
		shares += x.base
		if x.base = 0; x.spare > 0 {
			seats, at = append(seats, x), append(at, i)
		}
	}
	d, ok := s.deal(seats, len(seats), false)
	if !ok {
		return nil, exhausted
	}
	least := int64(impossible)
	for size := range seats {
		least = min(least, d.least(size+1))
	}
	limit := s.bound(shares+least) - shares
	for size := len(seats); ; size-- {
		if d.least(size) <= limit {
			sub := d.first(size, limit)
			return pickInts(at, lastOnes(sub, ownMemory(size), len(seats))), picked
		}
	}
}
