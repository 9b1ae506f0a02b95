package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file says what a pod costs on a node, and why it does not fit there. Both ask in the same order: what
// the scheduler's other plugins would say, then the numas.

func (p *Plan) strategy(w *Want) score.Strategy {
	s := p.rules.Strategy
	if w.Type != nil {
		s.Type = *w.Type
	}
	return s
}

// cost returns what a pod costs on a node, or refused.
func (p *Plan) cost(i int, w *Want) int64 {
	n := &p.nodes[i]
	switch {
	case n.Gone || w.Bars.at(i) != "" || len(lacks(n, w.Needs)) > 0:
		return refused
	case w.Pod.Plain():
		return crowding(n, w.Needs)
	case p.distrusted(n, w.Demand) != "":
		return refused
	case n.State == nil:
		return p.strategy(w).Unknown()
	case !n.State.Fits(w.Pod): // many times quicker than a verdict with its reasons
		return refused
	}
	v := n.State.Place(w.Pod, w.Demand)
	if !v.Fits() {
		return refused
	}
	return p.strategy(w).Cost(n.State.Usage, w.Pod, v, n.State.Quality == ledger.Coarse)
}

// distrusted says why too little is known of a node for pods that need alignment, or "".
func (p *Plan) distrusted(n *Node, d place.Demand) string {
	switch {
	case n.State == nil && !p.rules.Unknown.lets(d):
		return "nothing is known of the node's NUMA nodes"
	case n.State != nil && n.State.Quality == ledger.Coarse && !p.rules.Coarse.lets(d):
		return "node has a NodeResourceTopology and no layout"
	}
	return ""
}

func (t Trust) lets(d place.Demand) bool {
	return t == Allow || t == AllowWithoutDemand && !d.Binds()
}

// lacks says which plain amounts a node has too little of left. CPUs are rounded so that the want is above
// what the node has left in whole numbers too.
func lacks(n *Node, needs Amounts) (out []place.Reason) {
	for name, want := range needs {
		left := n.Left(name)
		if want <= 0 || want <= left {
			continue
		}
		if name == "cpu" {
			want, left = (want+999)/1000, left/1000
		}
		out = append(out, place.Reason{Code: place.Lacking, Resource: name, Want: want, Have: left})
	}
	slices.SortFunc(out, func(a, b place.Reason) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// crowding is the cost where numas do not count: how full the node will be of CPUs, memory and pods, in the
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

// Refusal is nodes that refuse a shape for the same reasons, whatever amount each of them has.
type Refusal struct {
	Nodes []string // ascending
	// Bar is why the shape may not go there at all; Error and Reasons are then empty.
	Bar string
	// Error is what the kubelets would say; empty where plain amounts are what is short.
	Error place.RefusalReason
	// Reasons are those of all these nodes, with the most that one of them has.
	Reasons []place.Reason
}

// refusals says why nodes, in order of names, have no room for a shape: the most nodes first, then the first
// name. Nodes that are gone are passed over.
func (p *Plan) refusals(w *Want, nodes []int) []Refusal {
	groups := map[string]*Refusal{}
	for _, i := range nodes {
		if p.nodes[i].Gone {
			continue
		}
		r := p.why(i, w)
		k := r.key()
		g := groups[k]
		if g == nil {
			groups[k] = &r
			continue
		}
		g.Nodes = append(g.Nodes, r.Nodes...)
		for j := range g.Reasons {
			if amount(r.Reasons[j].Code) {
				g.Reasons[j].Have = max(g.Reasons[j].Have, r.Reasons[j].Have)
			}
		}
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

// why says why a node has no room.
func (p *Plan) why(i int, w *Want) Refusal {
	n := &p.nodes[i]
	out := Refusal{Nodes: []string{n.Name}}
	if out.Bar = w.Bars.at(i); out.Bar != "" {
		return out
	}
	if out.Reasons = lacks(n, w.Needs); len(out.Reasons) > 0 {
		return out
	}
	if out.Bar = p.distrusted(n, w.Demand); out.Bar != "" || n.State == nil {
		return out
	}
	v := n.State.Place(w.Pod, w.Demand)
	out.Error, out.Reasons = v.Refusal, slices.Clone(v.Reasons)
	return out
}

func (r Refusal) key() string {
	var b strings.Builder
	b.WriteString(r.Bar + "\n" + string(r.Error))
	for _, x := range r.Reasons {
		if amount(x.Code) {
			x.Have = 0
		}
		fmt.Fprintf(&b, "\n%#v", x) // every field: two reasons may have one text
	}
	return b.String()
}

// amount reports whether the Have of a reason is an amount of which more is better.
func amount(c place.Code) bool {
	switch c {
	case place.Widths, place.Demanded, place.Unsupported, place.NUMAID, place.TooComplex:
		return false
	}
	return true
}
