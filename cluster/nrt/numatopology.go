package nrt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads Numatopology. It converts the object to the zones of a NodeResourceTopology, because both have the
// same data: how many CPUs of each NUMA node are free, and not which pod holds them. A Numatopology has CPU ids, no
// memory, and neither the scope of the topology manager nor options of the managers.

// Numatopology is the kind that Volcano's resource-exporter writes.
const Numatopology = "Numatopology"

// Numatopologies is the resource of Numatopologies.
func Numatopologies() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "nodeinfo.volcano.sh", Version: "v1alpha1", Resource: "numatopologies"}
}

// annotationOmitted is where TypedNumatopology stores, for Read, a resource that it cannot convert and the reason,
// separated by a space.
const annotationOmitted = "tenon.sh/omitted"

// KindOf returns the kind of the object that o was read from: NodeResourceTopology or Numatopology.
func KindOf(o *v1alpha2.NodeResourceTopology) string {
	if o.Kind == Numatopology {
		return Numatopology
	}
	return nrt.Kind
}

// numatopology has the fields of Volcano's NumatopoSpec that are read here, and gpuDetail, which later versions have.
type numatopology struct {
	Policies    map[string]string `json:"policies"`
	ResReserved map[string]string `json:"resReserved"`
	Numares     map[string]struct {
		Allocatable string `json:"allocatable"`
	} `json:"numares"`
	CPUDetail map[string]struct {
		NUMA   int `json:"numa"`
		Socket int `json:"socket"`
		Core   int `json:"core"`
	} `json:"cpuDetail"`
	GPUDetail map[string]struct {
		NUMA *int `json:"numa"`
	} `json:"gpuDetail"`
}

// TypedNumatopology converts a Numatopology of a dynamic informer to the form that [Read] reads. Like [Typed], it has
// the form of an informer's transform, and converts an object that cannot be read to one for which Read returns the
// error.
func TypedNumatopology(obj any) (any, error) {
	if o, ok := obj.(*v1alpha2.NodeResourceTopology); ok {
		return o, nil
	}
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("decode Numatopology: unexpected type %T", obj)
	}
	out := bare(o)
	out.TypeMeta = metav1.TypeMeta{Kind: Numatopology}
	if err := convert(o, out); err != nil {
		out.Zones, out.Attributes = nil, nil
		out.Annotations = map[string]string{annotationMalformed: clipTo(maxMalformed, err.Error())}
	}
	return out, nil
}

