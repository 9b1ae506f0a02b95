package sched

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// Reasons of events on nodes that report by a NodeResourceTopology. The object is its writer's, and nothing
// is written to it.
const (
	topologyRefused = "NodeResourceTopologyRefused"
	topologyOdd     = "NodeResourceTopologyOdd"
)

// reports tells administrators what is wrong with what nodes report: in the log, the metrics, and by events
// that kubectl describe node shows.
type reports struct {
	metrics  *schedulerMetrics
	recorder events.EventRecorder // nil until there is a client
	logger   klog.Logger
}

// refused is told of objects that cannot be read.
func (r *reports) refused(node string, err error) {
	r.metrics.refusedTopology()
	r.logger.Error(err, "NodeResourceTopology refused", "node", node)
	r.event(node, v1.EventTypeWarning, topologyRefused, err.Error())
}

// odd is told of what in an object was not understood or put right.
func (r *reports) odd(node string, conditions []string) {
	r.logger.Info("NodeResourceTopology is not understood as a whole", "node", node, "conditions", conditions)
	r.event(node, v1.EventTypeWarning, topologyOdd, strings.Join(conditions, "; "))
}

func (r *reports) event(node, kind, reason, note string) {
	if r.recorder == nil {
		return
	}
	// The UID is what kubelets and kubectl describe take for it.
	at := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	r.recorder.Eventf(at, nil, kind, reason, "Reading", "%s", clipNote(note))
}
