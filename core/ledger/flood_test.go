package ledger

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// fat is a pod of many init containers; pods of different n have different shapes.
func fat(n, inits int) *place.Pod {
	p := pod(1, 1)
	first := place.Container{Kind: place.Init, MilliCPU: 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: int64(1+n) << 20}}}
	app := p.Containers[0]
	p.Containers = nil
	for i := range inits {
		first.Name = fmt.Sprint("init-", i)
		p.Containers = append(p.Containers, first)
	}
	p.Containers = append(p.Containers, app)
	return p
}

// spent returns the cost of the book's placements for a node while do ran.
func spent(b *Book, node string, do func()) int {
	before := b.nodes[node].effort
	do()
	return b.nodes[node].effort - before
}

// Users may bind any number of pods to a node that does not answer. The cost of each event is bounded, and once the
// ledger has given up, further events cost nothing until something changes.
func TestManyPodsOnANodeThatDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		pods  int
		shape func(i int) *place.Pod
		most  int // of all events together, for each pod
	}{
		{"small pods of one shape", 1500, func(int) *place.Pod { return pod(1, 1) }, 150},
		{"small pods of many shapes", 1500, func(i int) *place.Pod { return pod(1+int64(i%7), 1+int64(i%5)) }, 350},
		{"few pods of many init containers", 8, func(i int) *place.Pod { return fat(i, 500) }, 3 * maxEffort},
		{"pods that are too much alone", 4, func(i int) *place.Pod { return fat(i, 8100+i*100) }, maxEffort},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := New()
			b.Report("n", layout(t))
			all, worst := 0, 0
			event := func(do func()) {
				n := spent(b, "n", do)
				all, worst = all+n, max(worst, n)
			}
			for i := range c.pods {
				p := c.shape(i)
				event(func() { b.Assume("n", id(i), p) })
			}
			if c.pods > maxFollowed {
				n := b.Snapshot().Node("n")
				if v := n.Place(pod(1, 1), place.Demand{}); v.Fits() || n.Fits(pod(1, 1)) || n.Doubtful() == "" {
					t.Errorf("a pod fits on a node with %d unreported pods", c.pods)
				}
				if last := n.Inexact; len(last) != 1 || last[0].Code != state.PodsUnreported {
					t.Errorf("reasons %v have no code for unreported pods", last)
				}
				if n := len(b.nodes["n"].assumed); n > maxFollowed {
					t.Errorf("%d pods are followed, want at most %d", n, maxFollowed)
				}
			}
			for i := range c.pods {
				event(func() {
					if i%2 == 0 {
						b.Vanish(id(i).UID)
						b.Unreserve(id(i).UID)
					} else {
						b.Release(id(i).UID)
					}
				})
			}
			t.Logf("%d in all, %d for each pod, at most %d for an event", all, all/c.pods, worst)
			if all > c.most*c.pods || worst > 2*maxEffort {
				t.Errorf("placements cost %d in all, %d for one event; want at most %d and %d", all, worst,
					c.most*c.pods, 2*maxEffort)
			}
			n := b.Snapshot().Node("n")
			if v := n.Place(pod(4, 1), place.Demand{}); !v.Fits() || len(n.Inexact) > 0 {
				t.Errorf("all pods are gone and a pod does not fit: %v, %v", v.Reasons, n.Inexact)
			}
		})
	}
}

// A node with too many unreported pods is settled again when its report has the pods.
func TestAReportSettlesAFloodedNode(t *testing.T) {
	b := New()
	b.Report("n", layout(t))
	var entries []state.Entry
	for i := range maxFollowed + 100 {
		b.Assume("n", id(i), pod(1, 1))
		entries = append(entries, state.Entry{Pod: id(i)})
	}
	for i := range 50 {
		entries[i].Holdings = claiming(t, slices.Collect(func(yield func(int) bool) {
			for k := range 15 {
				if !yield(k) {
					return
				}
			}
		})...).Entries[i%15].Holdings
	}
	b.Report("n", layout(t, entries...))
	n := b.Snapshot().Node("n")
	if n.Unsettled || len(n.Inexact) > 0 || len(n.Entries) != len(entries) {
		t.Errorf("after a report of all pods: unsettled %v, %v, %d entries", n.Unsettled, n.Inexact, len(n.Entries))
	}
	if b.Booked("n", id(maxFollowed+50).UID) {
		t.Error("a pod in the report is still assumed")
	}
}

// While one node's state is being computed, other nodes can be reserved on, reported and read.
func TestNodesDoNotWaitForEachOther(t *testing.T) {
	b := New()
	busy, done := make(chan struct{}), make(chan struct{})
	started := make(chan struct{})
	b.OnChange(func(node string) {
		if node == "slow" {
			close(started)
			<-busy // the lock is held as during a long computation
		}
	})
	go func() {
		defer close(done)
		b.Report("slow", layout(t))
	}()
	<-started
	b.Report("n", layout(t))
	if v, ok := b.Reserve("n", id(0), pod(4, 1), place.Demand{}); !ok || !v.Fits() {
		t.Errorf("not reserved: %v", v.Reasons)
	}
	if !turns(t, b, 0) {
		t.Error("it is not the pod's turn")
	}
	b.Assume("n", id(1), pod(4, 1))
	b.Release(id(1).UID)
	b.Forget("n")
	close(busy)
	<-done
}

// Many goroutines book pods on few nodes, move them and end them. At the end nothing is left of any pod.
func TestBooksMayBeSharedByGoroutines(t *testing.T) {
	const pods, rounds = 24, 200
	b := New()
	nodes := []string{"a", "b", "c"}
	for _, n := range nodes {
		b.Report(n, layout(t))
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range rounds {
				n := (g*7 + i*5) % pods
				node := nodes[(g+i)%len(nodes)]
				switch (g + i) % 7 {
				case 0, 1, 2:
					b.Reserve(node, id(n), pod(int64(1+n%4), 1), place.Demand{})
				case 3:
					_, _, _ = b.Turn(id(n).UID, 0)
				case 4:
					b.Assume(node, id(n), pod(int64(1+n%4), 1))
				case 5:
					b.Unreserve(id(n).UID)
				case 6:
					b.Report(node, layout(t))
				}
			}
		})
	}
	all.Wait()
	for uid, node := range b.assumedOn {
		if b.nodes[node].find(uid) == nil {
			t.Errorf("pod %s should be assumed on node %s and is not", uid, node)
		}
	}
	for i := range pods {
		b.Release(id(i).UID)
	}
	if len(b.assumedOn) > 0 || len(b.held.first) > 0 {
		t.Errorf("left: %v assumed, %v held", b.assumedOn, b.held.first)
	}
	for _, n := range nodes {
		b.Report(n, layout(t))
		got := b.Snapshot().Node(n)
		if len(got.Entries) > 0 || got.Unsettled || len(got.Others) > 0 || len(b.nodes[n].assumed) > 0 {
			t.Errorf("node %s: %d entries, unsettled %v", n, len(got.Entries), got.Unsettled)
		}
	}
}