// convert sets the zones, attributes and annotations of out from a Numatopology. If the CPU manager is not static,
// the zones have no allocatable CPUs.
func convert(o *unstructured.Unstructured, out *v1alpha2.NodeResourceTopology) error {
	var in struct {
		Spec numatopology `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(
		map[string]any{"spec": o.Object["spec"]}, &in); err != nil {
		return err
	}
	if in.Spec.CPUDetail == nil {
		return fmt.Errorf("cpuDetail is missing")
	}
	m, err := in.Spec.machine()
	if err != nil {
		return err
	}
	if policy := in.Spec.Policies["TopologyManagerPolicy"]; policy != "" {
		out.Attributes = v1alpha2.AttributeList{{Name: nrt.AttributePolicy, Value: policy}}
	}
	reserved, free, err := in.Spec.cpus(m)
	if err != nil {
		return err
	}
	gpus, omitted, why := in.Spec.devices(m)
	if topo.IsName(omitted) {
		out.Annotations = map[string]string{annotationOmitted: omitted + " " + why}
	}
	static := in.Spec.Policies["CPUManagerPolicy"] == "static"
	for i, numa := range m.NUMAs() {
		all := numa.CPUs.Len()
		list := v1alpha2.ResourceInfoList{info(cpu, all, 0, 0)}
		if static {
			list[0] = info(cpu, all, all-numa.CPUs.AndLen(reserved), numa.CPUs.AndLen(free))
		}
		out.Zones = append(out.Zones, v1alpha2.Zone{Name: fmt.Sprintf("node-%d", numa.ID),
			Type: helper.ZoneTypeNUMANode, Resources: append(list, gpus[i]...)})
	}
	return nil
}

func info(name string, capacity, allocatable, available int) v1alpha2.ResourceInfo {
	quantity := func(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
	return v1alpha2.ResourceInfo{Name: name, Capacity: quantity(capacity), Allocatable: quantity(allocatable),
		Available: quantity(available)}
}

// machine returns a machine with the CPUs of cpuDetail. A core is identified by its number together with NUMA node
// and socket, because numbers of cores repeat on each socket.
func (s *numatopology) machine() (*topo.Machine, error) {
	if n := len(s.CPUDetail); n > topo.MaxCPUs {
		return nil, fmt.Errorf("cpuDetail has %d CPUs, the most is %d", n, topo.MaxCPUs)
	}
	type core struct{ numa, socket, core int }
	cores, numas := map[core][]idset.CPU{}, map[int]bool{}
	for _, text := range slices.Sorted(maps.Keys(s.CPUDetail)) {
		at := s.CPUDetail[text]
		id, err := strconv.Atoi(text)
		if err != nil || !idset.Valid(id) {
			return nil, fmt.Errorf("cpuDetail: %q is not a CPU in 0..%d", clip(text), idset.Max)
		}
		if !idset.Valid(at.NUMA) || !idset.Valid(at.Socket) {
			return nil, fmt.Errorf("cpuDetail: CPU %d: NUMA node %d and socket %d must be in 0..%d", id, at.NUMA,
				at.Socket, idset.Max)
		}
		key := core{at.NUMA, at.Socket, at.Core}
		cores[key], numas[at.NUMA] = append(cores[key], idset.CPU(id)), true
	}
	if len(numas) > topo.MaxNUMAs {
		return nil, fmt.Errorf("cpuDetail has %d NUMA nodes, the most is %d", len(numas), topo.MaxNUMAs)
	}
	var spec topo.Spec
	for _, id := range slices.Sorted(maps.Keys(numas)) {
		spec.NUMAs = append(spec.NUMAs, topo.NUMA{ID: idset.NUMA(id)})
	}
	for key, ids := range cores {
		spec.Cores = append(spec.Cores, topo.CoreSpec{NUMA: idset.NUMA(key.numa), Socket: idset.Socket(key.socket),
			CPUs: idset.Of(ids...), L3: key.numa})
	}
	slices.SortFunc(spec.Cores, func(a, b topo.CoreSpec) int { return int(a.CPUs.Min()) - int(b.CPUs.Min()) })
	m, err := topo.New(spec)
	if err != nil {
		return nil, fmt.Errorf("cpuDetail: %w", err)
	}
	return m, nil
}

// cpus returns the reserved CPUs and the free ones; both are empty if the CPU manager is not static. The exporter
// writes how many CPUs are reserved, and lists these as free, too. As in a kubelet without a list of reserved CPUs,
// the number determines which CPUs are reserved.
func (s *numatopology) cpus(m *topo.Machine) (reserved, free idset.Set[idset.CPU], err error) {
	if s.Policies["CPUManagerPolicy"] != "static" {
		return reserved, free, nil
	}
	if free, err = idset.Parse[idset.CPU](strings.TrimSpace(s.Numares[cpu].Allocatable)); err != nil {
		return reserved, free, fmt.Errorf("numares: cpu: allocatable: %w", err)
	}
	if text := s.ResReserved[cpu]; text != "" {
		if !decodable(text) {
			return reserved, free, fmt.Errorf("resReserved: cpu: %q is no amount", clip(text))
		}
		q, err := resource.ParseQuantity(text)
		n, ok := whole(q)
		if err != nil || !ok || n < 0 || n > topo.MaxCPUs {
			return reserved, free, fmt.Errorf("resReserved: cpu: %q is not an amount in 0..%d", clip(text),
				topo.MaxCPUs)
		}
		if q.Cmp(*resource.NewQuantity(n, resource.DecimalSI)) > 0 {
			n++ // the kubelet reserves whole CPUs
		}
		if reserved, err = (place.Rules{}).Reserve(m, int(n)); err != nil {
			return reserved, free, fmt.Errorf("resReserved: %w", err)
		}
	}
	return reserved, free.And(m.CPUs()).Minus(reserved), nil
}

// devices returns the devices of gpuDetail by position of the NUMA node, if exactly one resource in numares has a
// name of the form that device plugins use (with a slash). A device whose NUMA node is missing, or not in the
// machine, counts on no NUMA node: a missing number does not mean NUMA node 0. If the devices cannot be counted,
// devices returns the resource and why, in ASCII.
func (s *numatopology) devices(m *topo.Machine) (out []v1alpha2.ResourceInfoList, omitted, why string) {
	out = make([]v1alpha2.ResourceInfoList, len(m.NUMAs()))
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Numares)), func(name string) bool {
		return !strings.Contains(name, "/")
	})
	if len(names) != 1 || len(s.GPUDetail) == 0 {
		return out, "", ""
	}
	name := names[0]
	if n := len(s.GPUDetail); n > topo.MaxDevices {
		return out, name, fmt.Sprintf("gpuDetail has %d devices, the most is %d", n, topo.MaxDevices)
	}
	free, err := idset.Parse[idset.CPU](s.Numares[name].Allocatable)
	if err != nil {
		return out, name, fmt.Sprintf("numares: allocatable %+q is no list of ids", clip(s.Numares[name].Allocatable))
	}
	all, available := make([]int, len(out)), make([]int, len(out))
	for _, text := range slices.Sorted(maps.Keys(s.GPUDetail)) {
		id, err := strconv.Atoi(text)
		if err != nil || !idset.Valid(id) {
			return out, name, fmt.Sprintf("gpuDetail: %+q is not the number of a device in 0..%d", clip(text), idset.Max)
		}
		numa := s.GPUDetail[text].NUMA
		if numa == nil || !idset.Valid(*numa) {
			continue
		}
		at, ok := m.Position(idset.NUMA(*numa))
		if !ok {
			continue
		}
		all[at]++
		if free.Has(idset.CPU(id)) {
			available[at]++
		}
	}
	for i := range out {
		out[i] = v1alpha2.ResourceInfoList{info(name, all[i], all[i], available[i])}
	}
	return out, "", ""
}

// ListNumatopologies returns all Numatopologies of the API server, decoded as by [TypedNumatopology]. It returns none
// if the API server does not serve the kind.
func ListNumatopologies(ctx context.Context, cfg *rest.Config) (out []*v1alpha2.NodeResourceTopology, err error) {
	all, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client for Numatopologies: %w", err)
	}
	list, err := all.Resource(Numatopologies()).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list Numatopologies: %w", err)
	}
	for i := range list.Items {
		o, err := TypedNumatopology(&list.Items[i])
		if err != nil {
			return nil, err
		}
		if typed, ok := o.(*v1alpha2.NodeResourceTopology); ok {
			out = append(out, typed)
		}
	}
	return out, nil
}
