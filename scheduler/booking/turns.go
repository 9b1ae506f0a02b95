// Package booking is what schedulers of every framework do for a pod beside the ledger: it reads what the pod requests,
// learns the mix of pods by which nodes are scored, and has a booked pod wait until its node has admitted the pods that
// it was predicted to admit before it.
//
// Invariant: a request costs a bounded amount of work and memory on every node, for any pod: the API server accepts
// pods of several thousand containers from anybody who may create pods, and tables of answers keep the keys of
// requests. A pod whose turn has come is predicted once more, on the node's state at that time. The package books
// nothing: its callers do. It ends a booking only after the binding has failed; see [Line.Failed]. It refuses pods
// that cost more, with a [TooLarge], and pods whose demand it cannot parse.
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

// Line is where the pods of one scheduler wait. The zero Line is empty.
type Line struct {
	Backoff
	unknown

	waits atomic.Int64
}

// Waits returns how many pods wait.
func (l *Line) Waits() int64 { return l.waits.Load() }

// Await returns when a booked pod may be bound, or no longer fits; v is the prediction at that time. waited is true
// if the pod had to wait; counters, which may be nil, count that. It is an error if the pod is not booked, or if its
// turn has not come when the context ends or after limit. A pod whose turn has not come is then kept away from the
// node; see [Backoff].
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

// Short returns which plain amounts of a node are too small for a booked pod, or "". They may have changed while the
// pod waited. Short counts the pods that are bound to the node, and the [Others].
func Short(a *follow.Amounts, book *ledger.Book, pod *v1.Pod, node string) string {
	return a.Short(pod, node, Others(book, pod, node))
}

// Others returns the pods that a node has or gets before a booked pod: those that are booked before it, and those that
// the node reports. A node may report a pod before the informer of [follow.Amounts] has its binding.
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
