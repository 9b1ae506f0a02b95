package kube

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClassPrefix begins the extended resource that every class of devices serves by its own name.
const ClassPrefix = resourcev1.ResourceDeviceClassPrefix

// Serve adds the extended resources that a class of devices serves: one by the class's own name, and the one that it
// names. kube-scheduler allocates devices for these where DRAExtendedResource is on (by default from 1.36 on).
func Serve(served map[string]bool, class *resourcev1.DeviceClass) {
	served[ClassPrefix+class.Name] = true
	if name := class.Spec.ExtendedResourceName; name != nil && *name != "" {
		served[*name] = true
	}
}

// Served returns the extended resources that classes of devices serve, or nil if the identity may not read these.
// An API server that does not serve classes has none.
func (r *Reader) Served(ctx context.Context) (map[string]bool, error) {
	l, err := r.devices.Classes.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("list device classes: %w", err)
	}
	out := map[string]bool{}
	for i := range l.Items {
		Serve(out, &l.Items[i])
	}
	return out, nil
}
