//go:build upto1.35

package preempt

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file has what differs in the preemption of kube-scheduler 1.34 and 1.35.

// SelectVictimsOnNode implements preemption.Interface; see choose.
func (c chooser) SelectVictimsOnNode(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo,
	pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	upstream := func() ([]*v1.Pod, int, *fwk.Status) {
		return c.DefaultPreemption.SelectVictimsOnNode(ctx, cs, pod, info, pdbs)
	}
	return c.choose(ctx, cs, pod, info, pdbs, upstream)
}

// eligible reports whether kube-scheduler's preemption may evict a pod, apart from its priority.
func (pre *Preemption) eligible(info fwk.NodeInfo, p fwk.PodInfo, preemptor *v1.Pod) bool {
	return pre.upstream.IsEligiblePod(info, p, preemptor)
}

// wrapEviction wraps the function that evicts a pod: it records an event on each victim.
func (pre *Preemption) wrapEviction() {
	evict := pre.upstream.Evaluator.PreemptPod
	pre.upstream.Evaluator.PreemptPod = func(ctx context.Context, c preemption.Candidate, by, pod *v1.Pod,
		plugin string) error {
		text := pre.victimNote(by.UID, c.Name(), pod.UID)
		if err := evict(ctx, c, by, pod, plugin); err != nil {
			return err
		}
		pre.recordVictim(pod, by, text)
		pre.retryIfMissed(pod, by)
		return nil
	}
}

// evicting reports whether kube-scheduler is still evicting victims of the preemptor.
func (pre *Preemption) evicting(preemptor types.UID) bool {
	return pre.upstream.Evaluator.IsPodRunningPreemption(preemptor)
}
