package candidates

import (
	"sync/atomic"

	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Nodes maps the nodes of kube-scheduler's snapshot to slots of the ledger, so that Filter and Score need no lookup
// by name. kube-scheduler keeps the NodeInfo of a node at one address while the node exists, and builds its list of
// nodes anew only when nodes join or leave. Nodes keeps the name with the address, to detect an address that was
// reused. A Nodes is immutable; the zero Nodes is empty.
type Nodes struct {
	roster ledger.Roster
	// first, the address of the list's first element, and count, its length, identify the list.
	first *fwk.NodeInfo
	count int
	at    map[*framework.NodeInfo]entry
	// unknown are the names of the nodes that the ledger does not have.
	unknown []string
}

// entry has the name and the ledger's slot of a node; the slot is -1 if the ledger does not have the node.
type entry struct {
	name string
	slot int
}

// Latest caches the Nodes of the last list. The zero Latest is empty. Of may be called by any goroutine.
type Latest struct{ nodes atomic.Pointer[Nodes] }

// Of returns the Nodes of a list. It returns the same value as the last call if neither the list nor the ledger's set
// of nodes has changed since; otherwise it builds one, in time proportional to the list. The list must not change.
func (l *Latest) Of(snap *ledger.Snapshot, list []fwk.NodeInfo) *Nodes {
	if len(list) == 0 {
		return &Nodes{}
	}
	old := l.nodes.Load()
	if old != nil && old.first == &list[0] && old.count == len(list) && old.roster == snap.Roster() {
		return old
	}
	out := &Nodes{
		roster: snap.Roster(),
		first:  &list[0],
		count:  len(list),
		at:     make(map[*framework.NodeInfo]entry, len(list)),
	}
	sameSlots := old != nil && old.roster == out.roster
	for _, info := range list {
		key, isKey := info.(*framework.NodeInfo)
		if info.Node() == nil {
			continue
		}
		known := entry{info.Node().Name, -1}
		if before, found := old.entry(key, known.name); sameSlots && found {
			known = before
		} else if slot, found := snap.Slot(known.name); found {
			known.slot = slot
		}
		if isKey {
			out.at[key] = known
		}
		if known.slot < 0 {
			out.unknown = append(out.unknown, known.name)
		}
	}
	l.nodes.Store(out)
	return out
}

// entry returns the entry of the node with this NodeInfo and name. The bool is false if the list did not have the
// node.
func (n *Nodes) entry(info *framework.NodeInfo, name string) (entry, bool) {
	if n == nil || info == nil {
		return entry{}, false
	}
	known, ok := n.at[info]
	return known, ok && known.name == name
}

// Slot returns the slot of a node in a snapshot, by its NodeInfo and name, or -1 if the ledger does not have the node.
func (n *Nodes) Slot(snap *ledger.Snapshot, info fwk.NodeInfo, name string) int {
	if at, ok := info.(*framework.NodeInfo); ok {
		if known, ok := n.entry(at, name); ok {
			return known.slot
		}
	}
	if slot, ok := snap.Slot(name); ok {
		return slot
	}
	return -1
}
