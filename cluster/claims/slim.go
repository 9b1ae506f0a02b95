package claims

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file removes the fields of objects that this package and its callers do not read, for programs that keep many
// objects in memory.

// SlimSlice returns a copy of a slice with only what Published reads. Of a slice that does not belong to one node, the
// devices are left out, too.
func SlimSlice(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	out := &resourcev1.ResourceSlice{ObjectMeta: slimMeta(&s.ObjectMeta)}
	out.Spec.Driver, out.Spec.Pool, out.Spec.NodeName = s.Spec.Driver, s.Spec.Pool, s.Spec.NodeName
	if s.Spec.NodeName == nil || *s.Spec.NodeName == "" {
		return out
	}
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		slim := resourcev1.Device{Name: d.Name}
		if !alone(d) {
			slim.AllowMultipleAllocations = new(true) // one of the reasons is enough
		}
		for _, name := range append([]string{pciBusID}, attributes...) {
			if a, ok := attribute(s.Spec.Driver, d, name); ok {
				if slim.Attributes == nil {
					slim.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
				}
				slim.Attributes[resourcev1.QualifiedName(name)] = a
			}
		}
		out.Spec.Devices = append(out.Spec.Devices, slim)
	}
	return out
}

// SlimClaim returns a copy of a claim with its owners, allocated devices and pods only.
func SlimClaim(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	out := &resourcev1.ResourceClaim{ObjectMeta: slimMeta(&c.ObjectMeta)}
	out.Status.ReservedFor = c.Status.ReservedFor
	if a := c.Status.Allocation; a != nil {
		out.Status.Allocation = &resourcev1.AllocationResult{}
		for _, r := range a.Devices.Results {
			out.Status.Allocation.Devices.Results = append(out.Status.Allocation.Devices.Results,
				resourcev1.DeviceRequestAllocationResult{Driver: r.Driver, Pool: r.Pool, Device: r.Device,
					AdminAccess: r.AdminAccess})
		}
	}
	return out
}

func slimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		OwnerReferences: m.OwnerReferences}
}

// NeedFunctions reports whether some device has an address and no NUMA node, so that Published needs functions.
func NeedFunctions(all []resourcev1.ResourceSlice) bool {
	for i := range all {
		s := &all[i]
		for k := range s.Spec.Devices {
			numas, _, err := numasOf(s.Spec.Driver, &s.Spec.Devices[k])
			if err == nil && numas == nil && address(s.Spec.Driver, &s.Spec.Devices[k]) != "" {
				return true
			}
		}
	}
	return false
}
