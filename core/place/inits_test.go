package place

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

// initPod has n init containers, each with CPUs, memory and a device, and one app container.
func initPod(count int) *Pod {
	p := &Pod{QoS: Guaranteed}
	for i := range count + 1 {
		c := Container{Name: fmt.Sprint("c", i), Kind: Init, MilliCPU: 1000 * int64(1+i%3),
			Memory:  []Amount{{Kind: topo.Memory, Bytes: int64(1+i%5) << 30}, {Kind: "hugepages-1Gi", Bytes: 1 << 30}},
			Devices: []Count{{"acme.com/gpu", int64(1 + i%2)}}}
		p.Containers = append(p.Containers, c)
	}
	p.Containers[count].Kind = App
	return p
}

// TestInitContainersCostAlike: the cost of one more init container does not depend on how many there are.
func TestInitContainersCostAlike(t *testing.T) {
	m, err := topo.ParseMachine(`numa 0 socket 0 cpus 0-15 memory 64Gi hugepages-1Gi 8
numa 1 socket 1 cpus 16-31 memory 64Gi hugepages-1Gi 8
device acme.com/gpu g0,g1,g2 numa 0
device acme.com/gpu g3,g4,g5 numa 1`)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []Policy{None, BestEffort, Restricted, SingleNUMA} {
		for _, scope := range []Scope{PerContainer, PerPod} {
			u := NewUsage(m, Rules{Topology: TopologyRules{Policy: policy, Scope: scope},
				CPU: CPURules{Static: true}, Memory: MemoryRules{Static: true}})
			cost := func(count int) (allocations float64) {
				p := initPod(count)
				return testing.AllocsPerRun(1, func() {
					a := admission{u: u, pod: p, taken: make([]Holding, len(p.Containers))}
					a.work.steps = -1 << 40 // such a pod needs more steps than the bound
					if err := a.run(); err != "" {
						t.Fatalf("%s, %s: %d init containers: %s %v", policy, scope, count, err, a.reasons)
					}
				}) / float64(count)
			}
			few, many := cost(100), cost(8000)
			if many > 1.5*few {
				t.Errorf("%s, %s: %.1f allocations for one of 8000 init containers, %.1f for one of 100", policy, scope, many, few)
			}
		}
	}
}
