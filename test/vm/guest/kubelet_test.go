package guest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	info "github.com/google/cadvisor/lib/model"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// checkKubelet compares what was found with the output of the kubelet's library in the same guest.
func checkKubelet(t *testing.T, found *sysfs.Found, text string) {
	t.Helper()
	var nodes []info.Node
	if err := json.Unmarshal([]byte(text), &nodes); err != nil {
		t.Fatalf("what the kubelet finds: %v\n%s", err, text)
	}
	ours, theirs := found.Machine.Spec(), kubeletSpec(nodes)
	for i, n := range theirs.NUMAs {
		if i < len(ours.NUMAs) && ours.NUMAs[i].Bytes != n.Bytes {
			t.Errorf("NUMA node %d has %d bytes, and %d for the kubelet", n.ID, ours.NUMAs[i].Bytes, n.Bytes)
		}
	}
	if got, want := describe(ours), describe(theirs); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nand the kubelet finds\n%s\nbut the warnings are %v",
			strings.Join(got, "\n"), strings.Join(want, "\n"), found.Warnings)
	}
}

// kubeletSpec reads a machine as the kubelet does: a core without an uncore cache is in the group of its socket (its
// cpumanager/topology, getUncoreCacheID).
func kubeletSpec(nodes []info.Node) (out topo.Spec) {
	slices.SortFunc(nodes, func(a, b info.Node) int { return a.Id - b.Id })
	for _, n := range nodes {
		numa := topo.NUMA{ID: idset.NUMA(n.Id), Bytes: int64(n.Memory)}
		slices.SortFunc(n.HugePages, func(a, b info.HugePagesInfo) int { return int(a.PageSize) - int(b.PageSize) })
		for _, h := range n.HugePages {
			numa.Hugepages = append(numa.Hugepages, topo.Hugepages{PageSize: int64(h.PageSize) << 10, Count: int64(h.NumPages)})
		}
		for _, d := range n.Distances {
			numa.Distances = append(numa.Distances, int(d))
		}
		out.NUMAs = append(out.NUMAs, numa)
		for _, c := range n.Cores {
			core := topo.CoreSpec{NUMA: numa.ID, Socket: idset.Socket(c.SocketID), L3: c.SocketID}
			if len(c.UncoreCaches) > 0 {
				core.L3 = c.UncoreCaches[0].Id
			}
			for _, id := range c.Threads {
				core.CPUs = core.CPUs.With(idset.CPU(id))
			}
			out.Cores = append(out.Cores, core)
		}
	}
	return out
}
