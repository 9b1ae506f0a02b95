package nrt

import (
	"encoding/json"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads who holds CPUs where a koordlet reports. Its zones do not say it: all that there is, by an
// administrator's choice even more, is available. The koordlet writes the CPUs of pods that a kubelet's static
// CPU manager has, those that are reserved, and which CPU is on which NUMA node, into annotations, as JSON.

const (
	annotationCPUTopology = "node.koordinator.sh/cpu-topology"
	annotationPodCPUs     = "node.koordinator.sh/pod-cpu-allocs"
	// annotationHeld is what Typed keeps of the two, which are large.
	annotationHeld = "tenon.sh/held"
	// maxKoordlet bounds an annotation, in bytes: a CPU takes some 50 in the larger one.
	maxKoordlet = 64 * topo.MaxCPUs
)

// koordlet is who holds how many CPUs of a node.
type koordlet struct {
	// CPUs are all, reserved and held ones by NUMA node.
	CPUs     map[idset.NUMA]int64 `json:"cpus,omitempty"`
	Reserved map[idset.NUMA]int64 `json:"reserved,omitempty"`
	Held     map[idset.NUMA]int64 `json:"held,omitempty"`
	// Pods are the UIDs of pods that hold them, by whatever containers.
	Pods []string `json:"pods,omitempty"`
	// Fault is why that is unknown.
	Fault string `json:"fault,omitempty"`
}

// managerPolicy is what the koordlet says of the kubelet's CPU manager.
type managerPolicy struct {
	Policy   string `json:"policy"`
	Reserved string `json:"reservedCPUs"`
}

// condense returns what a koordlet's annotations tell, as the value of annotationHeld.
func condense(o *v1alpha2.NodeResourceTopology) string {
	k, err := readKoordlet(o.Annotations)
	if err != nil {
		k = koordlet{Fault: clipTo(maxMalformed, err.Error())}
	}
	out, err := json.Marshal(k)
	if err != nil {
		return "" // it is made of numbers and short texts
	}
	return string(out)
}

// readKoordlet counts CPUs. Where no pod has any, there may be no annotation of pods.
func readKoordlet(annotations map[string]string) (k koordlet, err error) {
	var cpus struct {
		Detail []struct {
			ID   int `json:"id"`
			Node int `json:"node"`
		} `json:"detail"`
	}
	var allocs []struct {
		UID    string `json:"uid"`
		CPUSet string `json:"cpuset"`
	}
	var manager managerPolicy
	for _, a := range []struct {
		name string
		to   any
	}{{annotationCPUTopology, &cpus}, {annotationPodCPUs, &allocs}, {annotationCPUManager, &manager}} {
		text := annotations[a.name]
		if len(text) > maxKoordlet {
			return k, fmt.Errorf("annotation %s: more than %d bytes", a.name, maxKoordlet)
		}
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), a.to); err != nil {
			return k, fmt.Errorf("annotation %s: %w", a.name, err)
		}
	}
	k = koordlet{CPUs: map[idset.NUMA]int64{}, Reserved: map[idset.NUMA]int64{}, Held: map[idset.NUMA]int64{}}
	numa := map[idset.CPU]idset.NUMA{}
	for _, c := range cpus.Detail {
		if !idset.Valid(c.ID) || !idset.Valid(c.Node) {
			return k, fmt.Errorf("annotation %s: CPU %d on NUMA node %d: want 0..%d", annotationCPUTopology, c.ID, c.Node,
				idset.Max)
		}
		numa[idset.CPU(c.ID)] = idset.NUMA(c.Node)
		k.CPUs[idset.NUMA(c.Node)]++
	}
	count := func(list string, by map[idset.NUMA]int64) error {
		set, err := idset.Parse[idset.CPU](list)
		if err != nil {
			return err
		}
		for id := range set.All() {
			at, ok := numa[id]
			if !ok {
				return fmt.Errorf("CPU %d is in no NUMA node of %s", id, annotationCPUTopology)
			}
			by[at]++
		}
		return nil
	}
	if err := count(manager.Reserved, k.Reserved); err != nil {
		return k, fmt.Errorf("annotation %s: %w", annotationCPUManager, err)
	}
	for _, a := range allocs {
		if err := count(a.CPUSet, k.Held); err != nil {
			return k, fmt.Errorf("annotation %s: pod %s: %w", annotationPodCPUs, clip(a.UID), err)
		}
		k.Pods = append(k.Pods, clip(a.UID))
	}
	return k, nil
}

// koordletHeld takes what a koordlet says of CPUs into the zones, and returns the pods that hold some. An
// error is one that leaves open what is free.
func koordletHeld(o *v1alpha2.NodeResourceTopology, zones []zone) (pods map[string]bool, err error) {
	text := o.Annotations[annotationHeld]
	if text == "" {
		text = condense(o)
	}
	var k koordlet
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotationHeld, err)
	}
	if k.Fault != "" {
		return nil, fmt.Errorf("the pods that hold CPUs are unknown: %s", k.Fault)
	}
	for i, z := range zones {
		a := z.amounts[cpu]
		if all, ok := k.CPUs[z.id]; ok {
			a.capacity = min(a.capacity, all) // more is promised where CPUs are amplified
		}
		a.allocatable = max(0, min(a.allocatable, a.capacity-k.Reserved[z.id]))
		a.available = max(0, min(a.available, a.allocatable-k.Held[z.id]))
		zones[i].amounts[cpu] = a
	}
	pods = map[string]bool{}
	for _, uid := range k.Pods {
		pods[uid] = true
	}
	return pods, nil
}
