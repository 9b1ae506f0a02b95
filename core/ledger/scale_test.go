package ledger

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// large is a machine of 8 NUMA nodes with 256 CPUs and 16 devices.
func large(tb testing.TB, pool *topo.Pool) *topo.Machine {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 2 memory 64Gi hugepages-1Gi 4\n", i, i/4, i*16, i*16+15,
			128+i*16, 128+i*16+15)
		fmt.Fprintf(&b, "device acme.com/gpu g%02d,g%02d numa %d\n", 2*i, 2*i+1, i)
	}
	text, err := topo.ParseText(strings.NewReader(b.String()))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := pool.New(text.Spec)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// halfFull is a layout of a large machine with ten pods that hold half of its CPUs.
func halfFull(tb testing.TB, pool *topo.Pool) state.Layout {
	l := state.Layout{Machine: large(tb, pool), Rules: place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}}
	u := place.NewUsage(l.Machine, l.Rules)
	for k := range 10 {
		v := place.Place(u, pod(12+int64(k%2)*2, 20))
		if !v.Fits() {
			tb.Fatal(v.Reasons)
		}
		u = u.Hold(v.Holdings...)
		l.Entries = append(l.Entries, state.Entry{Pod: id(k), Holdings: v.Holdings})
	}
	return l
}

// own returns a layout that shares only the machine with others, like a layout read from a report.
func own(l state.Layout, node int) state.Layout {
	out := l
	out.Entries = nil
	for k, e := range l.Entries {
		hs := make([]place.Holding, len(e.Holdings))
		for i, h := range e.Holdings {
			hs[i] = h
			hs[i].CPUs = idset.Of(h.CPUs.List()...)
			hs[i].Memory = append([]place.Block(nil), h.Memory...)
		}
		id := state.PodID{UID: fmt.Sprintf("a6a6a6a6-0000-0000-%06d-%06d", node, k), Namespace: "default",
			Name: fmt.Sprint("p-", node, "-", k)}
		out.Entries = append(out.Entries, state.Entry{Pod: id, Holdings: hs})
	}
	return out
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// bytesPerNode returns the memory that a book takes for each of count half full nodes.
func bytesPerNode(tb testing.TB, nodes int) int64 {
	var pool topo.Pool
	l := halfFull(tb, &pool)
	before := heap()
	b := New()
	for i := range nodes {
		b.Report(fmt.Sprintf("node-%05d", i), own(l, i))
	}
	after := heap()
	if n := b.Snapshot().Len(); n != nodes {
		tb.Fatalf("%d nodes", n)
	}
	return (after - before) / int64(nodes)
}

// A cluster of 20,000 half full nodes of 256 CPUs has to fit in 2 GiB, together with everything else in a scheduler.
func TestANodeTakesLittleMemory(t *testing.T) {
	const most = 16 << 10
	if n := bytesPerNode(t, 1000); n > most {
		t.Errorf("a node of 8 NUMA nodes and 256 CPUs with ten pods takes %d bytes, want at most %d", n, most)
	} else {
		t.Logf("%d bytes for a node", n)
	}
}

func BenchmarkLedgerMemory(b *testing.B) {
	for _, nodes := range []int{1000, 20000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(bytesPerNode(b, nodes)), "bytes/node")
			}
		})
	}
}

// A report of one node must not allocate more in a larger cluster.
func TestAReportAllocatesTheSameInAnyCluster(t *testing.T) {
	var pool topo.Pool
	l := halfFull(t, &pool)
	var counts []float64
	for _, nodes := range []int{10, 1000} {
		b := New()
		for i := range nodes {
			b.Report(fmt.Sprintf("node-%05d", i), own(l, i))
		}
		again := own(l, 3)
		counts = append(counts, testing.AllocsPerRun(20, func() { b.Report("node-00003", again) }))
	}
	if counts[1] > counts[0]+2 {
		t.Errorf("a report allocates %v times among 10 nodes, %v times among 1,000", counts[0], counts[1])
	}
	t.Logf("%v allocations for a report", counts[0])
	if most := 60.0; counts[0] > most {
		t.Errorf("a report of ten pods allocates %v times, want at most %v", counts[0], most)
	}
}

// BenchmarkIndex asks on which nodes a pod fits: first all nodes, then again after one has changed.
func BenchmarkIndex(b *testing.B) {
	p := pod(16, 16)
	for _, nodes := range []int{100, 1000, 10000} {
		var pool topo.Pool
		l := halfFull(b, &pool)
		book := New()
		for i := range nodes {
			book.Report(fmt.Sprintf("node-%05d", i), own(l, i))
		}
		s := book.Snapshot()
		b.Run(fmt.Sprint(nodes, " nodes/first"), func(b *testing.B) {
			for b.Loop() {
				NewIndex(p, place.Demand{}).Fitting(s)
			}
		})
		b.Run(fmt.Sprint(nodes, " nodes/one changed"), func(b *testing.B) {
			x := NewIndex(p, place.Demand{})
			for b.Loop() {
				s = s.set(s.Node("node-00042"))
				x.Fitting(s)
			}
		})
	}
}

// Earlier reports of a node take no memory: thousands of different layouts take as much as the last ones.
func TestEarlierReportsTakeNoMemory(t *testing.T) {
	var pool topo.Pool
	b := New()
	var sizes []int64
	for i := range 2000 {
		var text strings.Builder
		fmt.Fprintf(&text, "numa 0 cpus 0-127 l3 16 memory %dMi\nnuma 1 socket 1 cpus 128-255 memory 64Gi\n", 1<<16+i)
		fmt.Fprintf(&text, "device acme.com/gpu gpu-%d numa 1\n", i)
		machine, err := topo.ParseText(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		m, err := pool.New(machine.Spec)
		if err != nil {
			t.Fatal(err)
		}
		b.Report("n", state.Layout{Machine: m, Rules: place.Rules{CPU: place.CPURules{Static: true}}, Entries: []state.Entry{
			{Pod: id(i), Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](7)}}}}})
		if i == 9 || i == 1999 {
			sizes = append(sizes, heap())
		}
	}
	if b.Snapshot().Node("n") == nil {
		t.Fatal("the book does not have the node")
	}
	if grown, most := sizes[1]-sizes[0], int64(64<<10); grown > most {
		t.Errorf("1,990 layouts more take %d bytes more, want at most %d", grown, most)
	}
}
