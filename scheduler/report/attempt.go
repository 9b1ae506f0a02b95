package report

import (
	"k8s.io/klog/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/inspect"
)

// Attempt records one attempt to schedule a pod, for inspection and logs. The zero Attempt records nothing.
type Attempt struct {
	Log PodLog
	// OnTrial is set while the pod is reserved only to see whether all pods of its group fit. Such a reservation and its
	// end are logged at LevelData.
	OnTrial  bool
	decision *inspect.Decision
}

// NewAttempt begins the record of an attempt. d may be nil; then the attempt is only logged.
func NewAttempt(l PodLog, d *inspect.Decision) Attempt { return Attempt{Log: l, decision: d} }

// reservation returns the verbosity of lines about reservations.
func (a *Attempt) reservation() int {
	if a.OnTrial {
		return LevelData
	}
	return LevelDecision
}

// Invalid records that the pod requests something invalid.
func (a *Attempt) Invalid(why string) {
	a.decision.Refuse(why)
	a.Log.Info(LevelDecision, "Pod not understood", "reason", why)
}

// Read logs the pod's shape and demand.
func (a *Attempt) Read(shape string, d place.Demand) {
	if !a.Log.On(LevelData) {
		return
	}
	a.Log.Info(LevelData, "Pod read", "shape", shape, "policy", d.Policy.String(), "scope", d.Scope.String(),
		"align", d.Align.String(), "ignore", d.Ignore.String())
}

// Fits records that the pod fits on a node.
func (a *Attempt) Fits(node string) {
	a.decision.Fits(node)
	if a.Log.On(LevelNode) {
		a.Log.Info(LevelNode, "Node fits", "node", node)
	}
}

// Refused records that the pod does not fit on a node. reasons are the reasons in the node's verdict; they are empty if
// the node was refused before it had one. why is the status that Filter returned, whose message always has the reason.
func (a *Attempt) Refused(node string, reasons []place.Reason, why interface{ Message() string }) {
	a.decision.Refused(node, reasons, why)
	if a.Log.On(LevelRefusal) {
		a.Log.Info(LevelRefusal, "Node does not fit", "node", node, "reason", why.Message())
	}
}

// Open reports whether one more node's answer would be recorded or logged.
func (a *Attempt) Open() bool { return a.decision.Open() || a.Log.On(LevelRefusal) }

// Cost records the cost of a node that fits, and logs it at LevelNode. Lower is better.
func (a *Attempt) Cost(node string, cost int64) {
	a.decision.Cost(node, cost)
	if a.Log.On(LevelNode) {
		a.Log.Info(LevelNode, "Node scored", "node", node, "cost", cost)
	}
}

// Reserved records the pod's predicted holdings on the chosen node. m is the node's machine, or nil.
func (a *Attempt) Reserved(node string, m *topo.Machine, predicted []place.Holding) {
	a.decision.Reserve(node, predicted)
	if level := a.reservation(); a.Log.On(level) {
		a.Log.Info(level, "Reserved", "node", node, "holdings", document.Text(m, predicted))
	}
}

// NotReserved records that the chosen node refused the pod.
func (a *Attempt) NotReserved(node, why string) {
	a.decision.Refuse("node " + node + ": " + why)
	a.Log.Info(LevelDecision, "Not reserved", "node", node, "reason", why)
}

// Turn records that the pod may be bound, and its predicted holdings. m is the node's machine, or nil.
func (a *Attempt) Turn(node string, m *topo.Machine, predicted []place.Holding) {
	a.decision.Turn(predicted)
	if a.Log.On(LevelData) {
		a.Log.Info(LevelData, "Turn has come", "node", node, "holdings", document.Text(m, predicted))
	}
}

// NoTurn records why a reserved pod did not get its turn, or is not bound although its turn has come.
func (a *Attempt) NoTurn(node, why string) {
	a.decision.Refuse("node " + node + ": " + why)
	a.Log.Info(LevelDecision, "No turn", "node", node, "reason", why)
}

// Bound records that the pod is bound.
func (a *Attempt) Bound(node string) {
	a.decision.Bound()
	a.Log.Info(LevelData, "Bound", "node", node)
}

// Released records that the reservation of a pod has ended, since it was not bound.
func (a *Attempt) Released(node string) {
	a.decision.Release()
	a.Log.Info(a.reservation(), "Released", "node", node)
}

// TriedAgain logs how many waiting pods are tried again, and the first of them.
func TriedAgain(l klog.Logger, pods int, first *v1.Pod) {
	l.V(LevelData).Info("Pods are tried again", "pods", pods, "first", klog.KObj(first))
}
