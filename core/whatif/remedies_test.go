package whatif

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// eight has eight NUMA nodes, every other one with two GPUs.
const eight = `
numa 0 socket 0 cpus 0-31 memory 256Gi
numa 1 socket 0 cpus 32-63 memory 256Gi
numa 2 socket 0 cpus 64-95 memory 256Gi
numa 3 socket 0 cpus 96-127 memory 256Gi
numa 4 socket 1 cpus 128-159 memory 256Gi
numa 5 socket 1 cpus 160-191 memory 256Gi
numa 6 socket 1 cpus 192-223 memory 256Gi
numa 7 socket 1 cpus 224-255 memory 256Gi
device example.com/gpu g0,g1 numa 1
device example.com/gpu g2,g3 numa 3
device example.com/gpu g4,g5 numa 5
device example.com/gpu g6,g7 numa 7
`

// beside is a pod whose second container has CPUs only: nothing ties it to the GPU of the first.
func beside(w *Want) *Want {
	w.Pod.Containers = append(w.Pod.Containers, place.Container{Name: "side", MilliCPU: 2000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: gi}}})
	return w
}

func TestADemandThatTheEmptyNodeDoesNotMeetIsNotWaitedFor(t *testing.T) {
	r := place.Rules{Topology: place.TopologyRules{Policy: place.Restricted}, CPU: place.CPURules{Static: true}}
	n := node(t, "a", eight, r)
	w := beside(pod(6, 1))
	w.Demand = place.Demand{Policy: place.SingleNUMA, Scope: place.PerPod}
	j := Rules{}.Judge(&n, w, nil)
	if j.Fits() || j.When() != place.Never || j.Reasons[0].Code != place.Demanded {
		t.Fatalf("%s: %v; want a demand that waiting does not satisfy", j.When(), j.Reasons)
	}
	l := Rules{}.Lasting([]Node{n}, w)
	if len(l.Ever) != 0 || len(l.Refusals) != 1 {
		t.Fatalf("ever on %v, %d refusals; want a refusal", l.Ever, len(l.Refusals))
	}
	const want = "relax the pod's demand (annotations tenon.sh/numa-policy and tenon.sh/numa-scope); " +
		"or set topologyManagerScope: pod on this node"
	if got := l.Refusals[0].Reasons[0].Remedy(); got != want {
		t.Errorf("the remedy is\n%s\nwant\n%s", got, want)
	}
	r.Topology.Scope = place.PerPod
	if other := node(t, "a", eight, r); !(Rules{}.Judge(&other, w, nil).Fits()) {
		t.Error("the pod does not fit with the setting that the remedy names")
	}
}

// A pod of 8 GPUs needs four of the eight NUMA nodes, and 240 CPUs need all of them.
func TestWidthsNameTheLargestAmountThatFits(t *testing.T) {
	r := place.Rules{Topology: place.TopologyRules{Policy: place.Restricted, Scope: place.PerPod},
		CPU: place.CPURules{Static: true}}
	n, w := node(t, "a", eight, r), pod(240, 8)
	l := Rules{}.Lasting([]Node{n}, w)
	if len(l.Refusals) != 1 || l.Refusals[0].Reasons[0].Code != place.Widths {
		t.Fatalf("%+v; want a refusal by widths", l)
	}
	if got := l.Refusals[0].Reasons[0].Remedy(); !strings.Contains(got, "(it fits with 128 cpu)") {
		t.Errorf("remedy %q does not name 128 CPUs", got)
	}
	for cpus, fits := range map[int64]bool{128: true, 129: false} {
		if (Rules{}).Judge(&n, pod(cpus, 8), nil).Fits() != fits {
			t.Errorf("%d CPUs fit: %v", cpus, !fits)
		}
	}
}

// A sidecar with little memory needs one NUMA node, and the main container two: alone on the machine they do not fit by
// container, and do as one pod.
func TestTheScopeUnderWhichAPodFitsIsNamed(t *testing.T) {
	r := place.Rules{Topology: place.TopologyRules{Policy: place.Restricted}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}
	n, w := node(t, "a", pair, r), pod(30, 0)
	w.Pod.Containers[0].Memory[0].Bytes = 40 * gi
	w.Pod.Containers = append([]place.Container{{Name: "log", Kind: place.Sidecar, MilliCPU: 15,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: gi}}}}, w.Pod.Containers...)
	n.Allocatable["cpu"] = 64000
	l := Rules{}.Lasting([]Node{n}, w)
	if len(l.Refusals) != 1 {
		t.Fatalf("%+v; want a refusal", l)
	}
	if got := l.Refusals[0].Reasons[0].Remedy(); !strings.HasSuffix(got, "set topologyManagerScope: pod on this node") {
		t.Errorf("remedy %q does not name the scope; reasons %v", got, l.Refusals[0].Reasons)
	}
}
