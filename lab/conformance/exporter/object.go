package exporter

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strconv"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// amount is an amount of a resource on one NUMA node.
type amount struct{ capacity, allocatable, used int64 }

// zones are the amounts by position of the NUMA node and resource.
type zones []map[string]*amount

func (z zones) at(i int, resource string) *amount {
	if z[i][resource] == nil {
		z[i][resource] = &amount{}
	}
	return z[i][resource]
}

// topologies writes NodeResourceTopologies.
type topologies struct {
	client *nrt.Client
	last   map[string]*v1alpha2.NodeResourceTopology // as written, by node
}

// write implements kind.
func (t *topologies) write(ctx context.Context, n *exported, f facts, m Mode) error {
	o := n.object(f)
	for i := range o.Zones {
		for k := range o.Zones[i].Resources {
			r := &o.Zones[i].Resources[k]
			switch m {
			case Full:
				r.Available = r.Allocatable.DeepCopy()
			case Empty:
				r.Available.Set(0)
			}
		}
	}
	if reflect.DeepEqual(o, t.last[n.Name]) {
		return nil
	}
	old, err := t.client.Get(ctx, o.Name, metav1.GetOptions{})
	switch sent := o.DeepCopy(); {
	case apierrors.IsNotFound(err):
		_, err = t.client.Create(ctx, sent, metav1.CreateOptions{})
	case err == nil:
		sent.ResourceVersion = old.ResourceVersion
		_, err = t.client.Update(ctx, sent, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write NodeResourceTopology %s: %w", o.Name, err)
	}
	t.last[n.Name] = o
	return nil
}

// remove implements kind.
func (t *topologies) remove(ctx context.Context, node string) error {
	delete(t.last, node)
	if err := t.client.Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete NodeResourceTopology %s: %w", node, err)
	}
	return nil
}

// object returns the NodeResourceTopology of a node: a zone for each NUMA node, in ascending order of id.
func (n *exported) object(f facts) *v1alpha2.NodeResourceTopology {
	z := n.zones(f.all)
	sum := podfingerprint.NewFingerprint(len(f.pods))
	for _, p := range f.pods {
		_ = sum.Add(p.Namespace, p.Name) // this version of the fingerprint returns no error
		for _, c := range p.Containers {
			n.use(z, c)
		}
	}
	out := &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Attributes: v1alpha2.AttributeList{
			{Name: nrt.AttributePolicy, Value: cmp.Or(n.Kubelet.TopologyManagerPolicy, "none")},
			{Name: nrt.AttributeScope, Value: cmp.Or(n.Kubelet.TopologyManagerScope, "container")},
			{Name: podfingerprint.Attribute, Value: sum.Sign()},
			{Name: podfingerprint.AttributeMethod, Value: podfingerprint.MethodAll},
		}}
	for i, numa := range n.Machine.NUMAs() {
		zone := v1alpha2.Zone{Name: zoneName(numa.ID), Type: helper.ZoneTypeNUMANode}
		for k, d := range numa.Distances {
			zone.Costs = append(zone.Costs, v1alpha2.CostInfo{Name: zoneName(n.Machine.NUMAs()[k].ID), Value: int64(d)})
		}
		for _, name := range n.resources() {
			a := z.at(i, name)
			zone.Resources = append(zone.Resources, v1alpha2.ResourceInfo{Name: name, Capacity: quantity(a.capacity),
				Allocatable: quantity(a.allocatable), Available: quantity(max(0, a.allocatable-a.used))})
		}
		out.Zones = append(out.Zones, zone)
	}
	return out
}

func zoneName(id idset.NUMA) string { return "node-" + strconv.Itoa(int(id)) }

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// resources returns the names of all resources of zones: CPUs, memory, hugepages, and devices that have NUMA nodes.
func (n *exported) resources() []string {
	out := append([]string{"cpu"}, n.Machine.Kinds()...)
	for _, r := range n.Machine.Resources() {
		for _, d := range r.Devices {
			if d.NUMAs != 0 {
				out = append(out, r.Name)
				break
			}
		}
	}
	return out
}

// zones returns the amounts of a node without pods. If the kubelet reports no memory, its memory manager is off, and
// all memory is allocatable.
func (n *exported) zones(all *podresources.AllocatableResourcesResponse) zones {
	z := make(zones, len(n.Machine.NUMAs()))
	for i, numa := range n.Machine.NUMAs() {
		z[i] = map[string]*amount{"cpu": {capacity: int64(numa.CPUs.Len())}}
		for _, kind := range n.Machine.Kinds() {
			a := z.at(i, kind)
			a.capacity = numa.Capacity(kind)
			if len(all.Memory) == 0 {
				a.allocatable = a.capacity
			}
		}
	}
	for _, id := range all.CpuIds {
		if c, ok := n.Machine.CPU(idset.CPU(id)); ok {
			z.at(c.NUMA, "cpu").allocatable++
		}
	}
	for _, m := range all.Memory {
		for _, i := range n.positions(m.Topology) {
			z.at(i, m.MemoryType).allocatable += int64(m.Size)
		}
	}
	for _, d := range all.Devices {
		for _, i := range n.positions(d.Topology) {
			a := z.at(i, d.ResourceName)
			a.capacity += int64(len(d.DeviceIds))
			a.allocatable += int64(len(d.DeviceIds))
		}
	}
	return z
}

// use counts what a container holds. Memory on several NUMA nodes is counted on the first ones that have room.
func (n *exported) use(z zones, c *podresources.ContainerResources) {
	for _, id := range c.CpuIds {
		if cpu, ok := n.Machine.CPU(idset.CPU(id)); ok {
			z.at(cpu.NUMA, "cpu").used++
		}
	}
	for _, m := range c.Memory {
		rest := int64(m.Size)
		for _, i := range n.positions(m.Topology) {
			a := z.at(i, m.MemoryType)
			part := min(rest, max(0, a.allocatable-a.used))
			a.used += part
			rest -= part
		}
	}
	for _, d := range c.Devices {
		for _, i := range n.positions(d.Topology) {
			z.at(i, d.ResourceName).used += int64(len(d.DeviceIds))
		}
	}
}

// positions returns the positions of NUMA nodes on the machine. It omits NUMA nodes that the machine does not have.
func (n *exported) positions(t *podresources.TopologyInfo) []int {
	var mask topo.Mask
	for _, node := range t.GetNodes() {
		if m, err := n.Machine.MaskOf(idset.NUMA(node.ID)); err == nil {
			mask |= m
		}
	}
	return mask.Positions()
}
