//go:build !upto1.34

package kube

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
)

// ofBound returns how the requests of a bound pod are counted, with the gates' defaults of 1.36 and later.
func ofBound() resourcehelper.PodResourcesOptions {
	return resourcehelper.PodResourcesOptions{UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true}
}

// sizedWhole reports whether a status has quantities of the pod as a whole.
func sizedWhole(s *v1.PodStatus) bool { return s.AllocatedResources != nil || s.Resources != nil }

func clampWhole(s *v1.PodStatus) {
	s.AllocatedResources = quantity.ClampList(s.AllocatedResources)
	s.Resources = clampRequests(s.Resources)
}

// CopyWhole copies the requests of a pod as a whole from one status to another.
func CopyWhole(to, from *v1.PodStatus) {
	to.AllocatedResources = from.AllocatedResources
	if r := from.Resources; r != nil {
		to.Resources = &v1.ResourceRequirements{Requests: r.Requests}
	}
}
