package claims

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// This file has what programs share that look for devices by kube-scheduler's allocator.

// BeyondDevices returns what a request asks for besides whole devices of its own, or "".
func BeyondDevices(r *resourcev1.DeviceRequest) string {
	part := slices.ContainsFunc(r.FirstAvailable, func(s resourcev1.DeviceSubRequest) bool { return s.Capacity != nil })
	switch {
	case part || r.Exactly != nil && r.Exactly.Capacity != nil:
		return "a part of a device (capacity)"
	case r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess:
		return "access for administrators (adminAccess)"
	}
	return ""
}

// Touch reports whether two lists of NUMA nodes have one in common.
func Touch(a, b []int) bool {
	return slices.ContainsFunc(a, func(id int) bool { return slices.Contains(b, id) })
}
