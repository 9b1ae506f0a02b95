package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/cluster/request"
)

// signature is all that Filter and Score read of a pod, in a form that is written the same way every time.
type signature struct {
	Shape  string `json:"shape"`
	Policy string `json:"policy,omitempty"`
	Scope  string `json:"scope,omitempty"`
	Align  string `json:"align,omitempty"`
	Ignore string `json:"ignore,omitempty"`
	Wish   string `json:"strategy,omitempty"`
}

// signatureKey names the plugin's part of a pod's signature, whatever the profile calls the plugin.
const signatureKey = "tenon.sh/alignment"

// SignPod lets the framework batch pods that ask alike: once the node that one of them got is full for the next,
// that one goes to the second best node of the first, and nobody is scored anew. Of a pod, Filter and Score read
//
//   - its shape, by which nodes answer, and which a node may have refused: signed;
//   - its demand, which decides about unknown nodes, too: signed;
//   - the strategy that it asks for: signed; that of the profile, and the profile's arguments, are the same for
//     all pods that are batched;
//   - the nodes of its nodeBackoff, and the pods that are nominated to a node: not signed. The framework has all
//     filters look at the node that it takes from the batch, for the very pod;
//   - names of containers: in reasons only.
//
// What nodes hold, and the mix, may change in the half second for which a batch is kept: then the node that is
// taken still fits, and may be no longer the best. A pod that belongs to a group is not signed, since its nodes
// depend on the others of the group, nor is one of which every node's answer is to be logged. Pods that no node's
// managers would align have nothing to sign.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	s, status := translate(pod)
	if status != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, status.Reasons()...)
	}
	if s.pod.Plain() {
		return nil, nil
	}
	if pod.Spec.SchedulingGroup != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "where the pod fits depends on others of its group")
	}
	if _, logs := pod.Annotations[report.LogAnnotation]; logs && p.args.PodLogs != config.Deny {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what every node says of the pod is logged")
	}
	return []fwk.SignFragment{{Key: signatureKey, Value: signed(s)}}, nil
}

func signed(s *state) signature {
	out := signature{Shape: request.Bounded(s.shape), Policy: s.demand.Policy.String(), Scope: s.demand.Scope.String(),
		Align: string(s.demand.Align), Ignore: string(s.demand.Ignore)}
	if s.wish != nil {
		out.Wish = s.wish.String()
	}
	return out
}
