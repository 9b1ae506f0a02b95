package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/config"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// signature has all that Filter and Score read of a pod. Its JSON form is the same for equal pods.
type signature struct {
	Shape  string `json:"shape"`
	Policy string `json:"policy,omitempty"`
	Scope  string `json:"scope,omitempty"`
	Align  string `json:"align,omitempty"`
	Ignore string `json:"ignore,omitempty"`
	Wish   string `json:"strategy,omitempty"`
}

// signatureKey names the plugin's part of a pod's signature, whatever the profile's name for the plugin is.
const signatureKey = "tenon.sh/alignment"

// SignPod lets the framework batch pods with equal requests. If the node that one pod got is full for the next pod, the
// framework takes the second best node of the first pod, and scores no node again. Filter and Score read these
// properties of a pod:
//
//   - its shape, which determines the nodes' answers, and which a node may have refused: signed;
//   - its demand, which also decides about unknown nodes: signed;
//   - the strategy that it requests: signed. The profile's strategy and arguments are the same for all batched pods;
//   - the nodes of its backoff, and the pods that are nominated to a node: not signed. The framework runs all filters
//     for each pod on the node that it takes from the batch;
//   - names of containers: not signed, since only reasons contain them.
//
// The nodes' holdings and the mix may change in the half second for which the framework keeps a batch. The node that it
// takes then still fits, but may no longer be the best. SignPod refuses a pod that belongs to a group, whose nodes
// depend on the other pods of the group, a pod that is related to others, and a pod for which every node's answer is
// logged. Pods that no node's managers would align have nothing to sign.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	s, status := translate(pod)
	if status != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, status.Reasons()...)
	}
	if p.promises.Any() || p.promises.HoldsAny() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "where the pod fits depends on what is kept for others")
	}
	if s.pod.Plain() {
		if apipod.AffinityGroup(pod) != "" {
			return nil, fwk.NewStatus(fwk.Unschedulable, "which node is best depends on others of the pod's affinity group")
		}
		return nil, nil
	}
	if s.demand.Relates() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "where the pod fits depends on the pods that it is related to")
	}
	if fwk.Grouped(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "where the pod fits depends on others of its group")
	}
	if _, logs := pod.Annotations[report.LogAnnotation]; logs && p.args.PodLogs != config.Deny {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what every node says of the pod is logged")
	}
	return []fwk.SignFragment{{Key: signatureKey, Value: signed(s)}}, nil
}

// signed returns the signature of a pod.
func signed(s *podState) signature {
	out := signature{Shape: booking.Bounded(s.shape), Policy: s.demand.Policy.String(), Scope: s.demand.Scope.String(),
		Align: string(s.demand.Align), Ignore: string(s.demand.Ignore)}
	if s.wish != nil {
		out.Wish = s.wish.String()
	}
	return out
}
