package ledger

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// fitting is the plain loop that an index must agree with.
func fitting(s *Snapshot, p *place.Pod, d place.Demand) (out []string) {
	for _, name := range s.Names() {
		if s.Node(name).Place(p, d).Fits() {
			out = append(out, name)
		}
	}
	return out
}

// indexed is a book with a random history, and indexes that are asked at random times.
type indexed struct {
	t       *rapid.T
	book    *Book
	indexes map[string]*Index // by kind of pods
	old     *Snapshot         // an earlier one
	was     map[string]*state.Node
	next    int
	nodes   []string
}

// index returns the index of a kind of pods.
func (x *indexed) index(p *place.Pod, d place.Demand) *Index {
	kind := fmt.Sprintf("%s %+v", p.Shape(), d)
	if x.indexes[kind] == nil {
		x.indexes[kind] = NewIndex(p, d)
	}
	return x.indexes[kind]
}

func (x *indexed) pod(tag string) *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: tag,
		MilliCPU: int64(rapid.SampledFrom([]int{1, 4, 20}).Draw(x.t, "cpus")) * 1000,
		Memory:   []place.Amount{{Kind: topo.Memory, Bytes: int64(rapid.SampledFrom([]int{1, 40}).Draw(x.t, "gigs")) << 30}},
		Devices:  []place.Count{{Resource: "acme.com/gpu", N: int64(rapid.IntRange(0, 2).Draw(x.t, "gpus"))}}}}}
}

func (x *indexed) node() string { return rapid.SampledFrom(x.nodes).Draw(x.t, "node") }

func (x *indexed) step() {
	x.next++
	switch rapid.IntRange(0, 9).Draw(x.t, "what") {
	case 0:
		x.book.Forget(x.node())
	case 1, 2:
		x.report(x.node())
	case 3: // bound by others, in unknown order
		name := x.node()
		for k := range 3 {
			x.book.Assume(name, id(x.next*1000+k), x.pod("c"))
		}
	case 4:
		x.book.Recover(x.node(), id(x.next), x.pod("c"))
	case 5:
		name := x.node()
		x.book.Reserve(name, id(x.next), x.pod("c"), place.Demand{})
		x.book.Turn(id(x.next).UID, 0)
		x.book.Refuse(id(x.next).UID, place.TopologyAffinityError)
	default:
		name := x.node()
		x.book.Reserve(name, id(x.next), x.pod("c"), place.Demand{})
	}
}

// report makes a node report what is predicted for it, or nothing.
func (x *indexed) report(name string) {
	l := layout(x.t)
	policies := []place.Policy{place.SingleNUMA, place.Restricted, place.BestEffort}
	l.Rules.Topology.Policy = rapid.SampledFrom(policies).Draw(x.t, "policy")
	if n := x.book.Snapshot().Node(name); n != nil && rapid.Bool().Draw(x.t, "observe") {
		l.Machine, l.Rules = n.Machine, n.Rules
		l.Entries = slices.Clone(n.Entries)
	}
	x.book.Report(name, l)
}

func (x *indexed) check() {
	p := x.pod(rapid.SampledFrom([]string{"c", "d"}).Draw(x.t, "container"))
	demands := []place.Demand{{}, {}, {Policy: place.SingleNUMA}, {Policy: place.Restricted, Scope: place.PerPod}}
	d := rapid.SampledFrom(demands).Draw(x.t, "demand")
	for _, s := range []*Snapshot{x.book.Snapshot(), x.old, x.book.Snapshot()} {
		set := x.index(p, d).Fitting(s)
		want := fitting(s, p, d)
		if got := set.Names(); !slices.Equal(got, want) || set.Len() != len(want) {
			x.t.Fatalf("the index has %v (%d), the nodes %v", got, set.Len(), want)
		}
		for _, name := range x.nodes {
			if set.Has(name) != slices.Contains(want, name) {
				x.t.Fatalf("set has node %s: %v", name, set.Has(name))
			}
			if n := s.Node(name); n != nil && x.index(p, d).Fits(n) != slices.Contains(want, name) {
				x.t.Fatalf("the index has for node %s alone: %v", name, !slices.Contains(want, name))
			}
		}
	}
	for name, n := range x.was {
		if x.old.Node(name) != n {
			x.t.Fatalf("the snapshot changed: it had another node %s", name)
		}
	}
	if x.old.Len() != len(x.was) {
		x.t.Fatalf("the snapshot has %d nodes, it had %d", x.old.Len(), len(x.was))
	}
	if rapid.Bool().Draw(x.t, "keep") {
		x.keep()
	}
}

func (x *indexed) keep() {
	x.old, x.was = x.book.Snapshot(), map[string]*state.Node{}
	for _, name := range x.old.Names() {
		x.was[name] = x.old.Node(name)
	}
}

// For any history and any snapshot: the index agrees with every node, and an old snapshot does not change.
func TestIndexAgreesWithNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &indexed{t: t, book: New(), indexes: map[string]*Index{}}
		for i := range rapid.SampledFrom([]int{1, 1, 2, 70}).Draw(t, "nodes") {
			x.nodes = append(x.nodes, fmt.Sprint("n", i))
			if i%3 == 0 {
				x.report(x.nodes[i])
			}
		}
		x.keep()
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			x.step()
			if rapid.Bool().Draw(t, "check") {
				x.check()
			}
		}
		x.check()
	})
}

