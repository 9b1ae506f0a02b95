//go:build !upto1.35

package steer

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// GetPodGroupSchedulingCycle returns nil. The wrapped plugin keeps one state for each pod of a group there, and a trial
// must not replace it. A claim that another pod of the group has in the same cycle is left to the wrapped plugin.
func (v *view) GetPodGroupSchedulingCycle() upstream.PodGroupCycleState { return nil }

// pending returns what a pod has reserved for a claim and not written yet, or nil.
func pending(all fwk.ResourceClaimTracker, claim types.UID) *resourcev1.AllocationResult {
	return all.GetPendingAllocation(claim)
}

// countsAmounts reports whether kube-scheduler counts CPUs and memory that devices take. Filter reads slices then.
func countsAmounts() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DRANodeAllocatableResources)
}

// logsSlices returns false. Since 1.36 the allocator logs slices of other nodes by their numbers alone.
func logsSlices(context.Context) bool { return false }

// takesAmounts reports whether the devices of an attempt take CPUs or memory of the node.
func (a *attempt) takesAmounts(ctx context.Context, node string) bool {
	logger := klog.FromContext(ctx)
	return len(dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(logger, a.state, node)) > 0
}
