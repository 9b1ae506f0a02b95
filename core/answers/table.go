// Package answers caches what nodes answer to kinds of pods: whether such a pod fits, and its cost or why it does not
// fit. One table serves all profiles of a scheduler; a row of it is one kind of pods.
//
// Invariant: an answer is valid until the node changes, which the version of its slot shows. A cost is also valid for
// one workload profile only. Nothing else makes an answer invalid, and the table returns no answer that was not
// computed.
//
// The table is bounded in rows, cells, bytes of reasons and containers. It drops the row whose last use is oldest,
// and a missing answer costs only time. It keeps no node alive. All methods may be called by any goroutine.
package answers

import (
	"sync"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
)

const (
	// maxKinds bounds the rows. A cluster has few kinds of pods at a time.
	maxKinds = 256
	// minKinds rows are kept however large the cluster is.
	minKinds = 8
	// maxCellBytes bounds the cells of all rows.
	maxCellBytes = 64 << 20
	// maxContainers bounds the containers of all kinds: pods of thousands of containers take megabytes.
	maxContainers = 64 << 10
)

// Kind has everything that determines the answer of a node. Pods of one kind have the same shape.
type Kind struct {
	// Profile identifies what the answers depend on besides the pod: arguments and weights of a scheduler's profile.
	Profile string
	// Pod is equal for pods that all nodes answer alike, and bounded in length.
	Pod    string
	Demand place.Demand
	// By is the way in which nodes are scored.
	By score.Type
}

// Table has a row for each kind. The zero Table is empty.
type Table struct {
	mu         sync.Mutex
	rows       map[Kind]*Row
	containers int    // of all kinds
	now        uint64 // counts calls of Row
}

// maxRows returns how many rows the table keeps at most, if each has a cell for each slot.
func maxRows(slots int) int {
	return max(minKinds, min(maxKinds, maxCellBytes/cellBytes/max(1, slots)))
}

// Row returns the row of a kind, with costs for mix and room for this number of slots. If the table has no row of the
// kind, Row adds one and first is true. If the row has costs for another mix, Row replaces it by a row without
// answers. The pod must not change.
func (t *Table) Row(k Kind, pod *place.Pod, mix *score.Mix, slots int) (row *Row, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now++
	row = t.rows[k]
	switch {
	case row == nil:
		row, first = &Row{fits: &fits{pod: pod, demand: k.Demand}, mix: mix, numbers: map[refusalKey]int{}}, true
		more := len(pod.Containers)
		for len(t.rows) > 0 && (len(t.rows) >= maxRows(slots) || t.containers+more > maxContainers) {
			t.dropOldest()
		}
		if t.rows == nil {
			t.rows = map[Kind]*Row{}
		}
		t.rows[k], t.containers = row, t.containers+more
	case row.mix != mix:
		row = &Row{fits: row.fits, mix: mix, numbers: map[refusalKey]int{}}
		t.rows[k] = row
	}
	row.used = t.now
	row.grow(slots)
	return row, first
}

// Find returns the row of a kind, or nil if there is none. It does not count as use.
func (t *Table) Find(k Kind) *Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[k]
}

// Len returns the number of rows.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rows)
}

// dropOldest drops the row whose last use is oldest. There must be a row.
func (t *Table) dropOldest() {
	var oldest Kind
	least := ^uint64(0)
	for k, r := range t.rows {
		if r.used < least {
			oldest, least = k, r.used
		}
	}
	t.containers -= len(t.rows[oldest].fits.pod.Containers)
	delete(t.rows, oldest)
}

// fits finds where a kind of pods fits. It does not depend on the workload profile. The index is made at its first
// use.
type fits struct {
	pod    *place.Pod
	demand place.Demand
	once   sync.Once
	index  *ledger.Index
}

// Fitting returns the nodes of a snapshot on which the pod fits, including its demand.
func (r *Row) Fitting(s *ledger.Snapshot) *ledger.Set {
	f := r.fits
	f.once.Do(func() { f.index = ledger.NewIndex(f.pod, f.demand) })
	return f.index.Fitting(s)
}

// Outline returns what the pod gets on one of the nodes that Fitting has returned before, in amounts; see
// [ledger.Index.Outline]. Fitting must have been called before.
func (r *Row) Outline(n *state.Node) (o place.Outline, ok bool) { return r.fits.index.Outline(n) }
