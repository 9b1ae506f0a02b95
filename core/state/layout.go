package state

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Layout is a node's report.
type Layout struct {
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the pods that hold something, in the order in which the node admitted them.
	Entries []Entry
	// Groups are the memory manager's groups by position of the NUMA node, if they do not follow from the holdings.
	Groups map[int]place.MemoryGroup
	// Amounts are set if the node does not report which pod holds what; Entries and Groups are then empty.
	Amounts *Amounts
	// From is the kind of the object that reported the amounts, for people.
	From string
	// Inexact lists why predictions for this node may differ from what its kubelet does.
	Inexact []Inexact
}

// Amounts is what a node reports about its holdings. The ids of CPUs and devices are made up: only their number per
// NUMA node has a meaning.
type Amounts struct {
	// Held is the sum of all holdings.
	Held []place.Holding
	// Whole: Held also contains what pods keep from their init containers. The kubelet's podresources service does
	// not list these holdings, so an exporter that uses this service reports them as free.
	Whole bool
	// Counts has, by the UID of a pod, whether Held contains the pod. Counts is nil if the node does not report which
	// pods it has seen.
	Counts map[string]bool
	// Either has groups of UIDs that Counts does not decide: Held contains exactly one pod of each group. The node
	// identifies pods by name, and a name may be used again.
	Either [][]string
	// Seen has the UIDs of pods that were admitted so long ago that Held contains them, unless the exporter has
	// stopped. Past has the UIDs of pods that ended so long ago that Held does not contain them.
	Seen, Past map[string]bool
	// Again: the node has reported nothing new. Held is as in the previous Amounts; Seen, Past, Counts and Either
	// have what is now known about that report.
	Again bool
}
