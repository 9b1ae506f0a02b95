package ledger

import (
	"sync"
	"weak"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// grounds finds the empty usages for pairs of machine and rules, so that thousands of equal nodes share everything
// that does not depend on holdings. It uses weak pointers: a machine and its usages are freed with the last node
// state that uses them.
type grounds struct {
	mu    sync.Mutex
	empty map[weak.Pointer[topo.Machine]][]weak.Pointer[place.Usage]
	// sweep is the number of machines at which entries of freed machines are dropped. It is twice the number that was
	// in use at the last sweep, but at least minSweep. So the cost of a report does not depend on the number of
	// machines.
	sweep int
}

const (
	// minSweep is the least number of machines for a sweep.
	minSweep = 64
	// maxShared bounds the different rules per machine that are shared. Nodes beyond that work as well, but share
	// less.
	maxShared = 16
)

// usage returns the empty usage of a machine with rules. It makes one if none is stored.
func (g *grounds) usage(m *topo.Machine, r place.Rules) *place.Usage {
	key := weak.Make(m)
	if u, _ := g.find(key, r); u != nil {
		return u
	}
	u := place.NewUsage(m, r) // outside the lock, since it takes long
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil || len(g.empty) >= g.sweep {
		g.dropFreed()
	}
	known, live := g.lookUp(key, r)
	if known != nil {
		return known
	}
	if len(live) < maxShared {
		live = append(live, weak.Make(u))
	}
	g.empty[key] = live
	return u
}

// find calls lookUp under the lock.
func (g *grounds) find(key weak.Pointer[topo.Machine], r place.Rules) (*place.Usage, []weak.Pointer[place.Usage]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lookUp(key, r)
}

// lookUp looks for the empty usage of a machine with these rules. If there is none, u is nil, and live has the
// machine's usages for other rules that are not freed yet.
func (g *grounds) lookUp(
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

// dropFreed drops the entries of freed machines.
func (g *grounds) dropFreed() {
	live := map[weak.Pointer[topo.Machine]][]weak.Pointer[place.Usage]{}
	for m, usages := range g.empty {
		if m.Value() != nil {
			live[m] = usages
		}
	}
	g.empty, g.sweep = live, max(minSweep, 2*len(live))
}
