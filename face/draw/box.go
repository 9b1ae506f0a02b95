package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const (
	boxGap   = 1
	leastBox = 24 // columns of a box with its frame; four of them fit in 100
)

// boxes draws every NUMA node as a box, side by side if the boxes fit. All boxes have the same width.
func (p *picture) boxes(width int) []line {
	numas := p.machine.NUMAs()
	least, widest := leastBox, 0
	for i := range numas {
		l, w := p.boxWidths(i)
		least, widest = max(least, l), max(widest, w)
	}
	cols := balance(len(numas), (width+boxGap)/(min(least, width)+boxGap))
	outer := min((width-boxGap*(cols-1))/cols, widest)
	var out []line
	for at := 0; at < len(numas); at += cols {
		var row [][]line
		for i := at; i < min(at+cols, len(numas)); i++ {
			row = append(row, p.box(i, outer))
		}
		out = append(out, beside(row, outer)...)
	}
	return out
}

// boxWidths returns two widths for the box of the NUMA node at position i, in columns. A box narrower than least
// would be hard to read; a box wider than widest would be no clearer.
func (p *picture) boxWidths(i int) (least, widest int) {
	const frameAndBlanks, fewRuns = 4, 4
	runs := p.runs(i)
	longest := 0
	for _, r := range runs {
		longest = max(longest, len(r.cores))
	}
	label := labelWidth(runs) + 1
	least = gridWidth(min(len(runs), fewRuns), longest, 1) + label + frameAndBlanks
	widest = max(60, gridWidth(len(runs), longest, 2)+label+frameAndBlanks)
	return max(leastBox, least), widest
}

// beside joins boxes of the width outer line by line. It makes all boxes as tall as the tallest one.
func beside(boxes [][]line, outer int) []line {
	height := 0
	for _, b := range boxes {
		height = max(height, len(b))
	}
	out := make([]line, height)
	for c, b := range boxes {
		blank := framed(nil, outer)
		for len(b) < height {
			b = slices.Insert(b, len(b)-1, blank)
		}
		for y := range out {
			if c > 0 {
				out[y] = out[y].add(plain, strings.Repeat(" ", boxGap))
			}
			out[y] = append(out[y], b[y]...)
		}
	}
	return out
}

// box draws the NUMA node at position i. outer is the width with the frame, in columns.
func (p *picture) box(i, outer int) []line {
	inner := outer - 4
	n := p.machine.NUMAs()[i]
	out := []line{p.boxTop(n, outer)}
	for _, l := range p.boxBody(i, inner) {
		out = append(out, framed(l, outer))
	}
	return append(out, text(frame, "╰%s╯", strings.Repeat("─", outer-2)))
}

// framed returns a line between the borders of a box, cut or padded to fit.
func framed(l line, outer int) line {
	inner := outer - 4
	out := text(frame, "│ ")
	out = append(out, l.clip(inner).pad(inner)...)
	return out.add(frame, " │")
}

// boxTop returns the upper border, with the NUMA node's id and socket.
func (p *picture) boxTop(n topo.NUMA, outer int) line {
	right := p.socketText(n)
	left := clipText(fmt.Sprintf("NUMA node %d", n.ID), outer-6)
	fill := outer - len(left) - len(right) - 8
	if fill < 1 || right == "" {
		right, fill = "", outer-len(left)-7
	}
	out := text(frame, "╭─ ").add(bold, left).add(frame, " "+strings.Repeat("─", max(0, fill)))
	if right == "" {
		return out.add(frame, "──╮")
	}
	return out.add(frame, " ").add(faint, right).add(frame, " ─╮")
}

// socketText returns the sockets of a NUMA node's CPUs, or for a NUMA node without CPUs what it has instead. It
// returns "" for an estimated node, whose sockets are not known.
func (p *picture) socketText(n topo.NUMA) string {
	if p.coarse() {
		return ""
	}
	var sockets []idset.Socket
	for id := range n.CPUs.All() {
		c, _ := p.machine.CPU(id)
		sockets = append(sockets, c.Socket)
	}
	switch {
	case len(sockets) > 0:
		return "socket " + idset.Of(sockets...).String()
	case n.MemoryKind != "":
		return memoryName(n) + " only"
	case n.Bytes > 0:
		return "memory only"
	}
	return "empty"
}

