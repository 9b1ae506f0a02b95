// Package nrt publishes the NodeResourceTopology (topology.node.k8s.io/v1alpha2) of one node, for schedulers and tools
// that do not read NodeLayouts.
//
// [FromCore] is pure translation; [Publisher] writes its result to an API server. Invariant: in every zone and for
// every resource available <= allocatable <= capacity, and equal nodes give equal objects. The format cannot express
// which CPUs are free, who holds what, or what belongs together. The package refuses to invent fields for that,
// because NodeLayout has them.
package nrt

import (
	"strconv"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// FromCore returns the object of a node: a zone for every NUMA node, in ascending order of id, with the same
// resources in every zone. A zone has three amounts of each resource: capacity, allocatable and available. They are
//
//   - cpu: the CPUs of the NUMA node; without reserved CPUs; without CPUs that containers hold either;
//   - memory and hugepages-SIZE, in bytes: what the NUMA node has; what its hugepages and reservations leave
//     for Guaranteed pods; what the memory manager has free there;
//   - devices: those near the NUMA node; the healthy ones; the healthy ones that no container holds. A device near
//     several NUMA nodes counts on each of them. Devices without a NUMA node are in no zone, which readers
//     take to mean that the resource needs no alignment.
//
// Where a manager is not static, no container holds what it would assign, and all that is allocatable is available.
// If the memory manager has grouped a NUMA node with others, its free memory counts as available, though only pods
// that use the whole group get it.
//
// The fingerprint covers the pods that hold something in a zone. Its method is "with-exclusive-resources".
func FromCore(n *state.Node) *v1alpha2.NodeResourceTopology {
	t := n.Rules.Topology
	out := &v1alpha2.NodeResourceTopology{
		TypeMeta:         metav1.TypeMeta{APIVersion: v1alpha2.SchemeGroupVersion.String(), Kind: nrt.Kind},
		ObjectMeta:       metav1.ObjectMeta{Name: n.Name},
		TopologyPolicies: []string{string(nrt.FormerPolicy(t.Policy, t.Scope))},
		Attributes:       attributes(n),
	}
	free := freeDevices(n.Usage)
	for i, numa := range n.Machine.NUMAs() {
		out.Zones = append(out.Zones, v1alpha2.Zone{
			Name:      zoneName(numa.ID),
			Type:      helper.ZoneTypeNUMANode,
			Costs:     costs(n.Machine, numa),
			Resources: resources(n, i, free),
		})
	}
	return out
}

func zoneName(id idset.NUMA) string { return "node-" + strconv.Itoa(int(id)) }

func costs(m *topo.Machine, numa topo.NUMA) (out v1alpha2.CostList) {
	for i, d := range numa.Distances {
		out = append(out, v1alpha2.CostInfo{Name: zoneName(m.NUMAs()[i].ID), Value: int64(d)})
	}
	return out
}

// resources returns the resources of the NUMA node at position i. free has the free devices of each resource of the
// machine, in the order of Machine.Resources.
func resources(n *state.Node, i int, free [][]topo.Device) (out v1alpha2.ResourceInfoList) {
	u, numa := n.Usage, n.Machine.NUMAs()[i]
	out = append(out, info("cpu", resource.DecimalSI, int64(numa.CPUs.Len()),
		int64(numa.CPUs.Minus(n.Rules.CPU.Reserved).Len()), int64(numa.CPUs.AndLen(u.FreeCPUs()))))
	for _, kind := range n.Machine.Kinds() {
		capacity := numa.Capacity(kind)
		if kind == topo.Memory {
			capacity = numa.Bytes
		}
		// A memory manager that reserves more than a NUMA node has counts a huge amount as allocatable, because it
		// subtracts unsigned numbers (memorymanager/policy_static.go). No reader expects that.
		allocatable := min(u.Allocatable(i, kind), numa.Capacity(kind))
		out = append(out, info(kind, resource.BinarySI, capacity, allocatable, min(u.FreeMemory(i, kind), allocatable)))
	}
	for k, r := range n.Machine.Resources() {
		if !aligned(r) {
			continue
		}
		var capacity, healthy int64
		for _, d := range r.Devices {
			if d.NUMAs.Has(i) {
				capacity++
				if !d.Unhealthy {
					healthy++
				}
			}
		}
		out = append(out, info(r.Name, resource.DecimalSI, capacity, healthy, near(free[k], i)))
	}
	return out
}

// aligned reports whether some device of the resource is near a NUMA node.
func aligned(r topo.Resource) bool {
	for _, d := range r.Devices {
		if d.NUMAs != 0 {
			return true
		}
	}
	return false
}

// freeDevices returns the free devices of each resource of the machine.
func freeDevices(u *place.Usage) (out [][]topo.Device) {
	for _, r := range u.Machine.Resources() {
		out = append(out, u.FreeDevices(r.Name))
	}
	return out
}

// near returns how many of the devices are near the NUMA node at position i.
func near(devices []topo.Device, i int) (count int64) {
	for _, d := range devices {
		if d.NUMAs.Has(i) {
			count++
		}
	}
	return count
}

func info(name string, f resource.Format, capacity, allocatable, available int64) v1alpha2.ResourceInfo {
	return v1alpha2.ResourceInfo{
		Name:        name,
		Capacity:    *resource.NewQuantity(capacity, f),
		Allocatable: *resource.NewQuantity(allocatable, f),
		Available:   *resource.NewQuantity(available, f),
	}
}

// attributes returns the attributes in ascending order of name.
func attributes(n *state.Node) v1alpha2.AttributeList {
	t := n.Rules.Topology
	maxNUMAs := t.MaxNUMAs
	if maxNUMAs == 0 {
		maxNUMAs = nrt.DefaultMaxNUMAs
	}
	return v1alpha2.AttributeList{
		{Name: podfingerprint.Attribute, Value: Fingerprint(n)},
		{Name: podfingerprint.AttributeMethod, Value: podfingerprint.MethodWithExclusiveResources},
		{Name: nrt.AttributeMaxNUMAs, Value: strconv.Itoa(maxNUMAs)},
		{Name: nrt.AttributePolicy, Value: t.Policy.String()},
		{Name: nrt.AttributeScope, Value: t.Scope.String()},
	}
}

// Fingerprint returns the fingerprint of the node's pods that hold something. It does not depend on their order, and
// identifies pods by namespace and name alone: a pod that was deleted and created again counts as the same pod.
func Fingerprint(n *state.Node) string {
	fp := podfingerprint.NewFingerprint(len(n.Entries))
	for _, e := range n.Entries {
		if exclusive(n.Machine, e) {
			// This version of the fingerprint returns no error.
			_ = fp.Add(e.Pod.Namespace, e.Pod.Name)
		}
	}
	return fp.Sign()
}

// exclusive reports whether fingerprints of method "with-exclusive-resources" contain the pod. Readers compute the same
// from the pod's spec and the zones. For them, holdings of ordinary init containers do not count, nor do devices that
// are in no zone (scheduler-plugins, resourcerequests.AreExclusiveForPod).
func exclusive(m *topo.Machine, e state.Entry) bool {
	for _, h := range e.Holdings {
		if h.Kind == place.Init {
			continue
		}
		if !h.CPUs.Empty() || len(h.Memory) > 0 {
			return true
		}
		for _, d := range h.Devices {
			if r, ok := m.Resource(d.Resource); ok && aligned(r) {
				return true
			}
		}
	}
	return false
}
