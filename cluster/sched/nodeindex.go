package sched

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
)

// nodeIndex maps the nodes of kube-scheduler's snapshot to slots of the ledger, so that Filter and Score look up no
// name among thousands. kube-scheduler keeps the NodeInfo of a node at its address as long as the node exists, and
// lists them anew only when nodes join or leave. Should it not, the name that is kept with the address shows it. A
// nodeIndex does not change.
type nodeIndex struct {
	roster ledger.Roster
	// first and count identify the list that was read.
	first *fwk.NodeInfo
	count int
	at    map[*framework.NodeInfo]indexedNode
	// unknown are the names of the nodes that the ledger does not know.
	unknown []string
}

// indexedNode is a node and its slot, -1 if the ledger does not have it.
type indexedNode struct {
	name string
	slot int
}

// nodeIndexes holds the latest index of one profile.
type nodeIndexes struct{ last atomic.Pointer[nodeIndex] }

// of returns the index of a list of nodes, built only if the list or the ledger's nodes have changed.
func (l *nodeIndexes) of(snap *ledger.Snapshot, nodes []fwk.NodeInfo) *nodeIndex {
	if len(nodes) == 0 {
		return &nodeIndex{}
	}
	old := l.last.Load()
	if old != nil && old.first == &nodes[0] && old.count == len(nodes) && old.roster == snap.Roster() {
		return old
	}
	out := &nodeIndex{
		roster: snap.Roster(),
		first:  &nodes[0],
		count:  len(nodes),
		at:     make(map[*framework.NodeInfo]indexedNode, len(nodes)),
	}
	same := old != nil && old.roster == out.roster
	for _, info := range nodes {
		at, ok := info.(*framework.NodeInfo)
		if info.Node() == nil {
			continue
		}
		known := indexedNode{info.Node().Name, -1}
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
func (l *nodeIndex) remembers(info *framework.NodeInfo, name string) (indexedNode, bool) {
	if l == nil || info == nil {
		return indexedNode{}, false
	}
	known, ok := l.at[info]
	return known, ok && known.name == name
}

// slot returns the slot of a node by its name, -1 where the ledger does not know the node.
func (s *state) slot(info fwk.NodeInfo, name string) int {
	if at, ok := info.(*framework.NodeInfo); ok {
		if known, ok := s.index.remembers(at, name); ok {
			return known.slot
		}
	}
	if slot, ok := s.snap.Slot(name); ok {
		return slot
	}
	return -1
}
