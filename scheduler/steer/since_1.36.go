//go:build !upto1.35

package steer

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// group is what the plugin of trials has in the cycle of a group: which claims the group's pods have reserved. The
// wrapped plugin has the same in the cycle, but also one state for each pod, which a trial must not replace.
type group struct {
	upstream.PodGroupCycleState
	data map[fwk.StateKey]fwk.StateData
}

// groupData keeps a group in the cycle.
type groupData struct{ *group }

// Clone returns d.
func (d groupData) Clone() fwk.StateData { return d }

func (g *group) Read(key fwk.StateKey) (fwk.StateData, error) {
	if d, ok := g.data[key]; ok {
		return d, nil
	}
	return nil, fwk.ErrNotFound
}

func (g *group) Write(key fwk.StateKey, d fwk.StateData) { g.data[key] = d }
func (g *group) Delete(key fwk.StateKey)                 { delete(g.data, key) }

// GetPodGroupSchedulingCycle returns what the plugin of trials has in the group's cycle; nil if no pod of the group has
// reserved a claim, or if the view is alone.
func (v *view) GetPodGroupSchedulingCycle() upstream.PodGroupCycleState {
	cycle := v.CycleState.GetPodGroupSchedulingCycle()
	if cycle == nil || v.alone {
		return nil
	}
	if g, is := cycle.(*group); is {
		return g
	}
	if d, err := cycle.Read(stateKey); err == nil {
		return d.(groupData).group
	}
	return nil
}

// share lets the plugin of trials know what a pod of a group has reserved, so that it leaves these claims as they are
// when it allocates claims of the group's next pods. If it fails, the wrapped plugin allocates them alone.
func (t *trial) share(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	cycle := cs.GetPodGroupSchedulingCycle()
	if cycle == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := cycle.Read(stateKey); err != nil {
		cycle.Write(stateKey, groupData{&group{cycle, map[fwk.StateKey]fwk.StateData{}}})
		// The plugin makes its data of the group in PreFilter, also for a pod without claims.
		t.plugin.PreFilter(ctx, newView(cs), &v1.Pod{}, nil)
	}
	t.plugin.Reserve(ctx, newView(cs), pod, node)
	t.dra.signals = nil
}

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
