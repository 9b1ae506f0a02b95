package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// This file passes the facts of an attempt to scheduler/report.

// Logger returns the plugin's logger, which quotes unprintable characters in every value.
func Logger(ctx context.Context) klog.Logger {
	return report.Quoting(klog.FromContext(ctx)).WithName(Name)
}

// begin begins the record of an attempt to schedule a pod.
func (p *Plugin) begin(pod *v1.Pod) report.Attempt {
	p.attempted.Store(time.Now().UnixNano())
	log := report.NewPodLog(p.logger, pod, p.args.PodLogs != config.Deny, p.lines)
	return report.NewAttempt(log, p.Decisions.Begin(kube.ID(pod)))
}

// learn adds the pod to the workload profile, and sets the mix by which its nodes are scored.
func (p *Plugin) learn(s *podState) {
	mix, renewed := p.workload.Add(s.uid, s.pod)
	if s.strategy.Mix = mix; renewed && s.Log.On(report.LevelData) {
		s.Log.Info(report.LevelData, "Mix renewed", "pods", inspect.Text(mix))
	}
}

// recordFilter records the result of Filter for a node, and returns it. Results for hypothetical nodes, during
// preemption, are not recorded.
func (s *podState) recordFilter(node string, reasons []place.Reason, status *fwk.Status) *fwk.Status {
	if len(s.overlay) > 0 {
		if o, ok := s.overlay[node]; ok && o.Removes() {
			return status
		}
	}
	if status.IsSuccess() {
		s.Fits(node)
	} else {
		s.Refused(node, reasons, status)
	}
	return status
}

// recordCost records the cost of a node, and returns it.
func (s *podState) recordCost(node string, cost int64) int64 {
	s.Cost(node, cost)
	return cost
}

// recordReserve records a reservation that was made or refused, and returns the status.
func (p *Plugin) recordReserve(s *podState, node string, v place.Verdict, status *fwk.Status) *fwk.Status {
	if !status.IsSuccess() {
		s.NotReserved(node, status.Message())
		return status
	}
	s.Reserved(node, s.machine(node), v.Holdings)
	if len(v.Holdings) > 0 && !s.OnTrial {
		p.metrics.Made()
	}
	return status
}

// recordTurn records how the wait for a turn ended, and returns the status.
func (s *podState) recordTurn(node string, v place.Verdict, status *fwk.Status) *fwk.Status {
	if !status.IsSuccess() {
		s.NoTurn(node, status.Message())
		return status
	}
	s.Turn(node, s.machine(node), v.Holdings)
	return status
}

// PostBind records that the pod is bound. Configurations for scheduler-plugins enable the plugin here, too.
func (p *Plugin) PostBind(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	p.flights.Bound(string(pod.UID))
	p.promises.Came(string(pod.UID))
	if s, ok := read(cs); ok {
		p.turns.Remove(string(pod.UID))
		s.Bound(node)
	}
}

// text renders a reason why a node refuses a pod.
func (p *Plugin) text(pod *place.Pod, r place.Reason) string {
	return report.Words(p.name).Reason(pod, r)
}

// machine returns the machine of a node, or nil.
func (s *podState) machine(node string) *topo.Machine {
	if n := s.snap.Node(node); n != nil {
		return n.Machine
	}
	return nil
}

// onOutcome records whether a prediction was right.
func (s *Shared) onOutcome(o state.Outcome) {
	s.metrics.Outcome(o, s.Book.Snapshot().Node(o.Node))
	s.Decisions.Outcome(o)
	if s.options.OnOutcome != nil {
		s.options.OnOutcome(o)
	}
}
