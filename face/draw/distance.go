package draw

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/topo"
)

// manyNUMAs is the largest number of NUMA nodes, and of lines about them, for which distances are not summarised.
const manyNUMAs = 16

// distances returns a table of the distances between NUMA nodes; nil if they are not known. If the table would be too
// wide or too long, it returns one line per set of NUMA nodes with equal distances instead; see distanceList.
func (p *picture) distances(width int) []line {
	numas := p.machine.NUMAs()
	known := slices.ContainsFunc(numas, func(n topo.NUMA) bool { return len(n.Distances) > 0 })
	if len(numas) < 2 || !known {
		return nil
	}
	cell := 3
	for _, n := range numas {
		cell = max(cell, len(fmt.Sprint(n.ID))+2)
		for _, d := range n.Distances {
			cell = max(cell, len(strconv.Itoa(d))+2)
		}
	}
	const caption = " distance"
	if len(caption)+cell*len(numas) > width || len(numas) > manyNUMAs {
		return p.distanceList(width)
	}
	head := text(bold, caption)
	for _, n := range numas {
		head = head.add(faint, fmt.Sprintf("%*d", cell, n.ID))
	}
	out := []line{head}
	for i, n := range numas {
		l := text(faint, "%*d", len(caption), n.ID)
		for j, d := range n.Distances {
			s := plain
			if i == j {
				s = faint
			}
			l = l.add(s, fmt.Sprintf("%*d", cell, d))
		}
		out = append(out, l)
	}
	return out
}

// distanceList returns lines such as "12 to NUMA nodes 1-3" in place of the rows of a table. NUMA nodes that have
// equal distances to all others, and one distance among themselves, share a line.
func (p *picture) distanceList(width int) []line {
	sets := p.twins()
	if len(sets) > manyNUMAs {
		return p.distanceSpans(width)
	}
	out := []line{text(bold, " distances")}
	for _, set := range sets {
		first := set.First()
		to := map[int]topo.Mask{}
		for j, d := range p.distancesOf(first) {
			if !set.Has(j) {
				to[d] |= 1 << uint(j)
			}
		}
		var items []string
		if set.Len() > 1 {
			items = append(items, fmt.Sprintf("%d to each other", p.distancesOf(first)[set.Positions()[1]]))
		}
		for _, d := range slices.Sorted(maps.Keys(to)) {
			items = append(items, fmt.Sprintf("%d to %s", d, p.numaList(to[d])))
		}
		out = append(out, p.distanceLine(set, items, width)...)
	}
	return out
}

// distanceLine puts items beside the names of NUMA nodes, or below the names if the names are long.
func (p *picture) distanceLine(set topo.Mask, items []string, width int) []line {
	const indent = 10
	head := text(faint, " %7s  ", p.numaList(set))
	if head.width() <= width/2 {
		return hang(head, wrap(plain, items, width-head.width()))
	}
	out := hang(text(plain, " "), wrap(faint, []string{p.numaList(set)}, width-1))
	return append(out, hang(line(nil).pad(indent), wrap(plain, items, width-indent))...)
}

func (p *picture) distancesOf(numa int) []int { return p.machine.NUMAs()[numa].Distances }

// twins groups NUMA nodes into sets. In a set, all NUMA nodes have the same distance to each other in both
// directions, and equal distances to and from every NUMA node outside the set.
func (p *picture) twins() (sets []topo.Mask) {
	alike := func(a, b int) bool {
		if p.distancesOf(a)[b] != p.distancesOf(b)[a] {
			return false
		}
		for k := range p.machine.NUMAs() {
			if k != a && k != b && (p.distancesOf(a)[k] != p.distancesOf(b)[k] || p.distancesOf(k)[a] != p.distancesOf(k)[b]) {
				return false
			}
		}
		return true
	}
	for i := range p.machine.NUMAs() {
		at := slices.IndexFunc(sets, func(s topo.Mask) bool { return alike(s.First(), i) })
		if at < 0 {
			at, sets = len(sets), append(sets, 0)
		}
		sets[at] |= 1 << uint(i)
	}
	return sets
}

// distanceSpans returns only the smallest and the largest distance of NUMA nodes, for machines with little symmetry.
func (p *picture) distanceSpans(width int) []line {
	type span struct{ nearest, farthest int }
	bySpan := map[span]topo.Mask{}
	for i := range p.machine.NUMAs() {
		others := slices.Delete(slices.Clone(p.distancesOf(i)), i, i+1)
		bySpan[span{slices.Min(others), slices.Max(others)}] |= 1 << uint(i)
	}
	spans := slices.SortedFunc(maps.Keys(bySpan), func(a, b span) int {
		return bySpan[a].First() - bySpan[b].First()
	})
	out := []line{text(bold, " distances to other NUMA nodes")}
	for i, s := range spans {
		if i == manyNUMAs {
			rest := fmt.Sprintf(" and of %d more sets of NUMA nodes", len(spans)-i)
			return append(out, text(faint, "%s", rest).clip(width))
		}
		item := fmt.Sprintf("%d to %d", s.nearest, s.farthest)
		if s.nearest == s.farthest {
			item = strconv.Itoa(s.nearest)
		}
		out = append(out, p.distanceLine(bySpan[s], []string{item}, width)...)
	}
	return out
}
