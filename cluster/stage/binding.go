package stage

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
)

// This file finds the volume that kube-scheduler would bind a claim to. The package
// k8s.io/component-helpers/storage/volume does that, too, but links the types of all API groups.

// The annotations of kube-scheduler's VolumeBinding and of the controller that binds volumes.
const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	selectedNode  = "volume.kubernetes.io/selected-node"
	noProvisioner = "kubernetes.io/no-provisioner"
)

// classOf returns the storage class of a claim; the annotation is the older form of the field.
func classOf(c *v1.PersistentVolumeClaim) string {
	if name, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return deref(c.Spec.StorageClassName, "")
}

// classOfVolume returns the storage class of a volume.
func classOfVolume(v *v1.PersistentVolume) string {
	if name, ok := v.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return v.Spec.StorageClassName
}

// deref returns the value that a pointer points to, or the given default if the pointer is nil.
func deref[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// reaches reports whether a volume can be used on a node, by its node affinity.
func reaches(v *v1.PersistentVolume, n *v1.Node) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	only := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}} // volume affinity ignores the node's fields
	ok, err := corev1.MatchNodeSelectorTerms(only, v.Spec.NodeAffinity.Required)
	return ok && err == nil
}

// volumeFor returns the volume that an unbound claim would get on a node: the volume that is reserved for the claim
// or, if none is, the smallest free one that is large enough. It returns nil if there is none, or if the reserved
// volume cannot be used on the node. all are the volumes of the claim's storage class, and taken are the volumes that
// other claims of the pod get. The error is about the claim's selector.
func volumeFor(c *v1.PersistentVolumeClaim, all []*v1.PersistentVolume, n *v1.Node,
	taken map[string]bool) (*v1.PersistentVolume, error) {
	selector := labels.Everything()
	if c.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(c.Spec.Selector); err != nil {
			return nil, err
		}
	}
	var free []*v1.PersistentVolume
	for _, v := range all {
		switch {
		case taken[v.Name] || !suits(v, c):
		case v.Spec.ClaimRef != nil && !reserved(v, c):
		case v.Spec.ClaimRef != nil && !reaches(v, n):
			return nil, nil
		case v.Spec.ClaimRef != nil:
			return v, nil
		case v.Status.Phase == v1.VolumeAvailable && selector.Matches(labels.Set(v.Labels)) && reaches(v, n) &&
			!slices.ContainsFunc(c.Spec.AccessModes, func(m v1.PersistentVolumeAccessMode) bool {
				return !slices.Contains(v.Spec.AccessModes, m)
			}):
			free = append(free, v)
		}
	}
	if len(free) == 0 {
		return nil, nil
	}
	return slices.MinFunc(free, func(a, b *v1.PersistentVolume) int {
		x, y := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
		return cmp.Or(x.Cmp(y), cmp.Compare(a.Name, b.Name))
	}), nil
}

// suits reports whether a volume has the size, the mode and the attributes class that a claim requests, and is not
// being deleted.
func suits(v *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	want, has := c.Spec.Resources.Requests[v1.ResourceStorage], v.Spec.Capacity[v1.ResourceStorage]
	return has.Cmp(want) >= 0 && v.DeletionTimestamp == nil &&
		deref(c.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == deref(v.Spec.VolumeMode, v1.PersistentVolumeFilesystem) &&
		deref(c.Spec.VolumeAttributesClassName, "") == deref(v.Spec.VolumeAttributesClassName, "")
}

// reserved reports whether the claim that a volume names (spec.claimRef) is the given one.
func reserved(v *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	r := v.Spec.ClaimRef
	return r.Name == c.Name && r.Namespace == c.Namespace && (r.UID == "" || r.UID == c.UID)
}
