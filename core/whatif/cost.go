package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file computes the cost of a pod on a node, with the cheap checks first, and groups the nodes that have no room.
// judge.go has the reasons.

// strategy returns the scoring of the plan's rules, or of the type that the pod chooses.
func (p *Plan) strategy(w *Want) score.Strategy {
	s := p.rules.Strategy
	if w.Type != nil {
		s.Type = *w.Type
	}
	return s
}

// cost returns the cost of a pod on the node at position i, or refused. It does not consider w.Peers.
func (p *Plan) cost(i int, w *Want) int64 {
	n := p.nodes[i].beside(w.Request)
	switch {
	case len(w.Bars.at(i)) > 0 || !p.rules.takes(n, w):
		return refused
	case w.Pod.Plain():
		return crowding(n, w.Needs)
	case n.State == nil:
		return p.strategy(w).Unknown()
	}
	v := n.State.Place(w.Pod, w.Demand)
	return p.strategy(w).Cost(n.State.Usage, w.Pod, v, n.State.Quality == state.Estimated)
}

// Room returns how many pods of a shape fit on a node one after the other, at most most. It does not consider w.Bars
// and w.Peers. Of equal pods, no more fit there at the same time.
func (r Rules) Room(n Node, w *Want, most int) (count int) {
	n = *n.beside(w.Request)
	for count < most && r.takes(&n, w) {
		if n.State != nil && !w.Pod.Plain() {
			id := state.PodID{UID: "room " + strconv.Itoa(count)}
			next, ok := n.State.Join(id, w.Pod, w.Demand)
			if !ok {
				break
			}
			n.State = next
			n.Give(w, next.Entries[len(next.Entries)-1].Holdings)
		} else {
			n.Give(w, nil)
		}
		n.Used = n.Used.Add(w.Needs)
		count++
	}
	return count
}

// takes reports whether a pod fits on a node, which is beside its request. It does not consider w.Bars and w.Peers.
func (r Rules) takes(n *Node, w *Want) bool {
	switch {
	case n.Gone || !n.gives(w.Needs):
		return false
	case w.Pod.Plain():
		return n.givesDevices(w)
	case r.distrusts(n, w.Demand) != nil:
		return false
	case n.State == nil:
		return n.givesDevices(w)
	}
	// Fits is much faster than a verdict with its reasons, and is all that counts for a pod without a demand.
	return n.State.Fits(w.Pod) && (!w.Demand.Binds() || n.State.Takes(w.Pod, w.Demand)) &&
		r.Guard.Refuses(n.State, w.Pod, w.Demand) == 0 && n.givesDevices(w)
}

// partners returns the position of the node on which the pods are that a demand wants a pod to be together with, or -1.
func partners(nodes []Node, d place.Demand) int {
	if d.Together == "" {
		return -1
	}
	return slices.IndexFunc(nodes, func(n Node) bool { return !n.Gone && n.State.Together(d.Together) })
}

// elsewhere returns the reasons for which the node at a position bars a pod, with [place.Elsewhere] if partners has
// found another node.
func elsewhere(barred []place.Reason, nodes []Node, with, at int) []place.Reason {
	if with < 0 || with == at {
		return barred
	}
	return append(barred[:len(barred):len(barred)], place.Elsewhere(nodes[with].Name))
}

// crowding returns the cost if NUMA nodes do not matter: how full the node will be of CPUs, memory and pods, in the
// manner of kube-scheduler's NodeResourcesFit, which by default takes the emptiest node.
func crowding(n *Node, needs Amounts) (cost int64) {
	const whole = 1 << 10
	for _, name := range [...]string{"cpu", topo.Memory, "pods"} {
		if all := n.Allocatable[name]; all > 0 {
			cost += min(n.Used[name]+needs[name], all) * whole / all
		}
	}
	return cost
}

// Refusal is a group of nodes that refuse a shape for the same reasons; the amounts that these nodes have may differ.
type Refusal struct {
	Nodes []string // ascending
	// Error is the reason that the kubelets would give if the pod came now; empty if they would admit the pod.
	Error place.RefusalReason
	// Reasons are the reasons that all these nodes have in common, in the order of [Judgement]. Where the nodes have
	// different amounts, Have is the highest.
	Reasons []place.Reason
}

// refusals returns why nodes have no room for a shape. Nodes with the same reasons are one group. Large groups come
// first, and groups of equal size are in the order of their first nodes. nodes are positions, in order of the nodes'
// names. Nodes that are gone are ignored. neighbours is nil if no other pod matters.
func (p *Plan) refusals(w *Want, neighbours Neighbours, nodes []int) []Refusal {
	groups := map[string]*Refusal{}
	with := partners(p.nodes, w.Demand)
	for _, i := range nodes {
		if p.nodes[i].Gone {
			continue
		}
		j := p.rules.Judge(&p.nodes[i], w, elsewhere(w.barred(neighbours, i), p.nodes, with, i))
		r := Refusal{[]string{p.nodes[i].Name}, j.Verdict.Refusal, j.Reasons}
		k := r.key()
		g := groups[k]
		if g == nil {
			r.Reasons = p.nodes[i].Tried(w, r.Reasons)
			groups[k] = &r
			continue
		}
		g.Nodes = append(g.Nodes, r.Nodes...)
		Merge(g.Reasons, r.Reasons)
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(len(groups[b].Nodes)-len(groups[a].Nodes), strings.Compare(groups[a].Nodes[0], groups[b].Nodes[0]))
	})
	out := make([]Refusal, 0, len(keys))
	for _, k := range keys {
		out = append(out, *groups[k])
	}
	return out
}

func (r Refusal) key() string { return Alike(r.Error, r.Reasons) }

// Alike returns a text that is the same for nodes that refuse a pod for the same reasons. Three things may differ:
// the amounts that the nodes have, the pod that is in the way, and the value of a label.
func Alike(why place.RefusalReason, reasons []place.Reason) string {
	var b strings.Builder
	b.WriteString(string(why))
	for _, x := range reasons {
		if hasAmount(x.Code) {
			x.Have = 0
		}
		if namesPeer(x.Code) {
			x.With = ""
		}
		if x.Code == place.Unselected && x.With != "" {
			x.With = place.Various
		}
		fmt.Fprintf(&b, "\n%#v", x) // all fields, since two reasons may have the same text
	}
	return b.String()
}

// Merge changes the reasons in merged so that they also describe the nodes whose reasons are in more. The text of
// [Alike] must be the same for both. Have becomes the higher of the two amounts, and names of pods or values of
// labels that differ are removed.
func Merge(merged, more []place.Reason) {
	for i := range merged {
		x := &merged[i]
		if x.With != more[i].With {
			switch {
			case namesPeer(x.Code):
				x.With = "" // several pods
			case x.Code == place.Unselected:
				x.With = place.Various
			}
		}
		if hasAmount(x.Code) {
			x.Have = max(x.Have, more[i].Have)
		}
	}
}

// namesPeer reports whether a reason names a pod that excludes another one.
func namesPeer(c place.Code) bool {
	return c == place.PortTaken || c == place.PodAntiAffinity || c == place.KeptAway
}

// hasAmount reports whether the Have of a reason is an amount for which more is better.
func hasAmount(c place.Code) bool {
	switch c {
	case place.Widths, place.Uneven, place.Demanded, place.Unsupported, place.NUMAID, place.NoPages,
		place.TooComplex:
		return false
	}
	return true
}
