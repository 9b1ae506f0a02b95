package synthetic_test

import (
	"math"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

func made(t *testing.T, s synthetic.Size) *synthetic.Cluster {
	t.Helper()
	c, err := synthetic.Make(s, 7)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A scheduler that starts on the cluster has the same state in its ledger, and nothing is inconsistent.
func TestLayoutsAndPodsAgree(t *testing.T) {
	c := made(t, synthetic.Size{Nodes: 60, Full: 95})
	book := ledger.New()
	feed := kube.NewFeed(book, func(o state.Outcome) { t.Errorf("outcome %s", kube.Describe(nil, o)) },
		func(node string, err error) {
			if err != nil {
				t.Errorf("layout of %s: %v", node, err)
			}
		})
	for i, n := range c.Nodes {
		l := c.Layout(i)
		l.ResourceVersion = "1"
		if l.Name != n.Name {
			t.Fatalf("layout %s is beside node %s", l.Name, n.Name)
		}
		feed.Layout(l)
	}
	for _, p := range c.Pods {
		feed.Pod(p)
	}
	feed.Begin()
	for _, want := range c.States {
		got := book.Snapshot().Node(want.Name)
		if got == nil || len(got.Entries) != len(want.Entries) || len(got.Others) > 0 || got.Unsettled {
			t.Fatalf("node %s is %+v in the ledger", want.Name, got)
		}
		for i, e := range got.Entries {
			predicted := want.Entries[i].Holdings
			if e.Source != state.Observed || !slices.EqualFunc(predicted, e.Holdings, place.Holding.Matches) {
				t.Errorf("node %s: pod %s has %s, want %s", want.Name, e.Pod, document.Text(nil, e.Holdings),
					document.Text(nil, predicted))
			}
		}
	}
}

// All pods also fit by kube-scheduler's rules: no node has more requests than amounts.
func TestNodesAreAsFullAsTheyShall(t *testing.T) {
	for _, full := range []int{0, 50, 95} {
		c := made(t, synthetic.Size{Nodes: 300, Full: full})
		sums := map[string]v1.ResourceList{}
		for _, p := range c.Pods {
			sum := sums[p.Spec.NodeName]
			if sum == nil {
				sum = v1.ResourceList{}
				sums[p.Spec.NodeName] = sum
			}
			for name, q := range p.Spec.Containers[0].Resources.Requests {
				have := sum[name]
				have.Add(q)
				sum[name] = have
			}
		}
		var used, all float64
		for _, n := range c.Nodes {
			for name, q := range sums[n.Name] {
				if most := n.Status.Allocatable[name]; q.Cmp(most) > 0 {
					t.Errorf("%s: %s of %s of %s is asked for", n.Name, q.String(), most.String(), name)
				}
			}
			sum := sums[n.Name]
			used += sum.Cpu().AsApproximateFloat64()
			all += n.Status.Allocatable.Cpu().AsApproximateFloat64()
		}
		if got := 100 * used / all; math.Abs(got-float64(full)) > 2.5 {
			t.Errorf("%.1f %% of all CPUs are asked for, want %d", got, full)
		}
		t.Logf("%d %%: %d pods on %d nodes", full, len(c.Pods), len(c.Nodes))
	}
}

// What is free according to the exporter is what the ledger has free.
func TestTopologiesAgree(t *testing.T) {
	c := made(t, synthetic.Size{Nodes: 40, Full: 50})
	for i, n := range c.States {
		var free int64
		o := c.Topology(i)
		if o.Name != n.Name {
			t.Fatalf("topology %s is beside node %s", o.Name, n.Name)
		}
		for _, z := range o.Zones {
			for _, r := range z.Resources {
				if r.Name == string(v1.ResourceCPU) {
					free += r.Available.Value()
				}
			}
		}
		if want := int64(n.Usage.FreeCPUs().Len()); free != want {
			t.Errorf("%s: %d CPUs are free in the zones, %d on the node", n.Name, free, want)
		}
	}
}

func TestEqualSeedsGiveEqualClusters(t *testing.T) {
	a, b := made(t, synthetic.Size{Nodes: 20, Full: 50}), made(t, synthetic.Size{Nodes: 20, Full: 50})
	if !equality.Semantic.DeepEqual(a.Nodes, b.Nodes) || !equality.Semantic.DeepEqual(a.Pods, b.Pods) {
		t.Error("two clusters of one seed differ")
	}
	few, err := a.Arrivals(30)
	if err != nil {
		t.Fatal(err)
	}
	many, err := b.Arrivals(200)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(few, many[:30]) {
		t.Error("more pods begin with others")
	}
	shapes := map[string]int{}
	for _, p := range many {
		cp, err := pod.ToPlace(p)
		if err != nil {
			t.Fatal(err)
		}
		shapes[cp.Shape()]++
	}
	if want := 200/synthetic.Block*2 + 6; len(shapes) != want {
		t.Errorf("%d shapes come, want six that come again and again, and %d that come once", len(shapes), want-6)
	}
}

func TestMachinesOfManyNUMAs(t *testing.T) {
	for _, n := range []int{1, 2, 8, 36} {
		c := made(t, synthetic.Size{Nodes: 3, Full: 50, NUMAs: n})
		if got := len(c.Layout(0).Machine.NUMAs); got != n {
			t.Errorf("%d NUMA nodes, want %d", got, n)
		}
		held := 0
		for _, s := range c.States {
			held += len(s.Entries)
		}
		if held < 10 {
			t.Errorf("%d NUMA nodes: %d pods hold something", n, held)
		}
		if m := c.Machine(0); m.Topo != c.States[0].Machine {
			t.Errorf("machine %s is not that of the node", m.Name)
		}
	}
}

func TestSizesAreBounded(t *testing.T) {
	for _, s := range []synthetic.Size{{}, {Nodes: -1}, {Nodes: 1, Full: 98}, {Nodes: 1, NUMAs: 37}, {Nodes: 1, NUMAs: 3},
		{Nodes: synthetic.MaxNodes + 1}} {
		if _, err := synthetic.Make(s, 1); err == nil {
			t.Errorf("%+v is made", s)
		}
	}
}
