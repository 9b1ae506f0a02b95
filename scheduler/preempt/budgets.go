package preempt

import (
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// budgets are the disruption budgets of a cluster, as kube-scheduler counts them. A budget covers the pods of its
// namespace that its selector selects; an empty or invalid selector selects none. If the API server has already
// counted the disruption of a pod, evicting the pod does not count again.
type budgets struct {
	list      []*policy.PodDisruptionBudget
	selectors []labels.Selector
	allowed   []int
}

func newBudgets(pdbs []*policy.PodDisruptionBudget) budgets {
	var b budgets
	for _, pdb := range pdbs {
		s, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil || s.Empty() {
			continue
		}
		b.list, b.selectors = append(b.list, pdb), append(b.selectors, s)
		b.allowed = append(b.allowed, int(pdb.Status.DisruptionsAllowed))
	}
	return b
}

// of returns the indices in allowed of the budgets against which the eviction of a pod counts.
func (b budgets) of(p *v1.Pod) (out []int) {
	for i, pdb := range b.list {
		_, counted := pdb.Status.DisruptedPods[p.Name]
		if !counted && len(p.Labels) > 0 && pdb.Namespace == p.Namespace && b.selectors[i].Matches(labels.Set(p.Labels)) {
			out = append(out, i)
		}
	}
	return out
}
