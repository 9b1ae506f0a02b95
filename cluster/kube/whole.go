package kube

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tenon-numa/tenon/api/pod/quantity"
)

// This file reads the resources that kubelets of 1.35 and later report for a pod as a whole. Volcano's module builds
// the package with the libraries of 1.34, which lack these fields, and without build tags. So the file finds the
// fields by name.

// boundOptions returns the options by which the requests of a bound pod are counted, with the defaults that feature
// gates have from 1.36 on.
func boundOptions() resourcehelper.PodResourcesOptions {
	o := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	if gate := reflect.ValueOf(&o).Elem().FieldByName("InPlacePodLevelResourcesVerticalScalingEnabled"); gate.IsValid() {
		gate.SetBool(true)
	}
	return o
}

// whole returns pointers to two fields of a status: the resources that the kubelet has allocated to the pod as a
// whole, and the resources that the pod actually has. Both pointers are nil where the libraries have no such fields.
func whole(s *v1.PodStatus) (allocated *v1.ResourceList, actual **v1.ResourceRequirements) {
	v := reflect.ValueOf(s).Elem()
	if f := v.FieldByName("AllocatedResources"); f.IsValid() {
		allocated, _ = f.Addr().Interface().(*v1.ResourceList)
	}
	if f := v.FieldByName("Resources"); f.IsValid() {
		actual, _ = f.Addr().Interface().(**v1.ResourceRequirements)
	}
	return allocated, actual
}

// sizedWhole reports whether a status has quantities of the pod as a whole.
func sizedWhole(s *v1.PodStatus) bool {
	allocated, actual := whole(s)
	return allocated != nil && *allocated != nil || actual != nil && *actual != nil
}

// clampWhole clamps the quantities of the pod as a whole in a status.
func clampWhole(s *v1.PodStatus) {
	allocated, actual := whole(s)
	if allocated != nil {
		*allocated = quantity.ClampList(*allocated)
	}
	if actual != nil {
		*actual = clampRequests(*actual)
	}
}

// CopyWhole copies the resources of a pod as a whole from one status to another, without limits.
func CopyWhole(to, from *v1.PodStatus) {
	allocated, actual := whole(from)
	allocatedTo, actualTo := whole(to)
	if allocated != nil {
		*allocatedTo = *allocated
	}
	if actual != nil && *actual != nil {
		*actualTo = &v1.ResourceRequirements{Requests: (*actual).Requests}
	}
}
