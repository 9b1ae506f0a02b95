package sched

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// This file remembers what nodes say to kinds of pods: what it costs to have the pod there, or why it cannot be
// there. What a node says holds until it changes, and the version of its slot tells whether it has.
//
// Of a node and a kind 16 bytes are kept and nothing that points to the node; the reasons of many nodes are the
// same and are kept once.

// maxKinds bounds the kinds that are remembered: a cluster has few at a time, and forgetting costs only time.
const maxKinds = 256

// What is remembered is bounded in bytes, too. maxCellBytes is for the cells of all kinds, and maxReasons and
// maxReasonBytes for the refusals of one; others are worked out whenever they are asked for.
const (
	maxCellBytes   = 64 << 20
	maxReasons     = 4096
	maxReasonBytes = 128 << 10
)

// most returns how many kinds are remembered of a cluster of so many nodes.
func most(slots int) int { return max(8, min(maxKinds, maxCellBytes/16/max(1, slots))) }

// question is what of a pod, and of the profile that schedules it, decides what nodes say.
type question struct {
	plugin *Plugin
	key    string
	demand place.Demand
	by     score.Type
}

// replies are what nodes say, by kinds of pods. Those of the kind that was not asked for longest give way.
type replies struct {
	mu    sync.Mutex
	kinds map[question]*replied
	now   uint64 // counts questions
}

func newReplies() *replies { return &replies{kinds: map[question]*replied{}} }

// replied is what nodes say to one kind, and what they cost by one mix.
type replied struct {
	used uint64 // replies.mu guards it
	mix  *score.Mix
	// rows are by slot; they are made when they are written to, and never moved.
	rows atomic.Pointer[[]atomic.Pointer[row]]

	mu       sync.Mutex
	numbers  map[string]int
	bytes    int // of the refusals that are remembered
	refusals atomic.Pointer[[]*no]
}

const rowSize = 64

type row [rowSize]cell

// cell is what one node says: at the version since, it costs so much, or, below 0, refuses by the reason of that
// number. since is taken while somebody writes the cell.
type cell struct {
	since atomic.Uint64
	says  atomic.Int64
}

// taken is no version, nor is 0.
const taken = math.MaxUint64

func (c *cell) read(since uint64) (says int64, ok bool) {
	if c.since.Load() != since {
		return 0, false
	}
	says = c.says.Load()
	return says, c.since.Load() == since
}

// write does nothing where somebody else writes: what is not remembered is worked out again.
func (c *cell) write(since uint64, says int64) {
	if old := c.since.Load(); old != taken && c.since.CompareAndSwap(old, taken) {
		c.says.Store(says)
		c.since.Store(since)
	}
}

// no is why a node cannot take a pod. never: it could not if nobody were on it.
type no struct {
	reasons []place.Reason
	texts   []string
	never   bool
}

// status is the refusal for the framework, which writes on what it is given.
func (n *no) status() *fwk.Status {
	if n.never {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.texts...)
	}
	return fwk.NewStatus(fwk.Unschedulable, n.texts...)
}

// of returns what is remembered of a kind, by the mix that it is scored by now.
func (r *replies) of(k question, mix *score.Mix, slots int) *replied {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	out := r.kinds[k]
	if out == nil || out.mix != mix {
		for out == nil && len(r.kinds) >= most(slots) {
			r.forget()
		}
		out = &replied{mix: mix, numbers: map[string]int{}}
		r.kinds[k] = out
	}
	out.used = r.now
	out.grow(slots)
	return out
}

// forget drops the kind that was not asked for longest.
func (r *replies) forget() {
	var oldest question
	least := r.now
	for k, v := range r.kinds {
		if v.used < least {
			oldest, least = k, v.used
		}
	}
	delete(r.kinds, oldest)
}

// grow makes room for so many slots; replies.mu is held.
func (r *replied) grow(slots int) {
	need := (slots + rowSize - 1) / rowSize
	old := r.rows.Load()
	if old != nil && len(*old) >= need {
		return
	}
	next := make([]atomic.Pointer[row], need+need/8)
	if old != nil {
		for i := range *old {
			next[i].Store((*old)[i].Load())
		}
	}
	r.rows.Store(&next)
}

// cell returns the cell of a slot that grow has made room for.
func (r *replied) cell(slot int) *cell {
	at := &(*r.rows.Load())[slot/rowSize]
	got := at.Load()
	if got == nil {
		at.CompareAndSwap(nil, &row{})
		got = at.Load()
	}
	return &got[slot%rowSize]
}

// number returns the number, below 0, under which a refusal is remembered; 0 where there are too many.
func (r *replied) number(n *no) int64 {
	key := fmt.Sprintf("%t %v", n.never, n.reasons)
	if len(n.reasons) == 0 {
		key += strings.Join(n.texts, "\n")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list()
	if i, ok := r.numbers[key]; ok {
		return int64(-1 - i)
	}
	size := 2 * len(key) // the reasons, and their texts
	if len(list) >= maxReasons || r.bytes+size > maxReasonBytes {
		return 0
	}
	r.bytes += size
	r.numbers[key] = len(list)
	list = append(list, n)
	r.refusals.Store(&list)
	return int64(-len(list))
}

func (r *replied) list() []*no {
	if l := r.refusals.Load(); l != nil {
		return *l
	}
	return nil
}

// reply returns what it costs to have the pod on the node in a slot, or why it cannot be there.
func (p *Plugin) reply(s *state, slot int) (cost int64, refusal *no) {
	n, since := s.snap.At(slot)
	c := s.replied.cell(slot)
	if says, ok := c.read(since); ok {
		if says >= 0 {
			return says, nil
		}
		return 0, s.replied.list()[-1-says]
	}
	cost, refusal = p.compute(s, n)
	says := cost
	if refusal != nil {
		if says = s.replied.number(refusal); says == 0 {
			return 0, refusal
		}
	}
	c.write(since, says)
	return cost, refusal
}

// compute is reply of a node in any state, of which nothing is remembered.
func (p *Plugin) compute(s *state, n *ledger.Node) (cost int64, refusal *no) {
	v := n.Place(s.pod, s.demand)
	if v.Fits() {
		return s.cost(n, v), nil
	}
	refusal = &no{reasons: v.Reasons, never: p.never(s, n)}
	for _, r := range v.Reasons {
		refusal.texts = append(refusal.texts, p.text(s.pod, r))
	}
	if len(refusal.texts) == 0 {
		refusal.texts = []string{string(v.Refusal)}
	}
	return 0, refusal
}

// cost is what it costs to have the pod where a verdict puts it.
func (s *state) cost(n *ledger.Node, v place.Verdict) int64 {
	cost := s.strategy.Cost(n.Usage, s.pod, v, n.Quality == ledger.Coarse)
	if n.Waits(s.shape) {
		cost += s.strategy.Wait()
	}
	return cost
}
