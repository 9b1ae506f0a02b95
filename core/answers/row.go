package answers

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
)

// maxReasons and maxReasonBytes bound the refusals of a row. Refusals beyond them are computed again for every use.
const (
	maxReasons     = 4096
	maxReasonBytes = 128 << 10
)

// Row has the answers of nodes to one kind of pods, by slot. Equal refusals of many nodes are stored once, and a cell
// has no pointer to a node.
type Row struct {
	used uint64 // guarded by Table.mu
	fits *fits
	mix  *score.Mix
	// cells are in blocks by slot. A block is allocated at the first write to it, and never moved.
	cells atomic.Pointer[[]atomic.Pointer[block]]

	mu       sync.Mutex
	never    map[emptyNode]*Refusal // permanent refusals; see Never
	numbers  map[refusalKey]int     // indices in refusals
	bytes    int                    // of the stored refusals
	refusals atomic.Pointer[[]*Refusal]
}

const (
	blockSize = 64
	cellBytes = 16
)

// block has the cells of blockSize slots.
type block [blockSize]cell

// cell is the answer of one node at the version since: its cost, or, below 0, the number of a refusal. While a
// goroutine writes the cell, since has the value taken.
type cell struct {
	since atomic.Uint64
	value atomic.Int64
}

// taken marks a cell that is being written. Neither taken nor 0 is a version.
const taken = math.MaxUint64

// read returns the answer if it is for the version since. It loads the cell's version again after the value, because
// another goroutine may have begun to write the cell meanwhile; ok is then false.
func (c *cell) read(since uint64) (value int64, ok bool) {
	if c.since.Load() != since {
		return 0, false
	}
	value = c.value.Load()
	return value, c.since.Load() == since
}

// write stores an answer for the version since. It does nothing while another goroutine writes the cell: an answer
// that is not cached is computed again.
func (c *cell) write(since uint64, value int64) {
	if old := c.since.Load(); old != taken && c.since.CompareAndSwap(old, taken) {
		c.value.Store(value)
		c.since.Store(since)
	}
}

// Refusal is the reason why a pod does not fit on a node. It never changes.
type Refusal struct {
	Reasons []place.Reason
	// Texts are the reasons in the form shown to people; there is at least one.
	Texts []string
	// Permanent means that the pod would not fit on the empty node either.
	Permanent bool
}

// maxNever bounds the kinds of nodes for which a row stores a permanent refusal.
const maxNever = 64

// emptyNode identifies nodes with the same machine, rules and quality. It keeps nothing alive.
type emptyNode struct {
	usage   weak.Pointer[place.Usage]
	quality state.Quality
}

// Never returns the permanent refusal stored for nodes with the same machine, rules and quality, or nil. Such a
// refusal means that the pod does not fit on the empty node. In rare cases the pod still fits beside other pods, so
// the caller must ask the node if it cannot rule that out.
func (r *Row) Never(n *state.Node) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.never) == 0 {
		return nil
	}
	return r.never[emptyNode{weak.Make(n.Empty()), n.Quality}]
}

// KeepNever stores the permanent refusal of a node for all nodes with the same machine, rules and quality. It stores
// nothing if the row already has maxNever such refusals.
func (r *Row) KeepNever(n *state.Node, refusal *Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.never == nil {
		r.never = map[emptyNode]*Refusal{}
	}
	if len(r.never) < maxNever {
		r.never[emptyNode{weak.Make(n.Empty()), n.Quality}] = refusal
	}
}

// Answer returns the cost of the pod on the node in a slot of a snapshot, or why it does not fit there. If the answer
// is not stored, Answer computes it with ask, and stores it. Table.Row must have been called with a number of slots
// above slot.
func (r *Row) Answer(s *ledger.Snapshot, slot int,
	ask func(*state.Node) (int64, *Refusal)) (cost int64, refusal *Refusal) {
	n, since := s.At(slot)
	c := r.cell(slot)
	if value, ok := c.read(since); ok {
		if value >= 0 {
			return value, nil
		}
		return 0, r.list()[-1-value]
	}
	cost, refusal = ask(n)
	value := cost
	if refusal != nil {
		if value = r.number(refusal); value == 0 {
			return 0, refusal
		}
	}
	c.write(since, value)
	return cost, refusal
}

