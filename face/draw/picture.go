package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// The signs that do not stand for one pod.
const (
	freeSign        = '·'
	freeGPUSign     = '='
	freeDAXSign     = '-'
	freeMovableSign = '~'
	reservedSign    = '▒'
	unhealthySign   = '✗'
	strandedSign    = '∅'
	l3Sign          = '┊'
	crowdSign       = '+' // for every pod after the 36th
)

// signs are the signs of pods, in the order of the node's entries.
const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// owner is one entry of the node with its sign and colour.
type owner struct {
	entry state.Entry
	sign  rune
	style style
}

// newOwner returns the owner for the entry at index i. The letter of a prediction is a lower-case one.
func newOwner(i int, e state.Entry) owner {
	o := owner{entry: e, sign: crowdSign, style: podStyle(i, e.Source == state.Predicted)}
	if i < len(signs) {
		o.sign = rune(signs[i])
	}
	if e.Source == state.Predicted {
		o.sign = unicode.ToLower(o.sign)
	}
	return o
}

// share is the part of one kind of memory on one NUMA node that an owner holds. owner is an index of picture.owners.
type share struct {
	owner int
	bytes int64
}

// kindUse is one memory kind of one NUMA node; capacity = reserved + shares + free.
type kindUse struct {
	kind                     string
	capacity, reserved, free int64
	shares                   []share
}

// picture is a node indexed by resource: for each CPU, device and kind of memory it has the owner or owners. It is
// made for one drawing.
type picture struct {
	node    *state.Node
	machine *topo.Machine
	owners  []owner
	// misaligned has the UIDs of misaligned pods.
	misaligned map[string]bool
	cpus       map[idset.CPU]int         // index of the owner
	devices    map[string]map[string]int // by resource and id, index of the owner
	memory     [][]kindUse               // by NUMA node position
	used       map[rune]bool             // signs that were drawn, which the legend explains
}

// newPicture indexes the holdings of a node. A pod is identified by the index of its entry.
func newPicture(n *state.Node) *picture {
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

// coarse reports whether the node is an estimated one. The ids of its CPUs and devices are invented.
func (p *picture) coarse() bool { return p.node != nil && p.node.Quality == state.Estimated }

// gone reports whether an entry belongs to a pod that no longer exists.
func (p *picture) gone(e state.Entry) bool { return slices.Contains(p.node.Gone, e.Pod) }

// fillMemory computes the use of each kind of memory. It adds the entries one by one in their order, because memory
// that is held on a group of NUMA nodes comes from each of them in amounts that depend on this order.
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

// cpuCell returns the sign and style of a CPU.
func (p *picture) cpuCell(id idset.CPU) span {
	o, held := p.cpus[id]
	switch {
	case held:
		return p.ownerCell(o)
	case p.node.Rules.CPU.Reserved.Has(id):
		return p.mark(reservedSign, faint)
	}
	return p.mark(freeSign, faint)
}

// deviceCell returns the sign and style of a device.
func (p *picture) deviceCell(resource string, d topo.Device) span {
	o, held := p.devices[resource][d.ID]
	switch {
	case held:
		return p.ownerCell(o)
	case d.Unhealthy:
		return p.mark(unhealthySign, alarm)
	case p.node.Rules.Stranded(p.machine, resource, d):
		return p.mark(strandedSign, faint)
	}
	return p.mark(freeSign, faint)
}

func (p *picture) ownerCell(o int) span { return span{string(p.owners[o].sign), p.owners[o].style} }

// mark returns a sign, and records that the legend has to explain it.
func (p *picture) mark(sign rune, s style) span {
	p.used[sign] = true
	return span{string(sign), s}
}

// size returns bytes as the reasons of package place show them, so that the map and an explanation agree.
func size(kind string, n int64) string {
	s, _, _ := strings.Cut(place.Quantity(kind, n), " ")
	return s
}

// rounded returns bytes in the largest unit that they reach, with at most one decimal. The text has at most 7
// columns.
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

// numaList names the NUMA nodes of a mask.
func (p *picture) numaList(m topo.Mask) string {
	return document.NUMANodes(document.NUMAs(p.machine, m))
}

// balance returns how many of n things to put in one row, which has room for fit of them. It prefers a number that
// makes all rows equally long, unless that is at most half of fit.
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

// holdItems lists what holdings take together. For an estimated node, whose ids are invented, it lists amounts.
func (p *picture) holdItems(hs []place.Holding) []string {
	if p.coarse() {
		return document.Counts(p.machine, hs...)
	}
	return document.Items(p.machine, hs...)
}
