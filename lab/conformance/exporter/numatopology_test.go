package exporter

import (
	"testing"

	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/guests/numatopo"
)

// The Numatopology has the CPUs that no container holds, also reserved ones, the reservation as an amount, and numbers
// of cores that are unique within a socket only.
func TestNumatopologyIsAsVolcanosExporterPublishesIt(t *testing.T) {
	m, err := topo.ParseMachine(`
numa 0 socket 0 cpus 0-1/4-5 memory 8Gi
numa 1 socket 1 cpus 2-3/6-7 memory 8Gi
distances 10 21
distances 21 10
`)
	if err != nil {
		t.Fatal(err)
	}
	n := &exported{Node: Node{Name: "n", Machine: m, Kubelet: &configv1beta1.KubeletConfiguration{
		CPUManagerPolicy: "static", TopologyManagerPolicy: "restricted", ReservedSystemCPUs: "0,4"}}}
	got := n.numatopology(facts{pods: []*podresources.PodResources{{Containers: []*podresources.ContainerResources{
		{CpuIds: []int64{1, 5, 99}}, {}}}}})
	if got.Numares["cpu"] != (numatopo.Resource{Allocatable: "0,2-4,6-7", Capacity: 8}) || got.ResReserved["cpu"] != "2" ||
		got.Policies["CPUManagerPolicy"] != "static" || got.Policies["TopologyManagerPolicy"] != "restricted" {
		t.Errorf("Numatopology %+v, want the free CPUs 0,2-4,6-7, and 2 reserved ones", got)
	}
	for id, want := range map[string]numatopo.CPU{"5": {NUMA: 0, Socket: 0, Core: 1}, "6": {NUMA: 1, Socket: 1, Core: 0},
		"3": {NUMA: 1, Socket: 1, Core: 1}} {
		if got.CPUDetail[id] != want {
			t.Errorf("CPU %s is at %+v, want %+v", id, got.CPUDetail[id], want)
		}
	}
}

func TestReservationsAreAddedUp(t *testing.T) {
	for want, c := range map[string]*configv1beta1.KubeletConfiguration{
		"0":     {},
		"1500m": {KubeReserved: map[string]string{"cpu": "500m"}, SystemReserved: map[string]string{"cpu": "1"}},
		"3":     {ReservedSystemCPUs: "0-2", KubeReserved: map[string]string{"cpu": "500m"}},
	} {
		if got := reservedCPUs(c); got != want {
			t.Errorf("reserved CPUs %s, want %s", got, want)
		}
	}
}
