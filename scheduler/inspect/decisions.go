package inspect

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

const (
	// MaxDecisions bounds the decisions that are kept, of all pods together.
	MaxDecisions = 1024
	// MaxNodes bounds the nodes whose answers a decision keeps, and the nodes whose costs it keeps.
	MaxNodes = 64
	// maxShown bounds the decisions that are shown for one pod, newest first.
	maxShown = 8
)

// Decisions records the last MaxDecisions attempts of a scheduler to place a pod. Methods may be called by any
// goroutine. A nil *Decisions keeps nothing.
type Decisions struct {
	now  func() time.Time
	mu   sync.Mutex
	ring []*Decision
	next int
}

// NewDecisions returns an empty record of decisions.
func NewDecisions(now func() time.Time) *Decisions { return &Decisions{now: now} }

// Decision is one attempt to schedule a pod. Methods on a nil *Decision do nothing, at no cost.
type Decision struct {
	pod state.PodID
	now func() time.Time
	at  time.Time

	// Many goroutines record answers of nodes at once. Each claims an element of the array by the counter judged or
	// costed. Readers skip elements that are not marked as written. A counter beyond MaxNodes shows that there were
	// more answers.
	judged   atomic.Int32
	verdicts [MaxNodes]struct {
		written atomic.Bool
		node    string
		refused *refused // nil where the pod fits
	}
	costed atomic.Int32
	costs  [MaxNodes]struct {
		written atomic.Bool
		node    string
		cost    int64
	}

	mu        sync.Mutex
	stage     document.Stage
	why       string
	node      string
	reserved  time.Time
	turned    time.Time
	predicted []place.Holding
	seen      []place.Holding
}

// refused has the reasons for which a node refused a pod or, if it gave none, a text.
type refused struct {
	reasons []place.Reason
	why     string
}

// Begin records a new attempt to schedule a pod. When MaxDecisions are kept, it replaces the oldest one.
func (d *Decisions) Begin(pod state.PodID) *Decision {
	if d == nil {
		return nil
	}
	record := &Decision{pod: pod, now: d.now, at: d.now(), stage: document.Judged}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ring) < MaxDecisions {
		d.ring = append(d.ring, record)
		return record
	}
	d.ring[d.next] = record
	d.next = (d.next + 1) % MaxDecisions
	return record
}

// newest returns the kept decisions, newest first.
func (d *Decisions) newest() []*Decision {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Concat(d.ring[d.next:], d.ring[:d.next])
	slices.Reverse(out)
	return out
}

// Outcome records the outcome of a prediction in the pod's newest decision. If no decision on the pod is kept any
// more, it does nothing.
func (d *Decisions) Outcome(o state.Outcome) {
	for _, record := range d.newest() {
		if record.pod.UID != o.Pod.UID {
			continue
		}
		record.set(func() {
			record.stage, record.why = document.Stage(o.Result), ""
			if o.Error != "" {
				record.why = "node " + o.Node + ": " + string(o.Error)
			}
			record.node, record.predicted, record.seen = o.Node, o.Predicted, o.Seen
		})
		return
	}
}

// Reserved returns, by the pod's UID, when a pod was last reserved. It has only pods whose decision is still kept.
func (d *Decisions) Reserved() map[string]time.Time {
	out := map[string]time.Time{}
	for _, record := range d.newest() {
		record.mu.Lock()
		at := record.reserved
		record.mu.Unlock()
		if _, later := out[record.pod.UID]; !later && !at.IsZero() {
			out[record.pod.UID] = at
		}
	}
	return out
}

// Fits records that a node fits. Fits, Refused and Cost are called for every node of every pod. Once the record is
// full, a call costs one atomic read, and before that only a refusal allocates.
func (d *Decision) Fits(node string) {
	if d == nil {
		return
	}
	if i, ok := claim(&d.judged); ok {
		v := &d.verdicts[i]
		v.node = node
		v.written.Store(true)
	}
}

// Refused records that a node does not fit. It keeps the reasons or, if there are none, the message of the node's
// status.
func (d *Decision) Refused(node string, reasons []place.Reason, why interface{ Message() string }) {
	if d == nil {
		return
	}
	if i, ok := claim(&d.judged); ok {
		v := &d.verdicts[i]
		v.node, v.refused = node, &refused{reasons: reasons}
		if len(reasons) == 0 {
			v.refused.why = why.Message()
		}
		v.written.Store(true)
	}
}

// Open reports whether the record would change with one more node's answer: it is kept if there is room, and the
// first answer without room is noted as missing.
func (d *Decision) Open() bool { return d != nil && d.judged.Load() <= MaxNodes }

// Cost records the cost of a node that fits.
func (d *Decision) Cost(node string, cost int64) {
	if d == nil {
		return
	}
	if i, ok := claim(&d.costed); ok {
		c := &d.costs[i]
		c.node, c.cost = node, cost
		c.written.Store(true)
	}
}

// claim takes the next element by its counter n. It returns false if all elements are taken.
func claim(n *atomic.Int32) (int, bool) {
	if n.Load() > MaxNodes {
		return 0, false
	}
	i := int(n.Add(1)) - 1
	return i, i < MaxNodes
}

// Refuse records why the pod got no node, apart from the nodes' reasons.
func (d *Decision) Refuse(why string) { d.set(func() { d.why = why }) }

// Reserve records the node that was chosen, and the pod's predicted holdings.
func (d *Decision) Reserve(node string, predicted []place.Holding) {
	d.set(func() {
		d.stage, d.why, d.node, d.predicted, d.reserved = document.Reserved, "", node, predicted, d.now()
	})
}

// Turn records that the pod may be bound, and its predicted holdings.
func (d *Decision) Turn(predicted []place.Holding) {
	d.set(func() { d.stage, d.predicted, d.turned = document.Turned, predicted, d.now() })
}

// Bound records that the pod is bound. Its node may have reported it already.
func (d *Decision) Bound() {
	d.set(func() {
		if d.stage == document.Reserved || d.stage == document.Turned {
			d.stage = document.Bound
		}
	})
}

// Release records that the pod is not bound after all.
func (d *Decision) Release() {
	d.set(func() {
		if d.stage == document.Reserved || d.stage == document.Turned {
			d.stage = document.Released
		}
	})
}

func (d *Decision) set(do func()) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}