// Names are found, whatever their number, and a trie does not change when another is made from it.
func TestNamesAreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var trie *names
		want := map[string]int{}
		type kept struct {
			trie *names
			want map[string]int
		}
		var history []kept
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			name := fmt.Sprint("node-", rapid.IntRange(0, 99).Draw(t, "name"))
			if _, there := want[name]; there {
				trie = trie.without(name)
				delete(want, name)
			} else {
				want[name] = rapid.IntRange(0, 1000).Draw(t, "at")
				trie = trie.with(name, want[name])
			}
			history = append(history, kept{trie, maps.Clone(want)})
		}
		for _, h := range history {
			for i := range 100 {
				name := fmt.Sprint("node-", i)
				at, ok := h.trie.slot(name)
				if x, there := h.want[name]; ok != there || at != x {
					t.Fatalf("name %s: %d %v, want %d %v", name, at, ok, x, there)
				}
			}
		}
	})
}

// Two names may have equal hashes, or hashes that differ only in the last bits.
func TestNamesOfOneHash(t *testing.T) {
	trie := (*names)(nil).add(7, 0, named{"a", 1}).add(7, 0, named{"b", 2}).add(7|1<<63, 0, named{"c", 3})
	without := trie.drop(7, 0, "a").drop(7|1<<63, 0, "c")
	for i, name := range []string{"a", "b", "c"} {
		hash := uint64(7)
		if name == "c" {
			hash |= 1 << 63
		}
		if at, ok := trie.find(hash, name); !ok || at != i+1 {
			t.Errorf("%s is at %d, %v", name, at, ok)
		}
		if _, ok := without.find(hash, name); ok != (name == "b") {
			t.Errorf("without a and c: %s is there: %v", name, ok)
		}
	}
}

// crowd is a book of equal nodes, each with some pods.
func crowd(tb testing.TB, nodes, pods int) *Book {
	b := New()
	l := layout(tb)
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		b.Report(name, l)
		for k := range pods {
			b.Reserve(name, id(i*100+k), pod(2, 1), place.Demand{})
		}
	}
	return b
}

// When asked again, an index asks only nodes that changed. Its allocations do not depend on the number of nodes,
// except for one word per 64 nodes.
func TestIndexAllocatesLittle(t *testing.T) {
	b := crowd(t, 300, 1)
	x := NewIndex(pod(8, 8), place.Demand{})
	x.Fitting(b.Snapshot())
	if n := testing.AllocsPerRun(10, func() { x.Fitting(b.Snapshot()) }); n > 1 {
		t.Errorf("%v allocations where nothing has changed, want 1: the set", n)
	}
	s := b.Snapshot()
	other := s.set(s.Node("n00017"))
	if n := testing.AllocsPerRun(10, func() {
		x.Fitting(s)
		x.Fitting(other)
	}); n > 4 {
		t.Errorf("%v allocations where a node has changed, want 4: words and set, twice", n)
	}
}

// An index keeps no snapshot alive: an unused snapshot would take the memory of the whole cluster.
func TestIndexKeepsNoNodeAlive(t *testing.T) {
	b := crowd(t, 10, 1)
	x := NewIndex(pod(8, 8), place.Demand{})
	x.Fitting(b.Snapshot())
	gone := make(chan struct{})
	runtime.AddCleanup(b.Snapshot().Node("n00003"), func(done chan struct{}) { close(done) }, gone)
	b.Forget("n00003")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for tick := time.Tick(time.Millisecond); ctx.Err() == nil; <-tick {
		runtime.GC()
		select {
		case <-gone:
			x.Fitting(b.Snapshot())
			return
		default:
		}
	}
	t.Error("a node that the book has forgotten is still alive, although only the index has used it")
}

func TestIndexMayBeSharedByGoroutines(t *testing.T) {
	b := crowd(t, 70, 0)
	var kinds []*place.Pod
	var indexes []*Index
	for i := range 3 {
		kinds = append(kinds, pod(int64(1+i*14), 1))
		indexes = append(indexes, NewIndex(kinds[i], place.Demand{}))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 40 {
				k, s := (g+i)%3, b.Snapshot()
				if got, want := indexes[k].Fitting(s).Names(), fitting(s, kinds[k], place.Demand{}); !slices.Equal(got, want) {
					t.Errorf("the index has %v, the nodes %v", got, want)
				}
				b.Reserve(fmt.Sprintf("n%05d", (g*40+i)%70), id(g*1000+i), pod(20, 1), place.Demand{})
			}
		})
	}
	wg.Wait()
}

// A goroutine that asks while another one asks all nodes for the same kind of pod does not wait, and gets the same
// answer.
func TestAskingTheIndexDoesNotWait(t *testing.T) {
	b := New()
	for i := range 10 {
		b.Report(fmt.Sprint("n", i), layout(t))
	}
	x := NewIndex(pod(4, 1), place.Demand{})
	x.asking.Lock() // the question is in use, as while nodes are being asked
	defer x.asking.Unlock()
	if n := x.Fitting(b.Snapshot()).Len(); n != 10 {
		t.Errorf("the pod fits on %d of 10 nodes", n)
	}
	if !x.Fits(b.Snapshot().Node("n0")) {
		t.Error("the pod does not fit on n0")
	}
}
