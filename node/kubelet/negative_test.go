package kubelet

import (
	"strings"
	"testing"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/topo"
)

// A plugin that gives its devices NUMA node -1, as /sys has it on virtual machines, is named: the kubelet refuses pods
// that a prediction without that NUMA node admits.
func TestNegativeNUMANodesAreNamed(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	on := func(ids ...int64) *podresources.TopologyInfo {
		out := &podresources.TopologyInfo{}
		for _, id := range ids {
			out.Nodes = append(out.Nodes, &podresources.NUMANode{ID: id})
		}
		return out
	}
	for _, c := range []struct {
		topology *podresources.TopologyInfo
		named    bool
	}{{nil, false}, {on(), false}, {on(1), false}, {on(-1), true}, {on(0, -1), true}} {
		devices, err := readDevices([]*podresources.ContainerDevices{{ResourceName: "acme.com/nic",
			DeviceIds: []string{"a", "b"}, Topology: c.topology}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Observation{Allocatable: devices}.Machine(m)
		if got == nil || len(got.Resources()) != 1 || len(got.Resources()[0].Devices) != 2 {
			t.Fatalf("%v: the devices are lost: %v", c.topology, err)
		}
		const text = "acme.com/nic gives 2 devices a negative NUMA node"
		if named := err != nil && strings.Contains(err.Error(), text); named != c.named {
			t.Errorf("%v: error %v, want the plugin named: %t", c.topology, err, c.named)
		}
	}
}
