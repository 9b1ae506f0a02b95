package draw

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// A NUMA node's CPUs are drawn as a grid: a column is a core, and the rows below each other are its threads. Cores
// stand in runs of up to eight. A run never crosses the border of an L3 group.

const runLength = 8

// strideSign stands in a label between the first CPU of a row and the step to the next one.
const strideSign = '+'

// run is a sequence of neighbouring cores in one L3 group.
type run struct {
	l3    idset.L3
	cores [][]idset.CPU // the CPUs of each core, in ascending order
}

// runs returns the cores of the NUMA node at a position, in runs, in ascending order of L3 group and core.
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

// grid draws the CPUs of a NUMA node within a width. A core takes two columns if all runs then fit in one row, and
// otherwise one.
func (p *picture) grid(numa, width int) []line {
	runs := p.runs(numa)
	if len(runs) == 0 {
		return nil
	}
	longest := 0
	for _, r := range runs {
		longest = max(longest, len(r.cores))
	}
	label := labelWidth(runs)
	room := width - label - 1
	cell, perRow := 2, len(runs)
	if gridWidth(len(runs), longest, 2) > room {
		cell, perRow = 1, balance(len(runs), (room+1)/(longest+1))
	}
	var out []line
	for at := 0; at < len(runs); at += perRow {
		part := runs[at:min(at+perRow, len(runs))]
		rows := p.gridRows(part, label, cell, width)
		if at > 0 && len(rows) > 1 {
			out = append(out, nil)
		}
		out = append(out, rows...)
	}
	return out
}

// gridWidth returns the width of a row of n runs, in columns. longest is the number of cores in the longest run, and
// cell the number of columns per core.
func gridWidth(n, longest, cell int) int { return n*longest*cell + (n-1)*cell }

// gridRows draws one row of runs: one line for each thread of a core, with a label. If the label does not determine
// the ids of the CPUs in a line, the ids follow below the line.
func (p *picture) gridRows(runs []run, label, cell, width int) []line {
	threads := 0
	for _, r := range runs {
		for _, c := range r.cores {
			threads = max(threads, len(c))
		}
	}
	var out []line
	for t := range threads {
		l, ids := line(nil), []idset.CPU(nil)
		for i, r := range runs {
			if i > 0 {
				l = p.border(l, runs[i-1].l3 != r.l3, cell)
			}
			for _, c := range r.cores {
				s := span{" ", plain}
				if t < len(c) {
					s = p.cpuCell(c[t])
					ids = append(ids, c[t])
				}
				s.text += strings.Repeat(" ", cell-1)
				l = append(l, s)
			}
		}
		name, whole := rowLabel(ids)
		p.used[strideSign] = p.used[strideSign] || strings.ContainsRune(name, strideSign)
		out = append(out, append(text(faint, "%*s ", label, name), l...))
		if !whole {
			for _, l := range wrap(faint, []string{idset.Of(ids...).String()}, width-label-1) {
				out = append(out, append(line(nil).pad(label+1), l...))
			}
		}
	}
	return out
}

// rowLabel returns a label for the CPUs of a row: the first id if the ids go up by one, and "8+2" if they go up by 2
// from 8. For other ids the label is the first id, and whole is false: the label does not determine all ids.
func rowLabel(ids []idset.CPU) (label string, whole bool) {
	if len(ids) == 0 {
		return "", true
	}
	label = strconv.Itoa(int(ids[0]))
	if len(ids) == 1 {
		return label, true
	}
	step := ids[1] - ids[0]
	if step < 1 {
		return label, false
	}
	for i := range ids[1:] {
		if ids[i+1]-ids[i] != step {
			return label, false
		}
	}
	if step != 1 {
		label += string(strideSign) + strconv.Itoa(int(step))
	}
	return label, true
}

// labelWidth returns the width of the longest label of any row.
func labelWidth(runs []run) int {
	width, threads := 0, 0
	for _, r := range runs {
		for _, c := range r.cores {
			threads = max(threads, len(c))
			width = max(width, len(strconv.Itoa(int(c[len(c)-1]))))
		}
	}
	// A row may begin with any run, and its first two CPUs determine the label.
	for t := range threads {
		var ids []idset.CPU
		for _, r := range slices.Backward(runs) {
			var own []idset.CPU
			for _, c := range r.cores {
				if t < len(c) {
					own = append(own, c[t])
				}
			}
			ids = append(own, ids...)
			label, _ := rowLabel(ids[:min(2, len(ids))])
			width = max(width, len(label))
		}
	}
	return width
}

// border adds the gap between two runs, with a sign if l3 is set: the runs are in different L3 groups.
func (p *picture) border(l line, l3 bool, cell int) line {
	sign := " "
	if l3 {
		sign = string(l3Sign)
		p.used[l3Sign] = true
	}
	return l.add(frame, sign+strings.Repeat(" ", cell-1))
}
