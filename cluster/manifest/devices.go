package manifest

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Devices has the objects of a file by which pods get devices (dynamic resource allocation, DRA).
type Devices struct {
	Claims    []*resourcev1.ResourceClaim
	Templates []*resourcev1.ResourceClaimTemplate
	Classes   []*resourcev1.DeviceClass
}

// devices reads an object of DRA in the version v1; kept is false for other objects.
func (r *reader) devices(what string, gvk schema.GroupVersionKind, text []byte) (kept bool, err error) {
	if gvk.GroupVersion() != resourcev1.SchemeGroupVersion {
		return false, nil
	}
	switch gvk.Kind {
	case "ResourceClaim", "ResourceClaimTemplate", "DeviceClass":
	default:
		return false, nil
	}
	if err := Tame(text); err != nil {
		return true, fmt.Errorf("%s: %w", what, err)
	}
	obj, _, err := r.decoder.Decode(text, &gvk, nil)
	if err != nil {
		return true, fmt.Errorf("%s: %w", what, firstError(err))
	}
	d := &r.file.Devices
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		d.Claims = append(d.Claims, o)
	case *resourcev1.ResourceClaimTemplate:
		d.Templates = append(d.Templates, o)
	case *resourcev1.DeviceClass:
		d.Classes = append(d.Classes, o)
	}
	return true, nil
}

// ReadDevices returns the objects of DRA in a file. A file that Read refuses has none.
func ReadDevices(data []byte) Devices {
	if len(data) > MaxBytes {
		return Devices{}
	}
	r := reader{decoder: newDecoder(), bytes: len(data)}
	if err := Documents(data, func(where string, text []byte) error {
		return r.object(where, text, schema.GroupVersionKind{}, 0)
	}); err != nil {
		return Devices{}
	}
	return r.file.Devices
}
