// Package claims translates what dynamic resource allocation (DRA) stores: ResourceSlices into the devices of nodes
// with their NUMA nodes, and ResourceClaims into the devices that pods hold.
//
// Invariant: a device is on a NUMA node only if an attribute of the device names it, or if the agent of the node found
// the PCI function at the device's address there. All other devices are at an unknown place. A slice with a fault
// harms the devices that it describes, and no other slice. The package allocates nothing: kube-scheduler's plugin
// DynamicResources decides which devices a claim gets.
package claims

import (
	"cmp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// ID names a device of the cluster.
type ID struct{ Driver, Pool, Name string }

// String returns driver/pool/device, as Kubernetes writes it.
func (id ID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Name }

// Compare orders devices by driver, pool and name.
func (id ID) Compare(o ID) int {
	return cmp.Or(strings.Compare(id.Driver, o.Driver), strings.Compare(id.Pool, o.Pool), strings.Compare(id.Name, o.Name))
}

// Device is a device of a node.
type Device struct {
	ID
	// NUMAs are the kernel's ids of NUMA nodes. The device is on the first one; the others are as near (KEP-6072). Nil:
	// unknown.
	NUMAs []int
	// Source is the attribute that gave NUMAs, or "".
	Source string
	// Alone: no other device or claim takes a part of it, and no taint keeps claims away. Of other devices it is not known
	// whether they are free.
	Alone bool
}

// Near returns the NUMA nodes of a machine that the device is on, or as near to. NUMA nodes that the machine lacks are
// left out.
func (d Device) Near(m *topo.Machine) (out topo.Mask) {
	for _, id := range d.NUMAs {
		if at, ok := m.Position(idset.NUMA(id)); ok {
			out |= topo.Mask(1) << uint(at)
		}
	}
	return out
}

// Node is the devices that drivers publish for one node.
type Node struct {
	Devices []Device // ascending by ID
	// Problems are faults of slices, each a sentence that names the driver and the pool; ascending.
	Problems []string
}

// Held is a claim that holds devices.
type Held struct {
	Namespace, Name string
	Owners          []metav1.OwnerReference
	// Pods are the UIDs of the pods that may use the claim, in the order of the claim's status. Whoever may write the
	// status wrote them, so a reader has to ask UsedBy, too.
	Pods []string
	// Devices are in the order of the allocation. Devices with admin access are left out: others may hold them, too.
	Devices []ID
}

// Allocated returns the claims that hold devices, in the order of the argument.
func Allocated(all []resourcev1.ResourceClaim) (out []Held) {
	for i := range all {
		c := &all[i]
		if c.Status.Allocation == nil {
			continue
		}
		h := Held{Namespace: c.Namespace, Name: c.Name, Owners: c.OwnerReferences, Devices: DevicesOf(c.Status.Allocation)}
		for _, r := range c.Status.ReservedFor {
			if r.APIGroup == "" && r.Resource == "pods" {
				h.Pods = append(h.Pods, string(r.UID))
			}
		}
		if len(h.Devices) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// DeviceOf returns the device of a result of an allocation.
func DeviceOf(r *resourcev1.DeviceRequestAllocationResult) ID { return ID{r.Driver, r.Pool, r.Device} }

// DevicesOf returns the devices of an allocation in its order, without devices with admin access, which others may
// hold, too. It returns nil for nil.
func DevicesOf(a *resourcev1.AllocationResult) (out []ID) {
	if a == nil {
		return nil
	}
	for i := range a.Devices.Results {
		if r := &a.Devices.Results[i]; r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, DeviceOf(r))
		}
	}
	return out
}
