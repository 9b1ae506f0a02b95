package kubelet_test

import (
	"slices"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

// A machine with holes in its ids, two threads per core, two L3 groups on one NUMA node, and a NUMA node
// without CPUs, as cadvisor reports it.
func TestMachineInfo(t *testing.T) {
	m, err := topo.ParseMachine(`
numa 8 socket 1 cpus 8,9,10,11/12,13,14,15 l3 2 memory 8Gi hugepages-2Mi 512 hugepages-1Gi 2
numa 0 socket 0 cpus 0,1/4,5 memory 4Gi hugepages-2Mi 256
numa 16 memory 1Gi
distances 10 20 80
distances 20 10 80
distances 80 80 10
`)
	if err != nil {
		t.Fatal(err)
	}
	info := kubelet.MachineInfo("m", m)
	if info.NumCores != 12 || info.NumPhysicalCores != 6 || info.NumSockets != 2 || info.MemoryCapacity != 13<<30 {
		t.Errorf("%d CPUs, %d cores, %d sockets, %d bytes", info.NumCores, info.NumPhysicalCores, info.NumSockets,
			info.MemoryCapacity)
	}
	pages := []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: 768}, {PageSize: 1 << 20, NumPages: 2}}
	if !slices.Equal(info.HugePages, pages) {
		t.Errorf("hugepages %v, want %v", info.HugePages, pages)
	}
	var ids []int
	for _, n := range info.Topology {
		ids = append(ids, n.Id)
	}
	if !slices.Equal(ids, []int{0, 8, 16}) || len(info.Topology[2].Cores) != 0 {
		t.Fatalf("NUMA nodes %v, want 0, 8 and 16 without CPUs", ids)
	}
	n := info.Topology[1]
	if !slices.Equal(n.Distances, []uint64{20, 10, 80}) || n.Memory != 8<<30 || len(n.HugePages) != 2 {
		t.Errorf("numa 8: distances %v, %d bytes, hugepages %v", n.Distances, n.Memory, n.HugePages)
	}
	want := []struct{ socket, l3, a, b int }{{1, 8, 8, 12}, {1, 8, 9, 13}, {1, 10, 10, 14}, {1, 10, 11, 15}}
	for i, w := range want {
		c := n.Cores[i]
		if c.SocketID != w.socket || c.UncoreCaches[0].Id != w.l3 || !slices.Equal(c.Threads, []int{w.a, w.b}) {
			t.Errorf("core %d of NUMA node 8 is %+v, want %+v", i, c, w)
		}
	}
}
