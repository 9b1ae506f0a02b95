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

// This file caches the answers of nodes by kinds of pods: the cost of the pod on the node, or why it does not fit. An
// answer holds until the node changes, which the version of the node's slot shows.
//
// An answer takes 16 bytes and holds no pointer to the node. Equal reasons of many nodes are kept once.

// maxKinds bounds the kinds in the cache. A cluster has few at a time, and a miss costs only time.
const maxKinds = 256

// The cache is bounded in bytes, too: maxCellBytes for the cells of all kinds, maxReasons and maxReasonBytes for the
// refusals of one kind. Refusals beyond that are computed whenever they are needed.
const (
	maxCellBytes   = 64 << 20
	maxReasons     = 4096
	maxReasonBytes = 128 << 10
)

// most returns how many kinds are cached for a cluster of so many nodes.
func most(slots int) int { return max(8, min(maxKinds, maxCellBytes/16/max(1, slots))) }

// question is what decides a node's answer: properties of the pod, and of the profile that schedules it.
type question struct {
	plugin *Plugin
	key    string
	demand place.Demand
	by     score.Type
}

// answers is the cache, by kinds of pods. The least recently used kind gives way.
type answers struct {
	mu    sync.Mutex
	kinds map[question]*kindAnswers
	now   uint64 // counts questions
}

func newAnswers() *answers { return &answers{kinds: map[question]*kindAnswers{}} }

// kindAnswers are the answers of nodes to one kind, with costs by one workload mix.
type kindAnswers struct {
	used uint64 // answers.mu guards it
	mix  *score.Mix
	// rows are by slot; they are made when they are written to, and never moved.
	rows atomic.Pointer[[]atomic.Pointer[row]]

	mu       sync.Mutex
	numbers  map[string]int
	bytes    int // of the refusals that are remembered
	refusals atomic.Pointer[[]*nodeRefusal]
}

const rowSize = 64

type row [rowSize]cell

// cell is the answer of one node at the version since: its cost, or, below 0, the number of a refusal. since is taken
// while a goroutine writes the cell.
type cell struct {
	since atomic.Uint64
	says  atomic.Int64
}

// taken marks a cell that is being written. Neither taken nor 0 is a version.
const taken = math.MaxUint64

func (c *cell) read(since uint64) (says int64, ok bool) {
	if c.since.Load() != since {
		return 0, false
	}
	says = c.says.Load()
	return says, c.since.Load() == since
}

// write does nothing while another goroutine writes the cell. An answer that is not cached is computed again.
func (c *cell) write(since uint64, says int64) {
	if old := c.since.Load(); old != taken && c.since.CompareAndSwap(old, taken) {
		c.says.Store(says)
		c.since.Store(since)
	}
}

// nodeRefusal is why a pod does not fit on a node. permanent means that it would not fit on the empty node either.
type nodeRefusal struct {
	reasons   []place.Reason
	texts     []string
	permanent bool
}

// status returns a new status for the framework, which changes the statuses that it receives.
func (n *nodeRefusal) status() *fwk.Status {
	if n.permanent {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.texts...)
	}
	return fwk.NewStatus(fwk.Unschedulable, n.texts...)
}

// of returns the answers to a kind with costs by mix, empty if the kind is new or was scored by another mix.
func (r *answers) of(k question, mix *score.Mix, slots int) *kindAnswers {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	out := r.kinds[k]
	if out == nil || out.mix != mix {
		for out == nil && len(r.kinds) >= most(slots) {
			r.forget()
		}
		out = &kindAnswers{mix: mix, numbers: map[string]int{}}
		r.kinds[k] = out
	}
	out.used = r.now
	out.grow(slots)
	return out
}

// forget drops the least recently used kind.
func (r *answers) forget() {
	var oldest question
	least := r.now
	for k, v := range r.kinds {
		if v.used < least {
			oldest, least = k, v.used
		}
	}
	delete(r.kinds, oldest)
}

// grow makes room for so many slots; answers.mu is held.
func (r *kindAnswers) grow(slots int) {
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
func (r *kindAnswers) cell(slot int) *cell {
	at := &(*r.rows.Load())[slot/rowSize]
	got := at.Load()
	if got == nil {
		at.CompareAndSwap(nil, &row{})
		got = at.Load()
	}
	return &got[slot%rowSize]
}

// number returns the number, below 0, of a cached refusal; 0 where there are too many.
func (r *kindAnswers) number(n *nodeRefusal) int64 {
	key := fmt.Sprintf("%t %v", n.permanent, n.reasons)
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

func (r *kindAnswers) list() []*nodeRefusal {
	if l := r.refusals.Load(); l != nil {
		return *l
	}
	return nil
}

// answer returns the cost of the pod on the node in a slot, or why it does not fit.
func (p *Plugin) answer(s *state, slot int) (cost int64, refusal *nodeRefusal) {
	n, since := s.snap.At(slot)
	c := s.answers.cell(slot)
	if says, ok := c.read(since); ok {
		if says >= 0 {
			return says, nil
		}
		return 0, s.answers.list()[-1-says]
	}
	cost, refusal = p.compute(s, n)
	says := cost
	if refusal != nil {
		if says = s.answers.number(refusal); says == 0 {
			return 0, refusal
		}
	}
	c.write(since, says)
	return cost, refusal
}

// compute is answer for a node in any state, without the cache.
func (p *Plugin) compute(s *state, n *ledger.Node) (cost int64, refusal *nodeRefusal) {
	v := n.Place(s.pod, s.demand)
	if v.Fits() {
		return s.cost(n, v), nil
	}
	refusal = &nodeRefusal{reasons: v.Reasons, permanent: p.permanent(s, n)}
	for _, r := range v.Reasons {
		refusal.texts = append(refusal.texts, p.text(s.pod, r))
	}
	if len(refusal.texts) == 0 {
		refusal.texts = []string{string(v.Refusal)}
	}
	return 0, refusal
}

// cost returns the cost of the pod where a verdict puts it.
func (s *state) cost(n *ledger.Node, v place.Verdict) int64 {
	cost := s.strategy.Cost(n.Usage, s.pod, v, n.Quality == ledger.Coarse)
	if n.Waits(s.shape) {
		cost += s.strategy.Wait()
	}
	return cost
}
