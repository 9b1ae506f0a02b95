package kube

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClassPrefix begins the names of the implicit extended resources: every DeviceClass serves the one that ends in its
// own name.
const ClassPrefix = resourcev1.ResourceDeviceClassPrefix

// Serve adds to a set the extended resources that a DeviceClass serves: ClassPrefix with the class's name, and
// spec.extendedResourceName if it is set. kube-scheduler allocates devices for requests of them where the feature
// gate DRAExtendedResource is on (by default from 1.36 on).
func Serve(served map[string]bool, class *resourcev1.DeviceClass) {
	served[ClassPrefix+class.Name] = true
	if name := class.Spec.ExtendedResourceName; name != nil && *name != "" {
		served[*name] = true
	}
}

// Served returns the extended resources that DeviceClasses serve, or nil if the identity may not list these classes.
// The result is empty, not nil, if the API server does not serve DeviceClasses.
func (r *Reader) Served(ctx context.Context) (map[string]bool, error) {
	all, err := r.classes(ctx)
	if all == nil || err != nil {
		return nil, err
	}
	return served(all), nil
}

func served(all []resourcev1.DeviceClass) map[string]bool {
	out := map[string]bool{}
	for i := range all {
		Serve(out, &all[i])
	}
	return out
}

// classes lists the classes of devices. The result is nil or empty as that of Served.
func (r *Reader) classes(ctx context.Context) ([]resourcev1.DeviceClass, error) {
	l, err := r.devices.Classes.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return []resourcev1.DeviceClass{}, nil
	case err != nil:
		return nil, fmt.Errorf("list device classes: %w", err)
	}
	return append([]resourcev1.DeviceClass{}, l.Items...), nil
}
