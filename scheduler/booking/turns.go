// Package booking does what a scheduler of any framework needs for a pod besides the ledger. It reads what the pod
// requests, learns the mix of pods by which nodes are scored, and lets a booked pod wait until its node has admitted
// the pods that the prediction puts before it.
//
// Invariant: any pod costs a bounded amount of work and memory on every node. The bounds are needed because the API
// server accepts pods of several thousand containers from anybody who may create pods, and because tables of answers
// keep the keys of requests. Pods beyond the bounds are refused with a [TooLarge]; pods whose demand cannot be parsed
// are refused, too. A pod whose turn has come is predicted once more, on the node's state at that time. The package
// makes no booking: its callers do. It ends a booking only after the binding has failed; see [Line.Failed].
package booking

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/metrics"
)

// Line has what one scheduler keeps about booked pods that are not bound yet: how many wait for their turns, on which
// nodes a wait timed out, and whose binding has an unknown outcome. The zero Line is empty.
type Line struct {
	Backoff
	unknown

	waits atomic.Int64
}

// Waits returns how many pods wait for their turns at present.
func (l *Line) Waits() int64 { return l.waits.Load() }

// Await blocks until a booked pod has its turn, or no longer fits; v is the prediction at that time, a refusal if the
// pod does not fit. waited is true if the pod had to wait; counters, which may be nil, then count the wait. err is
// not nil if the pod is not booked, or if ctx ends or the limit passes before the pod's turn. In the latter two cases
// the scheduler keeps the pod away from the node; see [Backoff].
func (l *Line) Await(
	ctx context.Context,
	book *ledger.Book,
	counters *metrics.Counters,
	pod *v1.Pod,
	node string,
	limit time.Duration,
) (v place.Verdict, waited bool, err error) {
	uid := string(pod.UID)
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("no turn on node %s after %s: a pod before it was not reported as admitted", node, limit))
	defer cancel()
	for {
		v, wait, err := book.Turn(uid, pod.CreationTimestamp.Unix())
		if err != nil || wait == nil {
			return v, waited, err
		}
		if !waited {
			waited = true
			l.waits.Add(1)
			defer l.waits.Add(-1)
			defer counters.Waited(wait.Why, time.Now())
		}
		select {
		case <-wait.Changed:
		case <-ctx.Done():
			if n := book.Snapshot().Node(node); n != nil {
				l.Add(uid, node, n.News)
			}
			return v, waited, context.Cause(ctx)
		}
	}
}

// Short returns which plain amounts of a node (its totals, without regard to NUMA nodes) are too small for a booked
// pod, or "". The amounts may have changed while the pod waited. Short counts the pods that are bound to the node,
// and the [Others].
func Short(a *follow.Amounts, book *ledger.Book, pod *v1.Pod, node string) string {
	return a.Short(pod, node, Others(book, pod, node))
}

// Others returns the pods that a node has or gets before a booked pod: pods whose booking comes first, and pods that
// the node reports. The reported pods are needed because a node may report a pod before the informer of
// [follow.Amounts] has the pod's binding.
func Others(book *ledger.Book, pod *v1.Pod, node string) []state.PodID {
	others := book.Ahead(string(pod.UID))
	if n := book.Snapshot().Node(node); n != nil {
		for _, e := range n.Entries {
			if e.Source != state.Predicted {
				others = append(others, e.Pod)
			}
		}
	}
	return others
}
