package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// This file finds the pods that wait, and logs once why there is no plan for one.

// waiting returns the pods for which others may move, in the order in which schedulers take them: the highest priority
// first, then the oldest.
func (p *makeRoom) waiting() ([]*v1.Pod, error) {
	all, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	all = slices.DeleteFunc(all, func(w *v1.Pod) bool { // the lister returns a list of its own
		return !unschedulable(w) || p.now().Sub(w.CreationTimestamp.Time) < p.args.PendingFor.Duration ||
			!selects(p.args.PendingNamespaces, w.Namespace)
	})
	slices.SortFunc(all, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// unschedulable reports whether a scheduler has found no node for a pod.
func unschedulable(w *v1.Pod) bool {
	return w.Spec.NodeName == "" && w.Status.Phase == v1.PodPending && w.DeletionTimestamp == nil &&
		slices.ContainsFunc(w.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
		})
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// forget forgets what was recorded about pods that do not wait any more.
func (p *makeRoom) forget(waiting []*v1.Pod) {
	still := map[apitypes.UID]bool{}
	for _, w := range waiting {
		still[w.UID] = true
	}
	for uid := range p.stopped {
		if !still[uid] {
			delete(p.stopped, uid)
		}
	}
	for uid := range p.logged {
		if !still[uid] {
			delete(p.logged, uid)
		}
	}
}

// once logs why no pods move for a pod that waits, unless it has logged that already.
func (p *makeRoom) once(log klog.Logger, w *v1.Pod, why string) {
	if p.logged[w.UID] == why {
		return
	}
	p.logged[w.UID] = why
	log.Info("No pods move for a pod that waits", "pod", klog.KObj(w), "reason", why)
}
