//go:build !upto1.36

package preempt

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// unasked is a plugin that must not be asked anything.
type unasked struct {
	Plugin
	GroupPlugin
}

// waiting is a group that waits.
type waiting struct {
	upstream.PodGroupInfo
	group *schedulingv1beta1.PodGroup
	pods  []*v1.Pod
}

func (w waiting) GetPodGroup() *schedulingv1beta1.PodGroup { return w.group }

func (w waiting) GetUnscheduledPods() []*v1.Pod { return w.pods }

// No victims are looked for if a group may not evict pods: that search takes some tenths of a second.
func TestAGroupThatNeverPreemptsCostsNoSearch(t *testing.T) {
	metrics.Register()
	pre := &Preemption{plugin: unasked{}}
	pods := []*v1.Pod{cpus("a", 4), cpus("b", 4)}
	for _, p := range pods {
		p.Spec.PreemptionPolicy = new(v1.PreemptNever)
	}
	_, status := pre.PodGroupPostFilter(t.Context(), framework.NewCycleState(),
		waiting{group: &schedulingv1beta1.PodGroup{}, pods: pods}, nil)
	const want = "preemption for the group: not eligible due to preemptionPolicy=Never."
	if status.Code() != fwk.Unschedulable || status.Message() != want {
		t.Errorf("%s: %q, want %q", status.Code(), status.Message(), want)
	}
}
