package sched

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// guards says why the profile keeps the pod away from a node that would take it, nil if it does not.
func (p *Plugin) guards(s *state, n *ledger.Node) *fwk.Status {
	if p.args.InexactNodes == config.Refuse && len(n.Inexact) > 0 && s.holds(n) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "predictions for the node are inexact ("+
			report.Codes(n.Inexact)+"): mend what its NodeLayout lists as inexact, or set inexactNodes: Allow")
	}
	if p.args.KeepRestartable && s.strands(n) {
		return fwk.NewStatus(fwk.Unschedulable, "node's kubelet could not restart: the pod would take the last shared CPU "+
			"(strict-cpu-reservation); free one CPU, or set keepRestartable: false")
	}
	return nil
}

// holds reports whether the pod would hold anything of a node that takes it.
func (s *state) holds(n *ledger.Node) bool { return len(n.Place(s.pod, s.demand).Holdings) > 0 }

// strands reports whether the pod would take the CPUs without which the node's kubelet does not start again. A
// kubelet that could not restart before may have the pod.
func (s *state) strands(n *ledger.Node) bool {
	if !n.Rules.CPU.Static || !n.Rules.CPU.StrictReservation || n.Usage == nil || stranded(n) {
		return false
	}
	with, ok := n.With(ledger.PodID{UID: s.uid}, s.pod)
	return ok && stranded(with)
}

func stranded(n *ledger.Node) bool {
	for _, h := range n.Usage.RestartHazards() {
		if h.Code == place.NoSharedCPU {
			return true
		}
	}
	return false
}
