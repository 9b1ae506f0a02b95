//go:build !upto1.36

package fwk

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// GangOf returns the gang of a pod that will be bound after this cycle, unless Reserve fails. It returns nil if the pod
// belongs to none, and while a group cycle only tries where pods fit.
func GangOf(h Handle, cs CycleState, pod *v1.Pod) *Gang {
	g := pod.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil || OnTrial(cs) {
		return nil
	}
	group, err := h.SnapshotSharedLister().PodGroups().Get(pod.Namespace, *g.PodGroupName)
	if err != nil || group.Spec.SchedulingPolicy.Gang == nil {
		return nil // kube-scheduler has refused the pod, or lets its pods start one by one
	}
	return &Gang{h, pod.Namespace, group.Name, int(group.Spec.SchedulingPolicy.Gang.MinCount)}
}

// GroupOf returns the group of a pod, how many other pods of the group have nodes, and how many the group needs to
// start: 0 if they may start one by one. The group is nil if the pod belongs to none, or kube-scheduler does not know
// it. GroupOf may be called by any goroutine.
func GroupOf(h Handle, pod *v1.Pod) (group *v1.ObjectReference, others, least int) {
	m := h.PodGroupManager()
	if !Grouped(pod) || pod.Spec.SchedulingGroup.PodGroupName == nil || m == nil {
		return nil, 0, 0
	}
	g, err := m.PodGroups().Get(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
	if err != nil {
		return nil, 0, 0
	}
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		least = int(gang.MinCount)
	}
	if state, err := m.PodGroupStates().Get(g.Namespace, g.Name); err == nil {
		// kube-scheduler may not have heard of the pod's end yet.
		others = state.AssumedPods().Union(state.AssignedPods()).Delete(pod.UID).Len()
	}
	return &v1.ObjectReference{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup",
		Namespace: g.Namespace, Name: g.Name, UID: g.UID}, others, least
}

// Gang is a group of pods that starts only if least of them start together. Composite groups are not looked at.
type Gang struct {
	handle          Handle
	namespace, name string
	least           int
}

// Name returns the name of the group with its namespace.
func (g *Gang) Name() string { return g.namespace + "/" + g.name }

// Enough returns an error if fewer pods of the gang have nodes than its policy demands. Of the assumed pods, only those
// count for which counts is true.
func (g *Gang) Enough(counts func(uid string) bool) error {
	state, err := g.handle.PodGroupManager().PodGroupStates().Get(g.namespace, g.name)
	if err != nil {
		return fmt.Errorf("read how many of its pods have nodes: %w", err)
	}
	n := state.ScheduledPodsCount()
	for uid := range state.AssumedPods() {
		if !counts(string(uid)) {
			n--
		}
	}
	if n < g.least {
		return fmt.Errorf("%d of its pods have nodes, and it needs %d", n, g.least)
	}
	return nil
}

// GiveUp ends the attempt to bind a pod of the gang that waits at Permit, or in PreBind.
func (g *Gang) GiveUp(uid string, why error) {
	state, err := g.handle.PodGroupManager().PodGroupStates().Get(g.namespace, g.name)
	if err != nil {
		return // the group is gone
	}
	for id := range state.AssumedPods() {
		if string(id) != uid {
			continue
		}
		if w := g.handle.GetWaitingPod(id); w != nil {
			w.Reject("Tenon", why.Error())
		}
		if p := g.handle.GetPodInPreBind(id); p != nil {
			p.CancelPod(why.Error())
		}
	}
}
