package place_test

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// A machine with two NUMA nodes, each with eight CPUs, 32 GiB and two GPUs. Its kubelet aligns every container to one
// NUMA node and keeps the first CPU of each NUMA node for the system.
func exampleNode() *place.Usage {
	m, err := topo.ParseMachine(`
		numa 0 cpus 0-7 memory 32Gi
		numa 1 cpus 8-15 memory 32Gi
		device acme.com/gpu gpu0,gpu1 numa 0
		device acme.com/gpu gpu2,gpu3 numa 1
	`)
	if err != nil {
		panic(err)
	}
	return place.NewUsage(m, place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)},
	})
}

func examplePod(cpus, gpus int64) *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{
		Name: "main", MilliCPU: cpus * 1000, Devices: []place.Count{{Resource: "acme.com/gpu", N: gpus}}}}}
}

// What does the kubelet give a pod?
func ExamplePlace() {
	node, pod := exampleNode(), examplePod(4, 2)
	if err := pod.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	verdict := place.Place(node, pod)
	fmt.Println(verdict.Fits())
	for _, h := range verdict.Holdings {
		fmt.Println(h.Text(node.Machine))
	}
	// Output:
	// true
	// main: CPUs 1-4, 2 acme.com/gpu (gpu0,gpu1) on NUMA node 0
}

// Why does a pod not fit? Reasons are data for programs; Text renders them for people.
func ExamplePlace_whyNot() {
	verdict := place.Place(exampleNode(), examplePod(8, 1))
	fmt.Println(verdict.Refusal)
	for _, r := range verdict.Reasons {
		fmt.Printf("%s: container %s wants %d %s, at most %d can be had\n", r.Code, r.Container, r.Want, r.Resource, r.Have)
		fmt.Println(r.Text())
	}
	// Output:
	// TopologyAffinityError
	// one-numa: container main wants 8 cpu, at most 7 can be had
	// cannot align container "main" (wants 8 cpu on one NUMA node; best NUMA node has 7 free)
}

// What would the next ten pods get? A usage never changes: Hold returns another one with the holdings of the pod, so
// the first one still has the current state.
func ExampleUsage_Hold() {
	node, pod := exampleNode(), examplePod(3, 1)
	for i := range 10 {
		verdict := place.Place(node, pod)
		if !verdict.Fits() {
			fmt.Printf("pod %d has no place: %s\n", i+1, verdict.Reasons[0].Text())
			break
		}
		fmt.Printf("pod %d %s\n", i+1, verdict.Text(node.Machine))
		node = node.Hold(verdict.Holdings...)
	}
	// Output:
	// pod 1 fits: main: CPUs 1-3, 1 acme.com/gpu (gpu0 or others) on NUMA node 0
	// pod 2 fits: main: CPUs 4-6, 1 acme.com/gpu (gpu1) on NUMA node 0
	// pod 3 fits: main: CPUs 9-11, 1 acme.com/gpu (gpu2 or others) on NUMA node 1
	// pod 4 fits: main: CPUs 12-14, 1 acme.com/gpu (gpu3) on NUMA node 1
	// pod 5 has no place: cannot align container "main" (wants 1 acme.com/gpu; node has 0 free)
}
