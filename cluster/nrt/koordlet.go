package nrt

import (
	"encoding/json"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads which pods hold CPUs from a koordlet's object. Its zones do not show it: all allocatable CPUs are
// available there, or even more if an administrator configures amplification. The koordlet writes into annotations, as
// JSON, the CPUs that a kubelet's static CPU manager has given to pods, the reserved CPUs, and the NUMA node of each
// CPU.

const (
	annotationCPUTopology = "node.koordinator.sh/cpu-topology"
	annotationPodCPUs     = "node.koordinator.sh/pod-cpu-allocs"
	// annotationHeld is a summary of these two annotations, which are large. Typed keeps only the summary.
	annotationHeld = "tenon.sh/held"
	// maxKoordlet bounds an annotation, in bytes. The larger annotation has some 50 bytes for each CPU.
	maxKoordlet = 64 * topo.MaxCPUs
)

// koordlet is how many CPUs of a node are held, and by which pods.
type koordlet struct {
	// CPUs counts all CPUs by NUMA node. Reserved and Held count the reserved and the held ones among them.
	CPUs     map[idset.NUMA]int64 `json:"cpus,omitempty"`
	Reserved map[idset.NUMA]int64 `json:"reserved,omitempty"`
	Held     map[idset.NUMA]int64 `json:"held,omitempty"`
	// Pods are the UIDs of the pods that hold CPUs.
	Pods []string `json:"pods,omitempty"`
	// Fault is why the holdings are unknown.
	Fault string `json:"fault,omitempty"`
}

// managerPolicy is the koordlet's annotation about the kubelet's CPU manager.
type managerPolicy struct {
	Policy   string `json:"policy"`
	Reserved string `json:"reservedCPUs"`
}

// condense returns the value of annotationHeld: the part of a koordlet's annotations that is used here. If they
// cannot be read, the value has the reason.
func condense(o *v1alpha2.NodeResourceTopology) string {
	k, err := readKoordlet(o.Annotations)
	if err != nil {
		k = koordlet{Fault: clipTo(maxMalformed, err.Error())}
	}
	out, err := json.Marshal(k)
	if err != nil {
		return "" // does not happen: k has only numbers and short texts
	}
	return string(out)
}

// readKoordlet counts CPUs by NUMA node from a koordlet's annotations. A missing annotation counts as empty; the one
// about pods is missing if no pod holds CPUs.
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
	countCPUs := func(list string, byNUMA map[idset.NUMA]int64) error {
		set, err := idset.Parse[idset.CPU](list)
		if err != nil {
			return err
		}
		for id := range set.All() {
			at, ok := numa[id]
			if !ok {
				return fmt.Errorf("CPU %d is in no NUMA node of %s", id, annotationCPUTopology)
			}
			byNUMA[at]++
		}
		return nil
	}
	if err := countCPUs(manager.Reserved, k.Reserved); err != nil {
		return k, fmt.Errorf("annotation %s: %w", annotationCPUManager, err)
	}
	for _, a := range allocs {
		if err := countCPUs(a.CPUSet, k.Held); err != nil {
			return k, fmt.Errorf("annotation %s: pod %s: %w", annotationPodCPUs, clip(a.UID), err)
		}
		k.Pods = append(k.Pods, clip(a.UID))
	}
	return k, nil
}

// koordletHeld applies a koordlet's CPU counts to the zones, and returns the pods that hold CPUs. The error means
// that it is unknown which CPUs are free.
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
			a.capacity = min(a.capacity, all) // a koordlet that amplifies CPUs lists more
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