// boxBody returns the lines between the borders: CPUs, memory of every kind, and devices.
func (p *picture) boxBody(i, inner int) []line {
	var out []line
	if n := p.machine.NUMAs()[i]; !n.CPUs.Empty() {
		out = append(out, justify(text(bold, "CPUs"), p.cpuCount(n, inner), inner))
		if !p.coarse() || p.node.Rules.CPU.Static {
			out = append(out, p.grid(i, inner)...)
		}
		out = append(out, nil)
	}
	for _, use := range p.memory[i] {
		out = append(out, p.memoryLines(p.machine.NUMAs()[i], use, inner)...)
	}
	for _, r := range p.machine.Resources() {
		devs := slices.DeleteFunc(slices.Clone(r.Devices), func(d topo.Device) bool { return d.NUMAs != 1<<uint(i) })
		if len(devs) > 0 {
			out = append(out, p.deviceLines(r.Name, devs, inner)...)
		}
	}
	return out
}

// cpuCount returns how many CPUs of a NUMA node are free. CPUs have holders only if the CPU manager is static;
// otherwise it returns the number of shared CPUs.
func (p *picture) cpuCount(n topo.NUMA, inner int) line {
	if !p.node.Rules.CPU.Static && p.coarse() {
		return text(faint, "not aligned, as far as is known")
	}
	if !p.node.Rules.CPU.Static {
		return text(faint, "%d shared", n.CPUs.Len())
	}
	free := 0
	for id := range n.CPUs.All() {
		if _, held := p.cpus[id]; !held && !p.node.Rules.CPU.Reserved.Has(id) {
			free++
		}
	}
	return freeOf("CPUs", fmt.Sprint(free), fmt.Sprint(n.CPUs.Len()), inner)
}

// freeOf returns "FREE of ALL free". If that and the name do not fit in a line of inner columns, it returns
// "FREE/ALL".
func freeOf(name, free, all string, inner int) line {
	room := inner - utf8.RuneCountInString(name) - 1
	out := fmt.Sprintf("%s of %s free", free, all)
	if len(out) > room {
		out = fmt.Sprintf("%s/%s", free, all)
	}
	return text(plain, "%s", out)
}

// memoryName returns the caption of a NUMA node's memory, without hugepages: "memory", or what the memory is if pods
// do not use it like other memory.
func memoryName(n topo.NUMA) string {
	switch n.MemoryKind {
	case topo.GPUMemory:
		return "GPU memory"
	case topo.DAXMemory:
		return "DAX memory"
	case topo.MovableMemory:
		return "movable memory"
	}
	return topo.Memory
}

// memorySign returns the sign of free memory. The sign shows the kind of memory even without colour.
func memorySign(n topo.NUMA) rune {
	switch n.MemoryKind {
	case topo.GPUMemory:
		return freeGPUSign
	case topo.DAXMemory:
		return freeDAXSign
	case topo.MovableMemory:
		return freeMovableSign
	}
	return freeSign
}

// captioned returns a caption, and in the same line the first of the texts that fits there. If none fits, it puts the
// last text into a line of its own.
func captioned(caption string, s style, texts []string, inner int) []line {
	for _, t := range texts {
		if utf8.RuneCountInString(caption)+1+utf8.RuneCountInString(t) <= inner {
			return []line{justify(text(bold, "%s", caption), text(s, "%s", t), inner)}
		}
	}
	last := text(s, "%s", clipText(texts[len(texts)-1], inner))
	return []line{text(bold, "%s", caption).clip(inner), justify(nil, last, inner)}
}

