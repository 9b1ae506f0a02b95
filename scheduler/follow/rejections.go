package follow

import (
	"sync/atomic"
	"time"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// pardonAfter is the longest time for which a node that has refused a pod gets no pods of the same shape. A report of
// the node ends this time sooner, but a node on which nothing changes sends no report.
const pardonAfter = kube.RefusedFor

// rejections handles pods that their node has refused although they were predicted to fit. It records an event on
// each, and after pardonAfter lets pods of the same shape try the node again.
type rejections struct {
	events  *report.Events
	pardon  func(node string)
	later   func(time.Duration, func())
	machine func(node string) *topo.Machine
	last    atomic.Value // the UID of the pod with the last event
}

// onOutcome handles a prediction's outcome if it is a rejection of a pod that would have held something.
func (r *rejections) onOutcome(o state.Outcome) {
	if o.Result != state.Rejected || len(o.Predicted) == 0 {
		return
	}
	r.events.Rejected(r.machine(o.Node), o)
	r.last.Store(o.Pod.UID)
	r.later(pardonAfter, func() { r.pardon(o.Node) })
}
