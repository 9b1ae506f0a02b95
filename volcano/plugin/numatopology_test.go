package plugin

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeinfo "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/guests/numatopo"
)

// numatopology passes to Volcano's cache the Numatopology that the agent publishes for a node, read by Volcano's types.
func (c *cluster) numatopology(name string) *nodeinfo.Numatopology {
	c.Helper()
	data, err := json.Marshal(numatopo.FromCore(c.sched.Sources().Book.Snapshot().Node(name), "nvidia.com/gpu"))
	if err != nil {
		c.Fatal(err)
	}
	o := &nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := json.Unmarshal(data, &o.Spec); err != nil {
		c.Fatal(err)
	}
	c.cache.AddNumaInfoV1alpha1(o)
	return o
}

// sockets has 2 sockets of 4 cores with 2 threads each. The reserved CPUs are on the second one, and cores have numbers
// that repeat on each socket in /sys.
const sockets = "numa 0 socket 0 cpus 0-3/8-11 memory 32Gi\nnuma 1 socket 1 cpus 4-7/12-15 memory 32Gi\n" +
	"device nvidia.com/gpu a,b numa 0\ndevice nvidia.com/gpu c numa none"

func reserving(reserved ...idset.CPU) place.Rules {
	return place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of(reserved...)}, Memory: place.MemoryRules{Static: true}}
}

// Volcano's own plugin decides with the agent's Numatopology as the kubelet does. With the exporter's numbers it takes
// 4 CPUs for 2 reserved ones, on both sockets, and 8 CPUs fit on neither.
func TestNumaAwareReadsTheAgentsNumatopology(t *testing.T) {
	for _, exporter := range []bool{false, true} {
		c := newCluster(t)
		c.plugin = "numa-aware"
		c.ruled("n", sockets, reserving(4, 12))
		o := c.numatopology("n")
		if exporter {
			likeExporter(c, o)
		}
		c.job("eight", "default", 1, "cpu=8", annotated(policyAnnotation, "single-numa-node"))
		c.job("late", "default", 1, "cpu=7", annotated(policyAnnotation, "single-numa-node"))
		got := c.session("allocate")
		if fits := got.bound["eight-0"] == "n"; fits == exporter {
			t.Errorf("exporter %v: bound %v, reasons %v", exporter, got.bound, got.why)
		}
		if !exporter && got.bound["late-0"] != "" {
			t.Errorf("7 CPUs are bound beside 8 of 14, where 6 are free on the other NUMA node: %v", got.bound)
		}
	}
}

// likeExporter changes an object to the form of Volcano's exporter: core numbers from /sys, and an amount of reserved
// CPUs that are in the free set.
func likeExporter(c *cluster, o *nodeinfo.Numatopology) {
	changed := o.DeepCopy()
	for id, d := range changed.Spec.CPUDetail {
		d.CoreID %= 4
		changed.Spec.CPUDetail[id] = d
	}
	cpu := changed.Spec.NumaResMap[string(v1.ResourceCPU)]
	cpu.Allocatable = "0-15"
	changed.Spec.NumaResMap[string(v1.ResourceCPU)] = cpu
	changed.Spec.ResReserved = map[string]string{string(v1.ResourceCPU): "2"}
	c.cache.UpdateNumaInfoV1alpha1(o, changed)
}

func TestVolcanosTypesReadTheNumatopology(t *testing.T) {
	c := newCluster(t)
	c.ruled("n", sockets, reserving(4, 12))
	o := c.numatopology("n")
	p := o.Spec.Policies
	if p[nodeinfo.CPUManagerPolicy] != "static" || p[nodeinfo.TopologyManagerPolicy] != "single-numa-node" {
		t.Errorf("policies %v", p)
	}
	if got, want := o.Spec.CPUDetail["13"], (nodeinfo.CPUInfo{NUMANodeID: 1, SocketID: 1, CoreID: 5}); got != want {
		t.Errorf("CPU 13 is at %v, want %v", got, want)
	}
	if got := o.Spec.NumaResMap["cpu"].Allocatable; got != "0-3,5-11,13-15" {
		t.Errorf("free CPUs %s", got)
	}
	if got := o.Spec.NumaResMap["nvidia.com/gpu"]; got.Allocatable != "0-1" || got.Capacity != 2 {
		t.Errorf("GPUs %v; one has no NUMA node", got)
	}
}