// memoryLines returns a caption and a bar for one kind of pages.
func (p *picture) memoryLines(n topo.NUMA, use kindUse, inner int) []line {
	caption, sign := use.kind, freeSign
	if use.kind == topo.Memory {
		caption, sign = memoryName(n), memorySign(n)
	}
	free, all := size(use.kind, use.free), size(use.kind, use.capacity)
	about := "~" + rounded(use.capacity)
	if !p.node.Rules.Memory.Static {
		return captioned(caption, faint, []string{all + ", not pinned", all, about}, inner)
	}
	out := captioned(caption, plain, []string{free + " of " + all + " free", free + "/" + all,
		rounded(use.free) + " of " + about + " free", rounded(use.free) + "/" + about}, inner)
	parts := []int64{use.reserved}
	for _, s := range use.shares {
		parts = append(parts, s.bytes)
	}
	cells := apportion(inner, append(parts, use.free))
	bar := line(nil).add(faint, strings.Repeat(string(reservedSign), cells[0]))
	for i, s := range use.shares {
		bar = append(bar, p.barPart(s.owner, cells[i+1])...)
	}
	last := cells[len(cells)-1]
	bar = bar.add(faint, strings.Repeat(string(sign), last))
	p.used[reservedSign] = p.used[reservedSign] || cells[0] > 0
	p.used[sign] = p.used[sign] || last > 0
	return append(out, bar)
}

// barPart draws the part of a bar that the owner at position o of p.owners holds. The part has the given number of
// cells, and starts with the owner's sign, so that neighbours differ without colour.
func (p *picture) barPart(o, cells int) line {
	if cells == 0 {
		return nil
	}
	who, fill := p.owners[o], "█"
	tint := style{fg: palette[o%len(palette)]}
	if who.entry.Source == state.Predicted {
		fill = "▓"
	}
	return line{{string(who.sign), who.style}}.add(tint, strings.Repeat(fill, cells-1))
}

// apportion divides the cells of a bar among parts, by the size of the parts. Every part above zero first gets one
// cell while cells last.
func apportion(cells int, parts []int64) []int {
	out := make([]int, len(parts))
	var total int64
	for i, v := range parts {
		if v > 0 && cells > 0 {
			out[i], cells = 1, cells-1
		}
		total += v
	}
	if total == 0 {
		return out
	}
	// Round the end of each part, not its length: the lengths then always add up.
	var sum, done int64
	for i, v := range parts {
		sum += v
		end := sum * int64(cells) / total // at most MaxBytes times maxWidth: far from overflow
		out[i] += int(end - done)
		done = end
	}
	return out
}

// deviceLines draws devices of one resource, beside the resource's name if they fit, and below it otherwise. In a
// narrow box the name has no domain.
func (p *picture) deviceLines(resource string, devs []topo.Device, inner int) []line {
	free, cells := p.deviceCells(resource, devs)
	all := fmt.Sprint(len(devs))
	for _, name := range []string{Printable(resource), shortName(resource)} {
		right := freeOf(name+"  ", fmt.Sprint(free), all, inner-cells.width())
		if utf8.RuneCountInString(name)+2+cells.width()+2+right.width() <= inner {
			left := text(bold, "%s", name).add(plain, "  ")
			return []line{justify(append(left, cells...), right, inner)}
		}
	}
	name := shortName(resource)
	out := []line{justify(text(bold, "%s", name), freeOf(name, fmt.Sprint(free), all, inner), inner)}
	return append(out, fold(cells, inner)...)
}

// fold breaks cells into lines of at most width columns.
func fold(cells line, width int) []line {
	var out []line
	for len(cells) > 0 {
		at, w := 0, 0
		for at < len(cells) && (at == 0 || w+cells[at:at+1].width() <= width) {
			w += cells[at : at+1].width()
			at++
		}
		out, cells = append(out, cells[:at]), cells[at:]
	}
	return out
}

// shortName returns a resource name without its domain: "gpu" for "nvidia.com/gpu".
func shortName(resource string) string {
	return Printable(resource[strings.LastIndexByte(resource, '/')+1:])
}

// deviceCells returns the number of free devices, and one cell per device. If there are many devices, it returns one
// cell for each stretch of equal neighbours, with their number.
func (p *picture) deviceCells(resource string, devs []topo.Device) (free int, cells line) {
	const few, many = 8, 128
	var lengths []int // of the stretches
	for i, d := range devs {
		c := p.deviceCell(resource, d)
		if c.text == string(freeSign) {
			free++
		}
		if len(devs) > many && i > 0 && cells[len(cells)-1] == c {
			lengths[len(lengths)-1]++
			continue
		}
		if len(devs) <= few && i < len(devs)-1 {
			c.text += " "
		}
		cells, lengths = append(cells, c), append(lengths, 1)
	}
	if len(devs) > many {
		for i := range cells {
			cells[i].text += fmt.Sprintf("×%d ", lengths[i])
		}
	}
	return free, cells
}
