package inspect

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

const (
	// MaxDecisions is how many decisions are remembered, of all pods together.
	MaxDecisions = 1024
	// MaxNodes is of how many nodes a decision remembers what was said, and of how many the cost.
	MaxNodes = 64
	// maxShown is how many decisions are shown of one pod, the newest first.
	maxShown = 8
)

// Decisions are the last decisions of a scheduler. Its methods may be called by any goroutine; a nil
// *Decisions remembers nothing.
type Decisions struct {
	now  func() time.Time
	mu   sync.Mutex
	ring []*Decision
	next int
}

// NewDecisions returns a memory of decisions, none yet.
func NewDecisions(now func() time.Time) *Decisions { return &Decisions{now: now} }

// Decision is one attempt to schedule a pod. A nil *Decision remembers nothing, at no cost.
type Decision struct {
	pod ledger.PodID
	now func() time.Time
	at  time.Time

	// What nodes said is written by many goroutines at once: each takes a place by its counter, and
	// readers look only at places that are marked as written. A counter beyond MaxNodes means that there
	// were more.
	judged   atomic.Int32
	verdicts [MaxNodes]struct {
		written atomic.Bool
		node    string
		fits    bool
		reasons []place.Reason
		why     string
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

// Begin remembers a new attempt to schedule a pod, in place of the oldest one.
func (d *Decisions) Begin(pod ledger.PodID) *Decision {
	if d == nil {
		return nil
	}
	one := &Decision{pod: pod, now: d.now, at: d.now(), stage: document.Judged}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ring) < MaxDecisions {
		d.ring = append(d.ring, one)
		return one
	}
	d.ring[d.next] = one
	d.next = (d.next + 1) % MaxDecisions
	return one
}

// newest are all decisions, the newest first.
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

// Outcome notes what the node of a prediction did.
func (d *Decisions) Outcome(o ledger.Outcome) {
	for _, one := range d.newest() {
		if one.pod.UID != o.Pod.UID {
			continue
		}
		one.set(func() {
			one.stage, one.why = document.Stage(o.Result), ""
			if o.Error != "" {
				one.why = "node " + o.Node + ": " + string(o.Error)
			}
			one.node, one.predicted, one.seen = o.Node, o.Predicted, o.Seen
		})
		return
	}
}

// Reserved returns when what a pod will hold was reserved, by UID, as far as that is remembered.
func (d *Decisions) Reserved() map[string]time.Time {
	out := map[string]time.Time{}
	for _, one := range d.newest() {
		one.mu.Lock()
		at := one.reserved
		one.mu.Unlock()
		if _, later := out[one.pod.UID]; !later && !at.IsZero() {
			out[one.pod.UID] = at
		}
	}
	return out
}

// Fits notes a node that fits. Fits, Refused and Cost are called for every node of every pod: they
// allocate nothing, and cost one read once MaxNodes are noted.
func (d *Decision) Fits(node string) {
	if d == nil {
		return
	}
	if i, ok := claim(&d.judged); ok {
		v := &d.verdicts[i]
		v.node, v.fits = node, true
		v.written.Store(true)
	}
}

// Refused notes a node that does not fit, with its reasons, or else with what why says: a status.
func (d *Decision) Refused(node string, reasons []place.Reason, why interface{ Message() string }) {
	if d == nil {
		return
	}
	if i, ok := claim(&d.judged); ok {
		v := &d.verdicts[i]
		v.node, v.reasons = node, reasons
		if len(reasons) == 0 {
			v.why = why.Message()
		}
		v.written.Store(true)
	}
}

// Open reports whether what one more node says would be remembered.
func (d *Decision) Open() bool { return d != nil && d.judged.Load() <= MaxNodes }

// Cost notes the cost of a node that fits.
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

// claim takes the next place, if there is one.
func claim(n *atomic.Int32) (int, bool) {
	if n.Load() > MaxNodes {
		return 0, false
	}
	i := int(n.Add(1)) - 1
	return i, i < MaxNodes
}

// Refuse notes why the pod got no node, apart from what nodes say.
func (d *Decision) Refuse(why string) { d.set(func() { d.why = why }) }

// Reserve notes the node that was chosen, and what the pod will hold there.
func (d *Decision) Reserve(node string, predicted []place.Holding) {
	d.set(func() {
		d.stage, d.why, d.node, d.predicted, d.reserved = document.Reserved, "", node, predicted, d.now()
	})
}

// Turn notes that the pod may be bound, and what it will hold.
func (d *Decision) Turn(predicted []place.Holding) {
	d.set(func() { d.stage, d.predicted, d.turned = document.Turned, predicted, d.now() })
}

// Bound notes that the pod is bound. Its node may have reported it already.
func (d *Decision) Bound() {
	d.set(func() {
		if d.stage == document.Reserved || d.stage == document.Turned {
			d.stage = document.Bound
		}
	})
}

// Release notes that the pod is not bound after all.
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
