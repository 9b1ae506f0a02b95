package claims

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// This file has the attributes from which the NUMA node of a device follows.

// The domain of the standard attributes, and the attribute with the address of a device's PCI function; see package
// deviceattribute of k8s.io/dynamic-resource-allocation.
const (
	standard = "resource.kubernetes.io"
	pciBusID = standard + "/pciBusID"
)

// attributes are the names of attributes with the NUMA node of a device. The first one that a device has counts.
var attributes = []string{
	standard + "/numaNode", // Kubernetes 1.37, KEP-6072: dranet, dra-driver-cpu 0.2, NVIDIA's driver 0.5
	"dra.cpu/numaNodeID",   // dra-driver-cpu until 0.1, dra-driver-memory
	"dra.net/numaNode",     // dranet, dra-driver-sriov, dra-driver-cpu for constraints with network devices
	"gpu.amd.com/numaNode", // k8s-gpu-dra-driver of ROCm
	"gpu.nvidia.com/numa",  // NVIDIA's driver, for devices of VFIO
}

// maxNUMA is the largest id of a NUMA node: Linux has at most 1,024 (MAX_NUMNODES).
const maxNUMA = 1023

// numasOf returns the NUMA nodes that the attributes of a device give, and the name of the attribute that counts. Both
// are empty if no attribute gives any. An error names the attribute whose value is none.
func numasOf(driver string, d *resourcev1.Device) (numas []int, source string, err error) {
	for _, name := range attributes {
		a, ok := attribute(driver, d, name)
		if !ok {
			continue
		}
		ids := listed(a)
		if a.IntValue != nil {
			ids = []int64{*a.IntValue}
		}
		if len(ids) == 1 && ids[0] == -1 {
			continue // /sys has -1 if the firmware gives no NUMA node; dra-driver-sriov publishes it
		}
		if len(ids) == 0 {
			return nil, "", fmt.Errorf("attribute %s of device %q is no number", name, d.Name)
		}
		for _, id := range ids {
			if id < 0 || id > maxNUMA {
				return nil, "", fmt.Errorf("attribute %s of device %q: NUMA node %d is outside 0..%d", name, d.Name, id, maxNUMA)
			}
			numas = append(numas, int(id))
		}
		return numas, name, nil
	}
	return nil, "", nil
}

// attribute returns an attribute of a device. Drivers may leave their own name out of the names of attributes.
func attribute(driver string, d *resourcev1.Device, name string) (a resourcev1.DeviceAttribute, ok bool) {
	if a, ok = d.Attributes[resourcev1.QualifiedName(name)]; ok {
		return a, true
	}
	if domain, own, _ := strings.Cut(name, "/"); domain == driver {
		a, ok = d.Attributes[resourcev1.QualifiedName(own)]
	}
	return a, ok
}

// address returns the address of a device's PCI function in lower case, or "".
func address(driver string, d *resourcev1.Device) string {
	if a, ok := attribute(driver, d, pciBusID); ok && a.StringValue != nil {
		return strings.ToLower(*a.StringValue)
	}
	return ""
}
