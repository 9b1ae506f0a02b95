// Package nrt speaks NodeResourceTopology (topology.node.k8s.io/v1alpha2), the format in which schedulers
// and tools tell each other what a node has on each numa.
//
// Out: [FromCore] is pure translation; [Client] and [Publisher] bring its result to an API server. In:
// [Read] takes apart what this or another producer wrote, of which [Typed] makes values; whom the amounts
// account for is found by [Reading.Counted]. Invariant: in every zone and for every resource
// available <= allocatable <= capacity, equal nodes give equal objects, and an object that was written
// here, read, and written again has the same zones. The format cannot say which CPUs are free, who holds
// what, or what belongs together; the package refuses to invent fields for it, because NodeLayout has
// them, and refuses objects whose zones it cannot take for numas.
package nrt

import (
	"strconv"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Kind is the kind of the objects.
const Kind = "NodeResourceTopology"

// Names of attributes that readers look for, beside those of package podfingerprint. They are agreed
// between producers and the scheduler plugin NodeResourceTopologyMatch, not part of the API's module.
const (
	attributePolicy   = "topologyManagerPolicy"
	attributeScope    = "topologyManagerScope"
	attributeMaxNUMAs = "topologyManagerMaxNUMANodes"
)

// defaultMaxNUMAs is the kubelet's limit where max-allowable-numa-nodes is not set.
const defaultMaxNUMAs = 8

// FromCore writes the state of a node as an object: a zone for every numa, in ascending order of id,
// with the same resources in every zone. The amounts of a zone are
//
//   - cpu: the CPUs of the numa; those that are not reserved; those that nobody holds either;
//   - memory and hugepages-SIZE, in bytes: what the numa has; what its hugepages and reservations leave
//     for Guaranteed pods; what the memory manager has free there;
//   - devices: those near the numa; the healthy ones; the healthy ones that nobody holds. A device that
//     is near several numas counts on each of them. Devices without a numa are in no zone, which readers
//     take to mean that the resource needs no alignment.
//
// Where a manager is not static, nothing is held of what it would hand out, and all that is allocatable
// is available. Memory of a numa that belongs to a group of several counts as the memory manager counts
// it on that numa, though it serves only pods that use the whole group.
//
// The fingerprint is of the pods that hold something in a zone, method "with-exclusive-resources".
func FromCore(n *ledger.Node) *v1alpha2.NodeResourceTopology {
	t := n.Rules.Topology
	out := &v1alpha2.NodeResourceTopology{
		TypeMeta:         metav1.TypeMeta{APIVersion: v1alpha2.SchemeGroupVersion.String(), Kind: Kind},
		ObjectMeta:       metav1.ObjectMeta{Name: n.Name},
		TopologyPolicies: []string{string(formerPolicy(t.Policy, t.Scope))},
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

// resources are those of the numa at position i.
func resources(n *ledger.Node, i int, free [][]topo.Device) (out v1alpha2.ResourceInfoList) {
	u, numa := n.Usage, n.Machine.NUMAs()[i]
	out = append(out, info("cpu", resource.DecimalSI, int64(numa.CPUs.Len()),
		int64(numa.CPUs.Minus(n.Rules.CPU.Reserved).Len()), int64(numa.CPUs.AndLen(u.FreeCPUs()))))
	for _, kind := range n.Machine.Kinds() {
		capacity := numa.Capacity(kind)
		if kind == topo.Memory {
			capacity = numa.Bytes
		}
		// A memory manager that reserves more than a NUMA node has counts an immense amount as allocatable, since it
		// subtracts without a sign (memorymanager/policy_static.go). No reader could make sense of that.
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

// aligned reports whether some device of the resource is near a numa.
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

// attributes are in ascending order of name.
func attributes(n *ledger.Node) v1alpha2.AttributeList {
	t := n.Rules.Topology
	most := t.MaxNUMAs
	if most == 0 {
		most = defaultMaxNUMAs
	}
	return v1alpha2.AttributeList{
		{Name: podfingerprint.Attribute, Value: Fingerprint(n)},
		{Name: podfingerprint.AttributeMethod, Value: podfingerprint.MethodWithExclusiveResources},
		{Name: attributeMaxNUMAs, Value: strconv.Itoa(most)},
		{Name: attributePolicy, Value: t.Policy.String()},
		{Name: attributeScope, Value: t.Scope.String()},
	}
}

// Fingerprint returns the fingerprint of the node's pods that hold something, in whatever order they
// are. It knows pods by namespace and name alone: a pod that was made anew under the same name is the
// same to it.
func Fingerprint(n *ledger.Node) string {
	fp := podfingerprint.NewFingerprint(len(n.Entries))
	for _, e := range n.Entries {
		if Exclusive(n.Machine, e) {
			// The error is there for other versions; this one has none to give.
			_ = fp.Add(e.Pod.Namespace, e.Pod.Name)
		}
	}
	return fp.Sign()
}

// Exclusive reports whether a pod is in fingerprints of method "with-exclusive-resources": readers who
// know the pod's spec and the zones expect it there. What ordinary init containers hold does not count
// for them, nor do devices that are in no zone (scheduler-plugins, resourcerequests.AreExclusiveForPod).
func Exclusive(m *topo.Machine, e ledger.Entry) bool {
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

// formerPolicy is what readers of the deprecated field topologyPolicies expect.
func formerPolicy(p place.Policy, s place.Scope) v1alpha2.TopologyManagerPolicy {
	byScope := map[place.Policy][2]v1alpha2.TopologyManagerPolicy{
		place.BestEffort: {v1alpha2.BestEffortContainerLevel, v1alpha2.BestEffortPodLevel},
		place.Restricted: {v1alpha2.RestrictedContainerLevel, v1alpha2.RestrictedPodLevel},
		place.SingleNUMA: {v1alpha2.SingleNUMANodeContainerLevel, v1alpha2.SingleNUMANodePodLevel},
	}
	names, ok := byScope[p]
	if !ok {
		return v1alpha2.None
	}
	return names[s]
}
