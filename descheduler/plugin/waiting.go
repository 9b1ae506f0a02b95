package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube"
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
	for uid := range p.asked {
		if !still[uid] {
			delete(p.asked, uid)
		}
	}
}

// alike reports whether two pods of one controller differ only in what their names and numbers tell apart. If no pods
// move for one of them, none do for the other.
func alike(a, b *v1.Pod) bool {
	x, y := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	return x != nil && y != nil && x.UID == y.UID && a.Namespace == b.Namespace &&
		maps.Equal(kube.Unnumbered(a.Labels), kube.Unnumbered(b.Labels)) &&
		maps.Equal(kube.Unnumbered(a.Annotations), kube.Unnumbered(b.Annotations)) &&
		equality.Semantic.DeepEqual(common(&a.Spec), common(&b.Spec)) && !hasOwnVolumes(&a.Spec)
}

// common returns the part of a pod's spec that all pods of a controller have: without the host name, and without the
// volume of the service account, which has a random name.
func common(in *v1.PodSpec) *v1.PodSpec {
	out := in.DeepCopy()
	out.Hostname = ""
	out.Volumes = slices.DeleteFunc(out.Volumes, func(v v1.Volume) bool {
		return strings.HasPrefix(v.Name, "kube-api-access-")
	})
	for _, list := range [][]v1.Container{out.InitContainers, out.Containers} {
		for i := range list {
			list[i].VolumeMounts = nil
		}
	}
	return out
}

// hasOwnVolumes reports whether a pod has claims of volumes that are made for it alone, and may tie it to other nodes.
func hasOwnVolumes(p *v1.PodSpec) bool {
	return slices.ContainsFunc(p.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
}

// once logs why no pods move for a pod that waits, unless it has logged that already.
func (p *makeRoom) once(log klog.Logger, w *v1.Pod, why string) {
	if p.logged[w.UID] == why {
		return
	}
	p.logged[w.UID] = why
	log.Info("No pods move for a pod that waits", "pod", klog.KObj(w), "reason", why)
}
