package plugin

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	apipod "github.com/tenon-numa/tenon/api/pod"
)

// surelyEqual reports whether all pods are of one kind, as [gang.unequal] means it, and related to no others. It may
// return false for such pods, but costs little: most gangs are of pods of one template, and every group cycle asks.
func surelyEqual(pods []*v1.Pod) bool {
	if len(pods) == 0 {
		return true
	}
	first, err := apipod.Demand(pods[0])
	if err != nil || first.Relates() {
		return false
	}
	return !slices.ContainsFunc(pods[1:], func(p *v1.Pod) bool {
		d, err := apipod.Demand(p)
		return err != nil || d != first || p.Status.QOSClass != pods[0].Status.QOSClass || !alike(&pods[0].Spec, &p.Spec)
	})
}

// alike reports whether two specs agree in everything by which newGang tells kinds apart.
func alike(a, b *v1.PodSpec) bool {
	return a.NodeName == b.NodeName && maps.Equal(a.NodeSelector, b.NodeSelector) &&
		slices.EqualFunc(a.InitContainers, b.InitContainers, sameContainer) &&
		slices.EqualFunc(a.Containers, b.Containers, sameContainer) &&
		(a.Affinity == b.Affinity || equality.Semantic.DeepEqual(a.Affinity, b.Affinity)) &&
		equality.Semantic.DeepEqual(a.Tolerations, b.Tolerations) &&
		equality.Semantic.DeepEqual(a.ResourceClaims, b.ResourceClaims) &&
		equality.Semantic.DeepEqual(a.Resources, b.Resources) && sameAmounts(a.Overhead, b.Overhead)
}

// sameContainer compares what the shape of a pod and its requests depend on.
func sameContainer(a, b v1.Container) bool {
	return a.Name == b.Name && sameAmounts(a.Resources.Requests, b.Resources.Requests) &&
		sameAmounts(a.Resources.Limits, b.Resources.Limits) && (a.RestartPolicy == b.RestartPolicy ||
		a.RestartPolicy != nil && b.RestartPolicy != nil && *a.RestartPolicy == *b.RestartPolicy)
}

func sameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, has := b[name]; !has || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
