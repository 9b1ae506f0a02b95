package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// attempt records one scheduling cycle, for inspection and logs. It decides nothing.
type attempt struct {
	log      podLog
	decision *inspect.Decision
}

// begin begins the record of an attempt to schedule a pod.
func (p *Plugin) begin(pod *v1.Pod) attempt {
	return attempt{log: p.podLog(pod), decision: p.Decisions.Begin(kube.ID(pod))}
}

// failed records that a pod is invalid, and returns the status.
func (a attempt) failed(status *fwk.Status) *fwk.Status {
	a.decision.Refuse(status.Message())
	a.log.info(logDecision, "Pod not understood", "reason", status.Message())
	return status
}

// read logs what was read of a pod.
func (a *attempt) read(s *state) {
	if !a.log.on(logData) {
		return
	}
	a.log.info(
		logData,
		"Pod read",
		"shape",
		bounded(s.shape),
		"policy",
		s.demand.Policy.String(),
		"scope",
		s.demand.Scope.String(),
		"align",
		s.demand.Align.String(),
		"ignore",
		s.demand.Ignore.String(),
	)
}

// filtered records the result of Filter for a node, and returns it. Results for hypothetical nodes, during preemption,
// are not recorded.
func (s *state) filtered(node string, reasons []place.Reason, status *fwk.Status) *fwk.Status {
	if len(s.overlay) > 0 {
		if o, ok := s.overlay[node]; ok && len(o.removed) > 0 {
			return status
		}
	}
	if status.IsSuccess() {
		s.decision.Fits(node)
		if s.log.on(logNode) {
			s.log.info(logNode, "Node fits", "node", node)
		}
		return status
	}
	s.decision.Refused(node, reasons, status)
	if s.log.on(logRefusal) {
		s.log.info(logRefusal, "Node does not fit", "node", node, "reason", status.Message())
	}
	return status
}

// noting reports whether one more result of Filter would be recorded or logged.
func (s *state) noting() bool { return s.decision.Open() || s.log.on(logRefusal) }

// costs records the cost of a node, and returns it.
func (s *state) costs(node string, cost int64) int64 {
	s.decision.Cost(node, cost)
	if s.log.on(logNode) {
		s.log.info(logNode, "Node scored", "node", node, "cost", cost)
	}
	return cost
}

// reserved records a reservation that was made or refused, and returns the status.
func (p *Plugin) reserved(s *state, node string, v place.Verdict, status *fwk.Status) *fwk.Status {
	if !status.IsSuccess() {
		s.decision.Refuse("node " + node + ": " + status.Message())
		s.log.info(logDecision, "Not reserved", "node", node, "reason", status.Message())
		return status
	}
	s.decision.Reserve(node, v.Holdings)
	if len(v.Holdings) > 0 {
		p.metrics.made()
	}
	if s.log.on(logDecision) {
		s.log.info(logDecision, "Reserved", "node", node, "holdings", document.Text(s.machine(node), v.Holdings))
	}
	return status
}

// turned records how the wait for a turn ended, and returns the status.
func (s *state) turned(node string, v place.Verdict, status *fwk.Status) *fwk.Status {
	if !status.IsSuccess() {
		s.decision.Refuse("node " + node + ": " + status.Message())
		s.log.info(logDecision, "No turn", "node", node, "reason", status.Message())
		return status
	}
	s.decision.Turn(v.Holdings)
	if s.log.on(logData) {
		s.log.info(logData, "Turn has come", "node", node, "holdings", document.Text(s.machine(node), v.Holdings))
	}
	return status
}

// released records that a pod is not bound after all.
func (s *state) released(node string) {
	s.decision.Release()
	s.log.info(logDecision, "Released", "node", node)
}

// PostBind records that the pod is bound. Configurations for scheduler-plugins enable the plugin here, too.
func (p *Plugin) PostBind(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	if s, ok := read(cs); ok {
		p.backoff.remove(string(pod.UID))
		s.decision.Bound()
		s.log.info(logData, "Bound", "node", node)
	}
}

// machine returns the machine of a node, or nil.
func (s *state) machine(node string) *topo.Machine {
	if n := s.snap.Node(node); n != nil {
		return n.Machine
	}
	return nil
}

// machine returns the machine of a node, or nil.
func (s *Shared) machine(node string) *topo.Machine {
	if n := s.Book.Snapshot().Node(node); n != nil {
		return n.Machine
	}
	return nil
}

// onOutcome records how a prediction came out.
func (s *Shared) onOutcome(o ledger.Outcome) {
	s.metrics.outcome(o, s.Book.Snapshot().Node(o.Node))
	s.Decisions.Outcome(o)
}
