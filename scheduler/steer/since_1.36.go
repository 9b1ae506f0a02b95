//go:build !upto1.35

package steer

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// GetPodGroupSchedulingCycle returns nil. The wrapped plugin keeps one state for each pod of a group there, and a trial
// must not replace it. A claim that another pod of the group has in the same cycle is left to the wrapped plugin.
func (v *view) GetPodGroupSchedulingCycle() upstream.PodGroupCycleState { return nil }

// pending returns what a pod has reserved for a claim and not written yet, or nil.
func pending(all fwk.ResourceClaimTracker, claim types.UID) *resourcev1.AllocationResult {
	return all.GetPendingAllocation(claim)
}
