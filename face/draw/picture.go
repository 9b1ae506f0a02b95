package draw

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// The signs that are not pods.
const (
	freeSign        = '·'
	freeGPUSign     = '='
	freeDAXSign     = '-'
	freeMovableSign = '~'
	reservedSign    = '▒'
	unhealthySign   = '✗'
	l3Sign          = '┊'
	crowdSign       = '+' // every pod after the 36th
)

const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// owner is one entry of the node with its sign and colour.
type owner struct {
	entry ledger.Entry
	sign  rune
	style style
}

func newOwner(i int, e ledger.Entry) owner {
	o := owner{entry: e, sign: crowdSign, style: podStyle(i, e.Source == ledger.Predicted)}
	if i < len(signs) {
		o.sign = rune(signs[i])
	}
	if e.Source == ledger.Predicted {
		o.sign = unicode.ToLower(o.sign)
	}
	return o
}

// share is the bytes that an owner has of one memory kind on one numa.
type share struct {
	owner int
	bytes int64
}

// kindUse is one memory kind of one numa; capacity = reserved + shares + free.
type kindUse struct {
	kind                     string
	capacity, reserved, free int64
	shares                   []share
}

// picture is a node turned around: from "who holds what" to "who is on this CPU".
type picture struct {
	node    *ledger.Node
	machine *topo.Machine
	owners  []owner
	cpus    map[idset.CPU]int         // owner
	devices map[string]map[string]int // resource, id: owner
	memory  [][]kindUse               // by numa position
	l3      bool                      // a border between L3 groups is drawn somewhere
	used    map[rune]bool             // signs that were drawn, for the legend
}

func newPicture(n *ledger.Node) *picture {
	p := &picture{node: n, machine: n.Machine, cpus: map[idset.CPU]int{},
		devices: map[string]map[string]int{}, used: map[rune]bool{}}
	for i, e := range n.Entries {
		p.owners = append(p.owners, newOwner(i, e))
		for _, h := range e.Holdings {
			for c := range h.CPUs.All() {
				p.cpus[c] = i
			}
			for _, d := range h.Devices {
				if p.devices[d.Resource] == nil {
					p.devices[d.Resource] = map[string]int{}
				}
				for _, id := range d.IDs {
					p.devices[d.Resource][id] = i
				}
			}
		}
	}
	p.fillMemory()
	return p
}

// coarse reports whether ids of the node are made up.
func (p *picture) coarse() bool { return p.node != nil && p.node.Quality == ledger.Coarse }

// cpuCounts says how many of some CPUs are on each numa.
func (p *picture) cpuCounts(cpus idset.Set[idset.CPU]) (out []string) {
	for i, n := range p.machine.NUMAs() {
		if count := n.CPUs.AndLen(cpus); count > 0 {
			out = append(out, plural(count, "cpu")+" "+p.numaList(1<<uint(i)))
		}
	}
	return out
}

// deviceCounts says how many of some devices are on each set of numas.
func (p *picture) deviceCounts(d place.DeviceBlock) (out []string) {
	count := map[topo.Mask]int{}
	r, _ := p.machine.Resource(d.Resource)
	for _, dev := range r.Devices {
		if slices.Contains(d.IDs, dev.ID) {
			count[dev.NUMAs]++
		}
	}
	for _, on := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%d %s %s", count[on], Printable(d.Resource), p.numaList(on)))
	}
	return out
}

// fillMemory replays the entries: only the order in which they came says which numa of a group of
// numas gave how much.
func (p *picture) fillMemory() {
	u := place.NewUsage(p.machine, p.node.Rules)
	for i, n := range p.machine.NUMAs() {
		var uses []kindUse
		for _, k := range p.machine.Kinds() {
			if c := n.Capacity(k); c > 0 {
				free := min(max(0, u.FreeMemory(i, k)), c)
				uses = append(uses, kindUse{kind: k, capacity: c, reserved: c - free, free: free})
			}
		}
		p.memory = append(p.memory, uses)
	}
	for o, e := range p.node.Entries {
		u = u.Hold(e.Holdings...)
		for i := range p.memory {
			for k := range p.memory[i] {
				use := &p.memory[i][k]
				free := max(0, u.FreeMemory(i, use.kind))
				if took := use.free - free; took > 0 {
					use.shares = append(use.shares, share{o, took})
					use.free = free
				}
			}
		}
	}
}

