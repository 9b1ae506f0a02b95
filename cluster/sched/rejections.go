package sched

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
)

// pardonAfter is how long a shape that a node has refused is kept away from it at most. A report of the
// node ends that sooner; but a node on which nothing changes reports nothing.
const pardonAfter = kube.RefusedFor

// rejections deals with pods that were predicted to fit and that their node has refused: it tells their
// owners, and sees to it that their shape is not kept away for ever.
type rejections struct {
	recorder events.EventRecorder
	pardon   func(node string)
	later    func(time.Duration, func())
	logger   klog.Logger
	machine  func(node string) *topo.Machine
}

func (r *rejections) onOutcome(o ledger.Outcome) {
	if o.Result != ledger.Rejected || len(o.Predicted) == 0 {
		return
	}
	r.logger.Info("A node refused a pod that was predicted to fit", "pod", klog.KRef(o.Pod.Namespace, o.Pod.Name),
		"node", o.Node, "reason", o.Error, "outcome", kube.Describe(r.machine(o.Node), o))
	r.later(pardonAfter, func() { r.pardon(o.Node) })
	pod := &v1.ObjectReference{
		APIVersion: "v1",
		Kind:       "Pod",
		Namespace:  o.Pod.Namespace,
		Name:       o.Pod.Name,
		UID:        types.UID(o.Pod.UID),
	}
	r.recorder.Eventf(
		pod,
		nil,
		v1.EventTypeWarning,
		"PlacementRefused",
		"Scheduling",
		"node %s refused the pod (%s) though it was predicted to fit (%s); pods like it are kept off the node until it has reported again",
		o.Node,
		o.Error,
		document.Text(r.machine(o.Node), o.Predicted),
	)
}
