package sched

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
)

// spots says in which slot of the ledger the nodes of kube-scheduler's snapshot are, so that nobody looks for a
// name among thousands for every node that is asked. kube-scheduler keeps the NodeInfo of a node at its address
// as long as the node is there, and lists them anew only where nodes come or go; where it should not, the name
// that is remembered with the address tells. A spots never changes.
type spots struct {
	roster ledger.Roster
	// first and count are of the list that was read.
	first *fwk.NodeInfo
	count int
	at    map[*framework.NodeInfo]spot
	// unknown are the names of the nodes that the ledger does not know.
	unknown []string
}

// spot is where a node is in the ledger; slot is -1 where the ledger does not know it.
type spot struct {
	name string
	slot int
}

// spotted are the latest spots of one profile.
type spotted struct{ last atomic.Pointer[spots] }

// of returns the spots of a list of nodes in a snapshot; of no nodes there are none to remember.
func (l *spotted) of(snap *ledger.Snapshot, nodes []fwk.NodeInfo) *spots {
	if len(nodes) == 0 {
		return &spots{}
	}
	old := l.last.Load()
	if old != nil && old.first == &nodes[0] && old.count == len(nodes) && old.roster == snap.Roster() {
		return old
	}
	out := &spots{
		roster: snap.Roster(),
		first:  &nodes[0],
		count:  len(nodes),
		at:     make(map[*framework.NodeInfo]spot, len(nodes)),
	}
	same := old != nil && old.roster == out.roster
	for _, info := range nodes {
		at, ok := info.(*framework.NodeInfo)
		if info.Node() == nil {
			continue
		}
		known := spot{info.Node().Name, -1}
		if before, was := old.remembers(at, known.name); same && was {
			known = before
		} else if slot, in := snap.Slot(known.name); in {
			known.slot = slot
		}
		if ok {
			out.at[at] = known
		}
		if known.slot < 0 {
			out.unknown = append(out.unknown, known.name)
		}
	}
	l.last.Store(out)
	return out
}

// remembers returns where the node of a NodeInfo is, if the NodeInfo is among those that were read.
func (l *spots) remembers(info *framework.NodeInfo, name string) (spot, bool) {
	if l == nil || info == nil {
		return spot{}, false
	}
	known, ok := l.at[info]
	return known, ok && known.name == name
}

// slot returns the slot of a node by its name, -1 where the ledger does not know the node.
func (s *state) slot(info fwk.NodeInfo, name string) int {
	if at, ok := info.(*framework.NodeInfo); ok {
		if known, ok := s.spots.remembers(at, name); ok {
			return known.slot
		}
	}
	if slot, ok := s.snap.Slot(name); ok {
		return slot
	}
	return -1
}
