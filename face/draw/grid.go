package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// A numa's CPUs are drawn as a grid: a column is a core, the rows below each other are its threads.
// Cores stand in runs of up to eight, and a run never crosses the border of an L3 group.

const runLength = 8

// run is neighbouring cores of one L3 group.
type run struct {
	l3    idset.L3
	cores [][]idset.CPU // threads, ascending
}

func (p *picture) runs(numa int) []run {
	type core struct {
		id idset.Core
		l3 idset.L3
	}
	var cores []core
	for id := range p.machine.NUMAs()[numa].CPUs.All() {
		if c, ok := p.machine.CPU(id); ok && idset.Core(id) == c.Core {
			cores = append(cores, core{c.Core, c.L3})
		}
	}
	slices.SortFunc(cores, func(a, b core) int { return cmp.Or(cmp.Compare(a.l3, b.l3), cmp.Compare(a.id, b.id)) })
	var out []run
	for i, c := range cores {
		if i == 0 || cores[i-1].l3 != c.l3 || len(out[len(out)-1].cores) == runLength {
			out = append(out, run{l3: c.l3})
		}
		last := &out[len(out)-1]
		last.cores = append(last.cores, p.machine.CoreCPUs(c.id).List())
	}
	return out
}

// grid draws the CPUs of a numa within a width.
func (p *picture) grid(numa, width int) []line {
	runs := p.runs(numa)
	if len(runs) == 0 {
		return nil
	}
	longest := 0
	for _, r := range runs {
		longest = max(longest, len(r.cores))
	}
	label := len(fmt.Sprint(p.machine.NUMAs()[numa].CPUs.Max()))
	room := width - label - 1
	cell, perRow := 2, len(runs)
	if gridWidth(len(runs), longest, 2) > room {
		cell, perRow = 1, balance(len(runs), (room+1)/(longest+1))
	}
	var out []line
	for at := 0; at < len(runs); at += perRow {
		part := runs[at:min(at+perRow, len(runs))]
		rows := p.gridRows(part, label, cell)
		if at > 0 && len(rows) > 1 {
			out = append(out, nil)
		}
		out = append(out, rows...)
	}
	return out
}

// gridWidth is the width of n runs of a length in one row.
func gridWidth(n, longest, cell int) int { return n*longest*cell + (n-1)*cell }

// gridRows draws one row of runs: as many lines as its cores have threads.
func (p *picture) gridRows(runs []run, label, cell int) []line {
	threads := 0
	for _, r := range runs {
		for _, c := range r.cores {
			threads = max(threads, len(c))
		}
	}
	var out []line
	for t := range threads {
		l, first := line(nil), idset.CPU(-1)
		for i, r := range runs {
			if i > 0 {
				l = p.border(l, runs[i-1].l3 != r.l3, cell)
			}
			for _, c := range r.cores {
				s := span{" ", plain}
				if t < len(c) {
					s = p.cell(c[t])
					if first < 0 {
						first = c[t]
					}
				}
				s.text += strings.Repeat(" ", cell-1)
				l = append(l, s)
			}
		}
		out = append(out, append(text(faint, "%*d ", label, first), l...))
	}
	return out
}

func (p *picture) border(l line, l3 bool, cell int) line {
	sign := " "
	if l3 {
		sign = string(l3Sign)
		p.used[l3Sign] = true
	}
	return l.add(frame, sign+strings.Repeat(" ", cell-1))
}
