package exporter

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/guests/numatopo"
)

// numatopology is the resource of Volcano's objects.
var numatopology = schema.GroupVersionResource{Group: "nodeinfo.volcano.sh", Version: "v1alpha1",
	Resource: "numatopologies"}

// numatopologies writes Numatopologies.
type numatopologies struct {
	client dynamic.ResourceInterface
	last   map[string]numatopo.Spec // as written, by node
}

// write implements kind.
func (t *numatopologies) write(ctx context.Context, n *exported, f facts, m Mode) error {
	spec := n.numatopology(f)
	cpus := spec.Numares["cpu"]
	switch m {
	case Full:
		cpus.Allocatable = n.Machine.CPUs().String()
	case Empty:
		cpus.Allocatable = ""
	}
	spec.Numares["cpu"] = cpus
	if reflect.DeepEqual(spec, t.last[n.Name]) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return fmt.Errorf("write Numatopology %s: %w", n.Name, err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": numatopology.GroupVersion().String(),
		"kind": "Numatopology", "metadata": map[string]any{"name": n.Name}, "spec": fields}}
	old, err := t.client.Get(ctx, n.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = t.client.Create(ctx, o, metav1.CreateOptions{})
	case err == nil:
		o.SetResourceVersion(old.GetResourceVersion())
		_, err = t.client.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Numatopology %s: %w", n.Name, err)
	}
	t.last[n.Name] = spec
	return nil
}

// remove implements kind.
func (t *numatopologies) remove(ctx context.Context, node string) error {
	delete(t.last, node)
	if err := t.client.Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Numatopology %s: %w", node, err)
	}
	return nil
}

// numatopology returns what Volcano's resource-exporter publishes of a node with --enable-pod-resource, its default.
// A CPU that no container holds is free, also a reserved one. The reservation is an amount, as --res-reserved sets it:
// the exporter itself does not read reservedSystemCPUs. The numbers of cores are unique within a socket, as in sysfs.
func (n *exported) numatopology(f facts) numatopo.Spec {
	var held []idset.CPU
	for _, p := range f.pods {
		for _, c := range p.Containers {
			for _, id := range c.CpuIds {
				if _, ok := n.Machine.CPU(idset.CPU(id)); ok {
					held = append(held, idset.CPU(id))
				}
			}
		}
	}
	free := n.Machine.CPUs().Minus(idset.Of(held...))
	return numatopo.Spec{
		Policies: map[string]string{"CPUManagerPolicy": n.Kubelet.CPUManagerPolicy,
			"TopologyManagerPolicy": n.Kubelet.TopologyManagerPolicy},
		ResReserved: map[string]string{"cpu": reservedCPUs(n.Kubelet)},
		Numares:     map[string]numatopo.Resource{"cpu": {Allocatable: free.String(), Capacity: n.Machine.CPUs().Len()}},
		CPUDetail:   cpuDetail(n.Machine),
	}
}

// reservedCPUs returns the amount of CPUs that a kubelet reserves.
func reservedCPUs(c *configv1beta1.KubeletConfiguration) string {
	if set, err := idset.Parse[idset.CPU](c.ReservedSystemCPUs); err == nil && set.Len() > 0 {
		return strconv.Itoa(set.Len())
	}
	var sum resource.Quantity
	for _, amounts := range []map[string]string{c.KubeReserved, c.SystemReserved} {
		if q, err := resource.ParseQuantity(amounts["cpu"]); err == nil {
			sum.Add(q)
		}
	}
	return sum.String()
}

// cpuDetail returns where the CPUs are.
func cpuDetail(m *topo.Machine) map[string]numatopo.CPU {
	cores := map[int][]int{} // the cores of each socket
	for id := range m.CPUs().All() {
		c, _ := m.CPU(id)
		if socket := int(c.Socket); !slices.Contains(cores[socket], int(c.Core)) {
			cores[socket] = append(cores[socket], int(c.Core))
		}
	}
	for list := range maps.Values(cores) {
		slices.Sort(list)
	}
	out := map[string]numatopo.CPU{}
	for id := range m.CPUs().All() {
		c, _ := m.CPU(id)
		out[strconv.Itoa(int(id))] = numatopo.CPU{NUMA: int(m.NUMAs()[c.NUMA].ID), Socket: int(c.Socket),
			Core: slices.Index(cores[int(c.Socket)], int(c.Core))}
	}
	return out
}
