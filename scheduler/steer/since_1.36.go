//go:build !upto1.35

package steer

import (
	upstream "k8s.io/kube-scheduler/framework"
)

// GetPodGroupSchedulingCycle returns nil. The wrapped plugin keeps one state for each pod of a group there, and a trial
// must not replace it. A claim that another pod of the group has in the same cycle is left to the wrapped plugin.
func (v *view) GetPodGroupSchedulingCycle() upstream.PodGroupCycleState { return nil }
