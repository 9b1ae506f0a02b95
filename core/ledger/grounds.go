package ledger

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// grounds remembers the empty usages of machines and rules that nodes have in common, so that thousands of
// equal nodes share what does not depend on what they hold.
type grounds struct {
	empty []*place.Usage
	next  int // the entry that gives way when all are taken
}

// maxGrounds bounds what is remembered. Nodes beyond that work as well, and share less.
const maxGrounds = 64

func (g *grounds) of(m *topo.Machine, r place.Rules) *place.Usage {
	for _, u := range g.empty {
		if u.Machine == m && u.Rules.Equal(r) {
			return u
		}
	}
	u := place.NewUsage(m, r)
	if len(g.empty) < maxGrounds {
		g.empty = append(g.empty, u)
		return u
	}
	g.empty[g.next] = u
	g.next = (g.next + 1) % maxGrounds
	return u
}
