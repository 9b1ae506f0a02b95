//go:build upto1.35

package steer

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// pending returns nil. Before 1.36 no pod uses a claim that another pod has reserved and not written.
func pending(fwk.ResourceClaimTracker, types.UID) *resourcev1.AllocationResult { return nil }

// share does nothing.
func (t *trial) share(context.Context, fwk.CycleState, *v1.Pod, string) {}

// countsAmounts returns false. Before 1.36, devices take no CPUs or memory that kube-scheduler counts.
func countsAmounts() bool { return false }

// logsSlices reports whether the allocator logs the slices of all nodes whenever it allocates on one: it must not see
// others then that are being sifted.
func logsSlices(ctx context.Context) bool { return klog.FromContext(ctx).V(5).Enabled() }

func (a *attempt) takesAmounts(context.Context, string) bool { return false }
