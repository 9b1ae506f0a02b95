//go:build !upto1.36

package preempt

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file has what differs in the preemption of kube-scheduler from 1.37 on.

// SelectVictimsOnNode implements preemption.Interface; see choose. If a group of pods that have to end together is
// among the possible victims, DefaultPreemption chooses, because such a group may have members on other nodes.
func (c chooser) SelectVictimsOnNode(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo,
	possible []*preemption.DomainVictim, pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	upstream := func() ([]*v1.Pod, int, *fwk.Status) {
		return c.DefaultPreemption.SelectVictimsOnNode(ctx, cs, pod, info, possible, pdbs)
	}
	if slices.ContainsFunc(possible, func(v *preemption.DomainVictim) bool { return v.IsGroup() }) {
		return upstream()
	}
	return c.choose(ctx, cs, pod, info, pdbs, upstream)
}

// eligible reports whether kube-scheduler's preemption may evict a pod, apart from its priority.
func (pre *Preemption) eligible(info fwk.NodeInfo, p fwk.PodInfo, preemptor *v1.Pod) bool {
	return pre.upstream.IsEligiblePod(info, preemption.NewPodVictim(p, nil, nil), preemptor)
}

// wrapEviction wraps the function that evicts a pod: it records an event on each victim.
func (pre *Preemption) wrapEviction() {
	evict := pre.upstream.Executor.PreemptPod
	pre.upstream.Executor.PreemptPod = func(ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor,
		pod *v1.Pod, plugin string) (bool, error) {
		text := pre.victimNote(by.UID(), c.Name(), pod.UID)
		inMemory, err := evict(ctx, c, by, pod, plugin)
		if err == nil {
			pre.recordVictim(pod, by.Obj(), text)
			pre.retryIfMissed(pod, slices.Collect(maps.Values(by.Pods()))...)
		}
		return inMemory, err
	}
}

// evicting reports whether kube-scheduler is still evicting victims of the preemptor.
func (pre *Preemption) evicting(preemptor types.UID) bool {
	return pre.upstream.Executor.IsPodRunningPreemption(preemptor)
}
