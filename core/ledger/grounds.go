package ledger

import (
	"sync"
	"weak"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// grounds finds the empty usages of machines and rules that nodes have in common, so that thousands of equal
// nodes share what does not depend on what they hold. It keeps none of them alive: what a node said earlier is
// gone with the node's last state of that time.
type grounds struct {
	mu    sync.Mutex
	empty map[weak.Pointer[topo.Machine]][]weak.Pointer[place.Usage]
	// sweep is the number of machines at which those that are gone are forgotten: twice as many as were in
	// use last, so that a report costs the same however many there are.
	sweep int
}

const (
	// minSweep is the least number of machines from which on grounds looks for those that are gone.
	minSweep = 64
	// maxShared bounds the rules by which nodes with one machine share. Nodes beyond that work as well, and
	// share less.
	maxShared = 16
)

// of returns the empty usage of a machine with rules.
func (g *grounds) of(m *topo.Machine, r place.Rules) *place.Usage {
	key := weak.Make(m)
	if u, _ := g.find(key, r); u != nil {
		return u
	}
	u := place.NewUsage(m, r) // others need not wait for that
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil || len(g.empty) >= g.sweep {
		g.forget()
	}
	known, live := g.among(key, r)
	if known != nil {
		return known
	}
	if len(live) < maxShared {
		live = append(live, weak.Make(u))
	}
	g.empty[key] = live
	return u
}

func (g *grounds) find(key weak.Pointer[topo.Machine], r place.Rules) (*place.Usage, []weak.Pointer[place.Usage]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.among(key, r)
}

// among returns the empty usage of a machine with rules, or nil and those of other rules.
func (g *grounds) among(
	key weak.Pointer[topo.Machine],
	r place.Rules,
) (u *place.Usage, live []weak.Pointer[place.Usage]) {
	for _, w := range g.empty[key] {
		switch u := w.Value(); {
		case u == nil:
		case u.Rules.Equal(r):
			return u, nil
		default:
			live = append(live, w)
		}
	}
	return nil, live
}

// forget drops the machines that are gone.
func (g *grounds) forget() {
	left := map[weak.Pointer[topo.Machine]][]weak.Pointer[place.Usage]{}
	for m, usages := range g.empty {
		if m.Value() != nil {
			left[m] = usages
		}
	}
	g.empty, g.sweep = left, max(minSweep, 2*len(left))
}
