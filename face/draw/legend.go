package draw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// heading returns the lines above the boxes: the node, its machine and its rules.
func (p *picture) heading(width int) []line {
	out := []line{text(bold, "%s", clipText(Printable(p.node.Name), width))}
	out = append(out, wrap(plain, p.machineItems(), width)...)
	if p.coarse() {
		out = append(out, wrap(plain, []string{
			"coarse: known by the amounts of its " + cmp.Or(p.node.From, "NodeResourceTopology"),
			"the holders of single CPUs and devices are not reported, the signs count them"}, width)...)
	}
	if n := len(p.node.Others); n > 0 {
		out = append(out, wrap(plain, []string{fmt.Sprintf("one of %d possible states of the node", n+1)}, width)...)
	}
	for _, k := range document.KeptOn(p.node) {
		out = append(out, wrap(plain, []string{"room is kept for " + plural(k.Pods, "pod") + " of request " +
			Printable(k.Request)}, width)...)
	}
	return append(out, wrap(faint, document.RuleItems(p.node.Rules, p.node.Quality), width)...)
}

// machineItems returns the numbers of sockets, NUMA nodes and CPUs, and the memory without hugepages.
func (p *picture) machineItems() []string {
	m := p.machine
	var bytes int64
	for _, n := range m.NUMAs() {
		bytes += n.Bytes
	}
	cores, cpus := len(m.Cores()), m.CPUs().Len()
	cpuText := fmt.Sprintf("%s (%s)", plural(cpus, "CPU"), plural(cores, "core"))
	if cpus == cores {
		cpuText = plural(cpus, "CPU")
	}
	if p.coarse() {
		return []string{plural(len(m.NUMAs()), "NUMA node"), plural(cpus, "CPU"), place.Quantity(topo.Memory, bytes)}
	}
	return []string{plural(len(m.Sockets()), "socket"), plural(len(m.NUMAs()), "NUMA node"), cpuText,
		place.Quantity(topo.Memory, bytes)}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// sharedDevices draws the devices that belong to several NUMA nodes, or to none.
func (p *picture) sharedDevices(width int) []line {
	var out []line
	for _, r := range p.machine.Resources() {
		groups := map[topo.Mask][]topo.Device{}
		for _, d := range r.Devices {
			if d.NUMAs.Len() != 1 {
				groups[d.NUMAs] = append(groups[d.NUMAs], d)
			}
		}
		for _, mask := range slices.Sorted(maps.Keys(groups)) {
			free, cells := p.deviceCells(r.Name, groups[mask])
			count := fmt.Sprintf("%d of %d free", free, len(groups[mask]))
			head := text(plain, " %s  ", p.numaList(mask)).add(bold, clipText(Printable(r.Name), 40)).add(plain, "  "+count+"  ")
			head = head.clip(width / 2)
			out = append(out, hang(head, fold(cells, width-head.width()))...)
		}
	}
	return out
}

// legend returns one line or more for each letter, with its pod and the holdings of the pod, and explains the other
// signs.
func (p *picture) legend(width int) []line {
	column := 0
	for _, o := range p.owners {
		column = max(column, utf8.RuneCountInString(ownerName(o)))
	}
	reserved := p.reservedItems()
	const reservedName = "reserved for the system"
	if len(reserved) > 0 {
		column = max(column, len(reservedName))
	}
	column = min(column, 34, width/3)
	var out []line
	for _, o := range p.owners {
		sign := string(o.sign)
		mark := " "
		if o.entry.Source == state.Predicted {
			mark = "*"
		}
		if p.misaligned[o.entry.Pod.UID] {
			mark = "!"
		}
		if p.gone(o.entry) {
			mark = "?"
		}
		head := text(plain, " ").add(o.style, sign).add(plain, mark+" ").add(bold, clipText(ownerName(o), column))
		items := p.holdItems(o.entry.Holdings)
		if len(items) == 0 {
			items = []string{"nothing of its own"}
		}
		out = append(out, p.legendLine(head, items, column, width)...)
	}
	if len(reserved) > 0 {
		head := text(plain, " ").add(faint, string(reservedSign)).add(plain, "  ").add(plain, clipText(reservedName, column))
		out = append(out, p.legendLine(head, reserved, column, width)...)
	}
	out = append(out, p.signKey(width)...)
	return out
}

// ownerName returns the pod of an owner, or "unknown pods" for amounts that are in use without a known pod.
func ownerName(o owner) string {
	if o.entry.Pod.UID == "" && o.entry.Source == state.Counted {
		return "unknown pods"
	}
	return Printable(o.entry.Pod.String())
}

func (p *picture) legendLine(head line, items []string, column, width int) []line {
	indent := column + 6
	return hang(head.pad(indent), wrap(plain, items, width-indent))
}

// hang puts lines beside a head. The second and later lines are indented below the first.
func hang(head line, body []line) []line {
	indent := head.width()
	var out []line
	for i, l := range body {
		if i > 0 {
			head = line(nil).pad(indent)
		}
		out = append(out, append(head, l...))
	}
	return out
}

// reservedItems lists what is reserved for the system. NUMA nodes with equal amounts share an item.
func (p *picture) reservedItems() []string {
	var out []string
	if cpus := p.node.Rules.CPU.Reserved; !cpus.Empty() && p.coarse() {
		out = append(out, document.CPUCounts(p.machine, cpus)...)
	} else if !cpus.Empty() {
		out = append(out, "cpus "+cpus.String())
	}
	type amount struct {
		kind  string
		bytes int64
	}
	on := map[amount]topo.Mask{}
	for i, uses := range p.memory {
		for _, u := range uses {
			if u.reserved > 0 {
				on[amount{u.kind, u.reserved}] |= 1 << uint(i)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(on), func(a, b amount) int {
		return cmp.Or(cmp.Compare(on[a].First(), on[b].First()), strings.Compare(a.kind, b.kind))
	})
	for _, a := range keys {
		s := place.Quantity(a.kind, a.bytes) + " on " + p.numaList(on[a])
		if on[a].Len() > 1 {
			s = place.Quantity(a.kind, a.bytes) + " on each of " + p.numaList(on[a])
		}
		out = append(out, s)
	}
	return out
}

// signKey explains the signs that the picture uses.
func (p *picture) signKey(width int) []line {
	var items []string
	for _, k := range []struct {
		sign rune
		text string
	}{
		{freeSign, "free"}, {freeGPUSign, "free GPU memory"}, {freeDAXSign, "free DAX memory (PMEM, CXL, HBM)"},
		{freeMovableSign, "free movable memory"}, {unhealthySign, "unhealthy"},
		{strandedSign, "never given out: without a known NUMA node"}, {l3Sign, "border of L3 caches"},
		{strideSign, "step between CPUs: 8+2 is 8, 10, 12"},
	} {
		if p.used[k.sign] {
			items = append(items, string(k.sign)+" "+k.text)
		}
	}
	if slices.ContainsFunc(p.node.Entries, func(e state.Entry) bool { return e.Source == state.Predicted }) {
		items = append(items, "* predicted, not yet reported by the node")
	}
	if slices.ContainsFunc(p.node.Entries, func(e state.Entry) bool { return p.misaligned[e.Pod.UID] }) {
		items = append(items, "! misaligned, see kubectl tenon pods")
	}
	if slices.ContainsFunc(p.node.Entries, p.gone) {
		items = append(items, "? the pod is gone, and the node has not reported that")
	}
	// wrap's joint is also the sign of free CPUs, so the key separates items by blanks.
	l := line(nil)
	var out []line
	for _, it := range items {
		if len(l) > 0 && l.width()+3+utf8.RuneCountInString(it) > width {
			out, l = append(out, l), nil
		}
		gap := "   "
		if len(l) == 0 {
			gap = " "
		}
		l = l.add(faint, gap+it)
	}
	if len(l) > 0 {
		out = append(out, l)
	}
	return out
}
