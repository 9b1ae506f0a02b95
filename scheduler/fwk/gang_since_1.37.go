//go:build !upto1.36

package fwk

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Gang returns the name of the gang of a pod that will be bound after this cycle, unless Reserve fails; "" if it
// belongs to none, or if a group cycle only tries where its pods fit. enough returns an error if fewer pods of the gang
// have nodes than its policy demands.
func Gang(h Handle, cs CycleState, pod *v1.Pod) (name string, enough func() error) {
	g := pod.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil || cs.IsPodGroupSchedulingCycle() {
		return "", nil
	}
	group, err := h.SnapshotSharedLister().PodGroups().Get(pod.Namespace, *g.PodGroupName)
	if err != nil || group.Spec.SchedulingPolicy.Gang == nil {
		return "", nil // kube-scheduler has refused the pod, or lets its pods start one by one
	}
	least := int(group.Spec.SchedulingPolicy.Gang.MinCount)
	return pod.Namespace + "/" + group.Name, func() error {
		state, err := h.PodGroupManager().PodGroupStates().Get(pod.Namespace, group.Name)
		if err != nil {
			return fmt.Errorf("read how many of its pods have nodes: %w", err)
		}
		if n := state.ScheduledPodsCount(); n < least {
			return fmt.Errorf("%d of its pods have nodes, and it needs %d", n, least)
		}
		return nil
	}
}
