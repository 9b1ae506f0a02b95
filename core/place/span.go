package place

import (
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file searches for a number of NUMA nodes that together have all amounts of a request.

// maxSearch bounds the entries of rows that a plan reads to find several NUMA nodes for a pod. Beyond it the engine's
// tables cost no more. leastStep is the least that one call of spansNeed adds to steps.
const (
	maxSearch = 1 << 16
	leastStep = maxSearch / 200
)

// spans returns whether some w NUMA nodes of a mask together have what the rows want. It adds the number of entries
// that it reads to steps. The answer is unsure if steps exceeds maxSearch.
func spans(amounts []int64, rows []row, in topo.Mask, w int, steps *int) answer {
	var need [maxRows]int64
	for k := range rows {
		need[k] = rows[k].amount
	}
	return spansNeed(amounts, rows, need, in, w, steps)
}

// spansNeed is spans with the amounts in need, which NUMA nodes that are already chosen do not cover.
func spansNeed(amounts []int64, rows []row, need [maxRows]int64, in topo.Mask, w int, steps *int) answer {
	if *steps += max(leastStep, len(rows)*in.Len()*w); *steps > maxSearch {
		return unsure
	}
	if in.Len() < w {
		return no
	}
	for k := range rows {
		if need[k] > 0 && topSum(amounts[rows[k].at:], in, w) < need[k] {
			return no
		}
	}
	if len(rows) == 1 {
		return yes // the w NUMA nodes that have most serve
	}
	if w <= 1 { // each row has a NUMA node that serves it; they need one for all
		for ; in != 0; in &= in - 1 {
			if enough(amounts, rows, &need, in.First()) {
				return yes
			}
		}
		return no
	}
	for in.Len() >= w {
		i := in.First()
		in &^= 1 << uint(i)
		missing := need
		for k := range rows {
			missing[k] -= amounts[int(rows[k].at)+i]
		}
		if a := spansNeed(amounts, rows, missing, in, w-1, steps); a != no {
			return a
		}
	}
	return no
}

// enough reports whether NUMA node i by itself has the amounts in need.
func enough(amounts []int64, rows []row, need *[maxRows]int64, i int) bool {
	for k := range rows {
		if amounts[int(rows[k].at)+i] < need[k] {
			return false
		}
	}
	return true
}

// fewestOf returns how many entries of a row, largest first, add up to at least an amount. If all together do not, it
// returns one more than there are.
func fewestOf(row []int64, amount int64) int {
	all := topo.Mask(1)<<uint(len(row)) - 1
	for n := 1; n <= min(2, len(row)); n++ { // nearly always
		if topSum(row, all, n) >= amount {
			return n
		}
	}
	var sorted [topo.MaxNUMAs]int64
	copy(sorted[:], row)
	slices.Sort(sorted[:len(row)])
	sum := int64(0)
	for n := range row {
		if sum += sorted[len(row)-1-n]; sum >= amount {
			return n + 1
		}
	}
	return len(row) + 1
}

// topSum adds up the n largest entries of a row that are in a mask.
func topSum(row []int64, in topo.Mask, n int) (sum int64) {
	if n <= 2 { // nearly always
		var second int64
		for ; in != 0; in &= in - 1 {
			x := row[in.First()]
			second = max(second, min(x, sum))
			sum = max(sum, x)
		}
		return sum + second*int64(n-1)
	}
	var top [topo.MaxNUMAs]int64 // descending
	for ; in != 0; in &= in - 1 {
		x := row[in.First()]
		for k := range n {
			if x > top[k] {
				x, top[k] = top[k], x
			}
		}
	}
	for _, x := range top[:n] {
		sum += x
	}
	return sum
}
