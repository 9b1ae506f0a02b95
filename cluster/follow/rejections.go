package follow

import (
	"time"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
)

// pardonAfter is how long a shape that a node has refused is kept away from it at most. A report of the
// node ends that sooner; but a node on which nothing changes reports nothing.
const pardonAfter = kube.RefusedFor

// rejections deals with pods that were predicted to fit and that their node has refused: their owners are told, and
// their shape is not kept away for ever.
type rejections struct {
	events  *report.Events
	pardon  func(node string)
	later   func(time.Duration, func())
	machine func(node string) *topo.Machine
}

func (r *rejections) onOutcome(o ledger.Outcome) {
	if o.Result != ledger.Rejected || len(o.Predicted) == 0 {
		return
	}
	r.events.Rejected(r.machine(o.Node), o)
	r.later(pardonAfter, func() { r.pardon(o.Node) })
}