// cell returns the sign and style of a CPU.
func (p *picture) cell(id idset.CPU) span {
	o, held := p.cpus[id]
	switch {
	case held:
		return p.owned(o)
	case p.node.Rules.CPU.Reserved.Has(id):
		return p.mark(reservedSign, faint)
	}
	return p.mark(freeSign, faint)
}

func (p *picture) deviceCell(resource string, d topo.Device) span {
	o, held := p.devices[resource][d.ID]
	switch {
	case held:
		return p.owned(o)
	case d.Unhealthy:
		return p.mark(unhealthySign, alarm)
	}
	return p.mark(freeSign, faint)
}

func (p *picture) owned(o int) span { return span{string(p.owners[o].sign), p.owners[o].style} }

func (p *picture) mark(sign rune, s style) span {
	p.used[sign] = true
	return span{string(sign), s}
}

// size renders bytes as reasons do, so that the map and an explanation agree.
func size(kind string, n int64) string {
	s, _, _ := strings.Cut(place.Quantity(kind, n), " ")
	return s
}

// rounded renders bytes in the largest unit of which there is one, with at most one decimal: at most 7 columns.
func rounded(n int64) string {
	unit, name := int64(1), ""
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi"} {
		if n < unit<<10 {
			break
		}
		unit, name = unit<<10, next
	}
	if n%unit == 0 || n/unit >= 100 {
		return fmt.Sprintf("%d%s", n/unit, name)
	}
	return fmt.Sprintf("%.1f%s", float64(n)/float64(unit), name)
}

// numaList renders a mask by ids, for example "numa 0" or "numas 0-1".
func (p *picture) numaList(m topo.Mask) string {
	ids := p.machine.IDs(m)
	switch len(ids) {
	case 0:
		return "no numa"
	case 1:
		return fmt.Sprintf("numa %d", ids[0])
	}
	return "numas " + idset.Of(ids...).String()
}

// balance cuts n things into rows of at most fit: rows of equal length where that costs little.
func balance(n, fit int) int {
	fit = max(1, min(fit, n))
	for d := fit; d > fit/2; d-- {
		if n%d == 0 {
			return d
		}
	}
	rows := (n + fit - 1) / fit
	return (n + rows - 1) / rows
}

// holdItems says what holdings take together, for example "cpus 1-4,33-36", "24Gi memory numa 0".
func (p *picture) holdItems(hs []place.Holding) []string {
	var out []string
	sum := merge(hs)
	switch {
	case sum.CPUs.Empty():
	case p.coarse():
		out = append(out, p.cpuCounts(sum.CPUs)...)
	default:
		out = append(out, "cpus "+sum.CPUs.String())
	}
	for _, b := range sum.Memory {
		out = append(out, place.Quantity(b.Kind, b.Bytes)+" "+p.numaList(b.NUMAs))
	}
	for _, d := range sum.Devices {
		if p.coarse() {
			out = append(out, p.deviceCounts(d)...)
			continue
		}
		about := " "
		if d.Free {
			about = " ~"
		}
		slices.Sort(d.IDs)
		out = append(out, Printable(d.Resource)+about+idList(slices.Compact(d.IDs)))
	}
	return out
}

// merge adds up holdings: memory by kind and numas, devices by resource.
func merge(hs []place.Holding) (sum place.Holding) {
	for _, h := range hs {
		sum.CPUs = sum.CPUs.Union(h.CPUs)
		for _, b := range h.Memory {
			i := slices.IndexFunc(sum.Memory, func(x place.Block) bool { return x.Kind == b.Kind && x.NUMAs == b.NUMAs })
			if i < 0 {
				sum.Memory = append(sum.Memory, b)
				continue
			}
			sum.Memory[i].Bytes += b.Bytes
		}
		for _, d := range h.Devices {
			i := slices.IndexFunc(sum.Devices, func(x place.DeviceBlock) bool { return x.Resource == d.Resource })
			if i < 0 {
				d.IDs = slices.Clone(d.IDs)
				sum.Devices = append(sum.Devices, d)
				continue
			}
			sum.Devices[i].IDs = append(sum.Devices[i].IDs, d.IDs...)
			sum.Devices[i].Free = sum.Devices[i].Free || d.Free
		}
	}
	return sum
}

// idList joins ids, the first few of them where they are long.
func idList(ids []string) string {
	const room = 60
	out := ""
	for i, id := range ids {
		if i > 0 && len(out)+len(id) > room {
			return fmt.Sprintf("%s,+%d more", out, len(ids)-i)
		}
		if i > 0 {
			out += ","
		}
		out += Printable(id)
	}
	return out
}
