//go:build upto1.34

package kube

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// ofBound returns how the requests of a bound pod are counted.
func ofBound() resourcehelper.PodResourcesOptions {
	return resourcehelper.PodResourcesOptions{UseStatusResources: true}
}

// sizedWhole reports whether a status has quantities of the pod as a whole: kubelets of 1.34 report none.
func sizedWhole(*v1.PodStatus) bool { return false }

func clampWhole(*v1.PodStatus) {}

// CopyWhole copies the requests of a pod as a whole from one status to another: kubelets of 1.34 report none.
func CopyWhole(_, _ *v1.PodStatus) {}
