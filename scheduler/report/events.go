package report

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Reasons of events on nodes that report by a NodeResourceTopology. Tenon does not write to that object, which belongs
// to its exporter.
const (
	topologyRefused = "NodeResourceTopologyRefused"
	topologyFaulty  = "NodeResourceTopologyOdd"
)

// Events reports faults in what nodes publish and do, in the log and as events. kubectl describe node shows the
// events on a node, and kubectl describe pod those on a pod.
type Events struct {
	logger   klog.Logger
	recorder events.EventRecorder // nil until To
}

// NewEvents returns Events that only log, until To is called.
func NewEvents(logger klog.Logger) *Events { return &Events{logger: logger} }

// To sets the recorder of events. Call it before anything is reported.
func (e *Events) To(r events.EventRecorder) { e.recorder = QuotedEvents(r) }

// While returns a recorder that records only while leads returns true. All of several schedulers find the same
// faults, but only the leader is to record events.
func While(leads func() bool, r events.EventRecorder) events.EventRecorder {
	return whileLeading{r, leads}
}

type whileLeading struct {
	events.EventRecorder
	leads func() bool
}

func (w whileLeading) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if w.leads() {
		w.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
	}
}

// TopologyRefused reports a NodeResourceTopology that cannot be read.
func (e *Events) TopologyRefused(node string, err error) {
	e.logger.Error(err, "NodeResourceTopology refused", "node", node)
	e.node(node, v1.EventTypeWarning, topologyRefused, err.Error())
}

// TopologyFaults reports parts of a NodeResourceTopology that were not understood or were corrected.
func (e *Events) TopologyFaults(node string, conditions []string) {
	e.logger.Info("NodeResourceTopology is not understood as a whole", "node", node, "conditions", conditions)
	e.node(node, v1.EventTypeWarning, topologyFaulty, strings.Join(conditions, "; "))
}

// LayoutRefused reports a layout that cannot be read. Its condition Accepted has the reason.
func (e *Events) LayoutRefused(node string, err error) {
	e.logger.Error(err, "Layout refused", "node", node)
}

// Wrong reports a wrong prediction. m is the node's machine, or nil.
func (e *Events) Wrong(m *topo.Machine, o state.Outcome) {
	e.logger.Info("A node did not do what was predicted", "pod", klog.KRef(o.Pod.Namespace, o.Pod.Name),
		"node", o.Node, "outcome", kube.Describe(m, o))
}

// Rejected records an event on a pod that its node refused although it was predicted to fit. m is the node's machine,
// or nil.
func (e *Events) Rejected(m *topo.Machine, o state.Outcome) {
	e.logger.Info("A node refused a pod that was predicted to fit", "pod", klog.KRef(o.Pod.Namespace, o.Pod.Name),
		"node", o.Node, "reason", o.Error, "outcome", kube.Describe(m, o))
	if e.recorder == nil {
		return
	}
	pod := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: o.Pod.Namespace, Name: o.Pod.Name,
		UID: types.UID(o.Pod.UID)}
	e.recorder.Eventf(pod, nil, v1.EventTypeWarning, "PlacementRefused", "Scheduling",
		"node %s refused the pod (%s) though it was predicted to fit (%s); "+
			"pods like it are kept off the node until it has reported again",
		o.Node, o.Error, document.Text(m, o.Predicted))
}

// Crowded records an event on a pod that its kubelet refused for want of room, although there was room when the pod
// got its node, and that the ledger did not expect to fit any more when it was refused. It ignores other reasons to
// refuse a pod, such as a taint.
func (e *Events) Crowded(pod *v1.Pod, reason string) {
	if !wantsRoom(reason) {
		return
	}
	e.logger.Info("A node refused a pod that no longer fits", "pod", klog.KObj(pod), "node", pod.Spec.NodeName,
		"reason", reason)
	if e.recorder != nil {
		e.recorder.Eventf(pod, nil, v1.EventTypeWarning, "PlacementRefused", "Scheduling", "%s", printable.Clip(
			fmt.Sprintf("node %s refused the pod (%s): it fitted when the node was chosen, and pods that another scheduler "+
				"bound since, or that had not left yet, have its room", pod.Spec.NodeName, printable.Text(reason)), maxNote))
	}
}

// wantsRoom reports whether a kubelet's reason to refuse a pod is that the node has too little left: for alignment, of
// devices, or of an amount (OutOfcpu; generalFilter in pkg/kubelet/lifecycle/predicate.go, 1.34 to 1.37).
func wantsRoom(reason string) bool {
	switch place.RefusalReason(reason) {
	case place.TopologyAffinityError, place.UnexpectedAdmissionError:
		return true
	}
	return strings.HasPrefix(reason, "OutOf")
}

// Misaligned records an event on a pod that holds more NUMA nodes, or more distant ones, than it would on the empty
// machine.
func (e *Events) Misaligned(pod *v1.Pod, note string) {
	if e.recorder != nil {
		e.recorder.Eventf(pod, nil, v1.EventTypeWarning, "Misaligned", "Reading", "%s", printable.Clip(note, maxNote))
	}
}

// node records an event on a node.
func (e *Events) node(node, kind, reason, note string) {
	if e.recorder == nil {
		return
	}
	// Kubelets and kubectl describe use the name in place of the UID.
	ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	e.recorder.Eventf(ref, nil, kind, reason, "Reading", "%s", printable.Clip(note, maxNote))
}
