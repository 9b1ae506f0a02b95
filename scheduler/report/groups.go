package report

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/core/printable"
)

// Member is a pod of a group that its kubelet refused after it had got a node.
type Member struct {
	Pod    *v1.Pod
	Reason string // the kubelet's
	Group  *v1.ObjectReference
	// Others is how many other pods of the group have nodes. Least is how many the group needs to start, or 0 if its pods
	// may start one by one.
	Others, Least int
}

// MemberRefused records an event on the group of a pod that its kubelet refused.
func (e *Events) MemberRefused(m Member) {
	note := fmt.Sprintf("node %s refused pod %s of the group (%s)", m.Pod.Spec.NodeName, m.Pod.Name, m.Reason)
	if m.Least > 0 {
		note += fmt.Sprintf(": %d others have nodes, and the group needs %d", m.Others, m.Least)
	}
	note += "; a pod that is created in its place is placed like any other of the group"
	e.logger.Info("A node refused a pod of a group", "group", klog.KRef(m.Group.Namespace, m.Group.Name),
		"pod", klog.KObj(m.Pod), "node", m.Pod.Spec.NodeName, "reason", m.Reason)
	if e.recorder != nil {
		e.recorder.Eventf(m.Group, nil, v1.EventTypeWarning, "MemberRefused", "Scheduling", "%s",
			printable.Clip(note, maxNote))
	}
}
