package live

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// The cluster of TestMemory. Memory grows with its nodes; -many is for measuring.
var manyNodes = flag.Int("many", 1000, "nodes of TestMemory")

const podsEach = 10

// fill adds nodes with pods to a view as its sources do.
func fill(t testing.TB, v *View, nodes, each int) {
	t.Helper()
	m, rules := livetest.Machine(t), livetest.Rules()
	var entries []state.Entry
	u := place.NewUsage(m, rules)
	spec := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 4000,
		Memory: []place.Amount{{Kind: "memory", Bytes: 8 << 30}}}}}
	for range each {
		verdict := place.Place(u, spec)
		u = u.Hold(verdict.Holdings...)
		entries = append(entries, state.Entry{Holdings: verdict.Holdings})
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		n := livetest.Node(name)
		n.Labels = map[string]string{"kubernetes.io/hostname": name, "zone": fmt.Sprint("z", i%3)}
		v.putNode(trimNode(n))
		for k := range each {
			p := livetest.Pod(fmt.Sprint("team-", k), fmt.Sprintf("worker-%05d", i), name)
			p.UID = types.UID(fmt.Sprintf("a6a6a6a6-0000-0000-%06d-%06d", i, k))
			p.Status.Phase, p.Status.StartTime = "Running", &metav1.Time{Time: time.Unix(1e9, 0)}
			v.putPod(trimPod(p))
			entries[k].Pod = state.PodID{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name}
		}
		l := v1alpha1.FromCore(name, m, rules, entries, nil)
		l.ResourceVersion = "5"
		v.putLayout(l)
	}
	v.feed.Begin()
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// A view of 5,000 nodes and 50,000 pods, together with what a simulation reads of it, takes less than 125 MB: 25 KB per
// node.
func TestMemory(t *testing.T) {
	before := heap()
	v := newView(Standard())
	fill(t, v, *manyNodes, podsEach)
	kept := heap() - before
	all := v.View()
	whole := heap() - before
	t.Logf("%d nodes and %d pods: %d MB, with a copy %d MB", len(all.Nodes), len(all.Pods), kept>>20, whole>>20)
	if len(all.States) != *manyNodes || len(all.Pods) != *manyNodes*podsEach {
		t.Fatalf("%d states and %d pods", len(all.States), len(all.Pods))
	}
	if most := int64(25_000 * *manyNodes); whole > most {
		t.Errorf("the view takes %d bytes, and %d with a copy, want at most %d", kept, whole, most)
	}
	runtime.KeepAlive(v)
}
