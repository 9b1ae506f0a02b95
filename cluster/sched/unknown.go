package sched

import (
	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// knows reports whether enough is known of a node to judge it, n being what is known or nil.
func (p *Plugin) knows(n *ledger.Node) bool {
	return n != nil && (n.Quality == ledger.Exact || p.args.CoarseNodes != config.Refuse)
}

// shuns reports whether the profile keeps pods from a node because its agent is silent.
func (p *Plugin) shuns(n *ledger.Node) bool { return n.Silent && p.args.SilentNodes == config.Refuse }

// letsUnknown reports whether the pod may go to nodes of which nothing is known.
func (p *Plugin) letsUnknown(s *state) bool {
	switch p.args.UnknownNodes {
	case config.Allow:
		return true
	case config.AllowWithoutDemand:
		return s.demand.Policy != place.Restricted && s.demand.Policy != place.SingleNUMA
	}
	return false
}