// Keep stores the cost of the pod on the node in a slot of a snapshot, as Answer does.
func (r *Row) Keep(s *ledger.Snapshot, slot int, cost int64) { r.cell(slot).write(s.Since(slot), cost) }

// Has reports whether the answer for a slot of a snapshot is stored.
func (r *Row) Has(s *ledger.Snapshot, slot int) bool {
	_, ok := r.read(s, slot)
	return ok
}

// Costs yields the slots of the nodes in a set whose costs are stored, with the costs.
func (r *Row) Costs(s *ledger.Snapshot, nodes *ledger.Set) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for slot := range nodes.Slots() {
			if value, ok := r.read(s, slot); ok && value >= 0 && !yield(slot, value) {
				return
			}
		}
	}
}

// read returns the value of the cell for a slot, if it is of the version that the slot has in s.
func (r *Row) read(s *ledger.Snapshot, slot int) (value int64, ok bool) {
	b := (*r.cells.Load())[slot/blockSize].Load()
	if b == nil {
		return 0, false
	}
	return b[slot%blockSize].read(s.Since(slot))
}

// grow makes room for this number of slots. The caller holds Table.mu.
func (r *Row) grow(slots int) {
	need := (slots + blockSize - 1) / blockSize
	old := r.cells.Load()
	if old != nil && len(*old) >= need {
		return
	}
	next := make([]atomic.Pointer[block], need+need/8)
	if old != nil {
		for i := range *old {
			next[i].Store((*old)[i].Load())
		}
	}
	r.cells.Store(&next)
}

// cell returns the cell of a slot that grow has made room for.
func (r *Row) cell(slot int) *cell {
	at := &(*r.cells.Load())[slot/blockSize]
	b := at.Load()
	if b == nil {
		at.CompareAndSwap(nil, &block{})
		b = at.Load()
	}
	return &b[slot%blockSize]
}

// refusalKey is equal for equal refusals. Most refusals have one reason, and their keys need no text.
type refusalKey struct {
	permanent bool
	first     place.Reason
	more      string // the reasons after the first, or, if there are no reasons, the texts
}

func (r *Refusal) key() refusalKey {
	switch out := (refusalKey{permanent: r.Permanent}); len(r.Reasons) {
	case 0:
		out.more = strings.Join(r.Texts, "\n")
		return out
	case 1:
		out.first = r.Reasons[0]
		return out
	default:
		out.first, out.more = r.Reasons[0], fmt.Sprint(r.Reasons[1:])
		return out
	}
}

// size returns the approximate number of bytes of a refusal.
func (r *Refusal) size() int {
	const reason = 128 // more than the size of a Refusal or a Reason without its texts
	out := reason
	for _, x := range r.Reasons {
		out += reason + len(x.Container) + len(x.Resource) + len(x.With)
	}
	for _, t := range r.Texts {
		out += len(t)
	}
	return out
}

// number returns the number of a refusal, which is below 0, and stores the refusal if necessary. It returns 0 if the
// row has no room for it.
func (r *Row) number(x *Refusal) int64 {
	key := x.key()
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list()
	if i, ok := r.numbers[key]; ok {
		return int64(-1 - i)
	}
	size := x.size()
	if len(list) >= maxReasons || r.bytes+size > maxReasonBytes {
		return 0
	}
	r.bytes += size
	r.numbers[key] = len(list)
	list = append(list, x)
	r.refusals.Store(&list)
	return int64(-len(list))
}

// list returns the stored refusals, by index.
func (r *Row) list() []*Refusal {
	if l := r.refusals.Load(); l != nil {
		return *l
	}
	return nil
}
