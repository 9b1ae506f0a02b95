package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// preFlight returns Skip for a pod that holds nothing of the node, and for a pod whose turn has come; for the latter
// it takes the turn. It returns nil for a pod that has to wait. For such a pod, kube-scheduler first writes
// status.nominatedNodeName, which costs a request and a watch event. Any other status ends the attempt.
func (p *Plugin) preFlight(cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if p.gangs.Has(string(pod.UID)) {
		return nil // the pod waits for the others
	}
	s, ok := read(cs)
	if !ok || !p.Book.Booked(node, string(pod.UID)) {
		return fwk.NewStatus(fwk.Skip)
	}
	if p.handle != nil && p.handle.GetWaitingPod(pod.UID) != nil {
		return nil // another plugin delays the pod, and a pod that has its turn delays others
	}
	v, wait, err := p.Book.Turn(string(pod.UID), pod.CreationTimestamp.Unix())
	if wait != nil {
		return nil
	}
	status := fwk.AsStatus(err)
	if err == nil {
		status = p.confirm(s, pod, node, v, "")
	}
	if status = s.recordTurn(node, v, status); !status.IsSuccess() {
		return status
	}
	return fwk.NewStatus(fwk.Skip)
}

// PreBind waits for the pod's turn on its node, so that the node admits pods in the order of their predictions. If a
// pod no longer fits when its turn comes, it is scheduled again. The pods of a gang wait for each other.
//
// PreBind then returns an error, as kube-scheduler's own plugins do. A status of unschedulable would make the pod wait
// for an event, and the events that announced room on other nodes may have passed.
func (p *Plugin) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	together, err := p.awaitGang(ctx, pod, node)
	if err != nil {
		return p.afterGang(cs, node, err)
	}
	s, ok := read(cs)
	if !ok || s.bare {
		return nil
	}
	v, waited, err := p.turns.Await(ctx, p.Book, p.metrics, pod, node, p.turnTimeout())
	if err != nil {
		return s.recordTurn(node, v, fwk.AsStatus(err))
	}
	short := ""
	if (waited || together) && v.Fits() {
		short = p.missingAmounts(ctx, cs, pod, node)
	}
	return s.recordTurn(node, v, p.confirm(s, pod, node, v, short))
}

// confirm checks that a node still takes a pod whose turn has come: v, the verdict at that time, must fit, and short
// must be empty. short names the plain amounts of the node that have become too small. If the check fails, confirm
// gives the turn back and returns an error.
func (p *Plugin) confirm(s *podState, pod *v1.Pod, node string, v place.Verdict, short string) *fwk.Status {
	why := short
	if !v.Fits() {
		why = p.refusal(s.pod, v).Message()
		if v.Reasons[0].Code == place.FarDevices {
			p.metrics.ClaimUndone()
		}
	}
	if why == "" {
		return nil
	}
	p.Book.Decline(string(pod.UID))
	return fwk.AsStatus(fmt.Errorf("node %s no longer fits: %s", node, why))
}
