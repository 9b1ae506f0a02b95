package plugin

import (
	"fmt"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/sample"
)

// roomy returns a town with this many nodes where every pod fits.
func roomy(t *testing.T, n int) *town {
	c := newTown(t)
	for i := range n {
		c.node(fmt.Sprintf("node-%03d", i))
	}
	return c
}

func TestWhereAllNodesFitFewAreAsked(t *testing.T) {
	c := roomy(t, 500)
	if e := c.schedules(cpus("p", 8)); e.node == "" {
		t.Fatal(e.why)
	}
	if n := len(c.asked); n < 100 || n > sample.Size {
		t.Errorf("%d nodes were asked, want 100 to %d", n, sample.Size)
	}
}

// If the configuration sets how many nodes are scored, or the pod requires what few nodes have, all nodes are filtered.
func TestNodesThatMayMatterAreNotLeftOut(t *testing.T) {
	for name, change := range map[string]func(c *town, p *v1.Pod){
		"percentageOfNodesToScore": func(c *town, _ *v1.Pod) { c.shared.options.PercentageOfNodesToScore = 100 },
		"selector":                 func(_ *town, p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "node-444"} },
		"affinity": func(_ *town, p *v1.Pod) {
			named := v1.NodeSelectorRequirement{Key: "name", Operator: v1.NodeSelectorOpIn, Values: []string{"node-444"}}
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{{
				Weight:     100,
				Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{named}},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, pod := roomy(t, 500), cpus("p", 8)
			change(c, pod)
			e := c.schedules(pod)
			if e.node == "" {
				t.Fatal(e.why)
			}
			if n := len(c.asked); n <= sample.Size {
				t.Errorf("only %d nodes were asked", n)
			}
		})
	}
}

// Other plugins keep pods from some nodes in most clusters. Then a sample still has enough of the others.
func TestASampleMayHaveNodesThatOthersRefuse(t *testing.T) {
	for range 5 {
		c := roomy(t, 500)
		for i, o := range c.nodes {
			if n := o.(*v1.Node); i%10 == 3 {
				n.Spec.Taints = []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoSchedule}}
			}
		}
		if e := c.schedules(cpus("p", 8)); e.node == "" {
			t.Fatal(e.why)
		}
		if n := len(c.asked); n > sample.Size {
			t.Errorf("%d nodes were asked, want at most %d", n, sample.Size)
		}
	}
}

// A pod that other plugins keep from nearly all nodes gets one of the few remaining ones, in one attempt, wherever they
// are.
func TestNoAttemptIsLostToASample(t *testing.T) {
	for i := range 5 {
		c := roomy(t, 500)
		open := map[string]bool{fmt.Sprintf("node-%03d", 99*i+50): true, fmt.Sprintf("node-%03d", 99*i+51): true}
		for _, o := range c.nodes {
			if n := o.(*v1.Node); !open[n.Name] {
				n.Spec.Taints = []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoSchedule}}
			}
		}
		if e := c.schedules(cpus("p", 8)); !open[e.node] {
			t.Errorf("the pod went to %q (%s), want one of %v", e.node, e.why, open)
		}
	}
}

// However few nodes are sampled, the cheapest of all is among them once similar pods have come before.
func TestTheNodeThatCostsLeastIsAmongTheNamed(t *testing.T) {
	y := newYard(t, 500, 50)
	c := y.open(t, "tenon", shippedProfile(t))
	for i := range 60 {
		c.schedule(t, podOf(fmt.Sprintf("before-%d", i), "cpu=4 memory=8Gi"))
		c.leave(t, 0)
	}
	p, cs, pod := c.shared.plugins[0], framework.NewCycleState(), podOf("p", "cpu=4 memory=8Gi")
	result, status, _ := c.f.RunPreFilterPlugins(t.Context(), cs, pod)
	fits(t, status)
	if result.AllNodes() || len(result.NodeNames) > sample.Size {
		t.Fatal("no sample is named")
	}
	s, _ := read(cs)
	least, at := int64(-1), map[string]bool{}
	for n := range s.snap.All() {
		if cost, no := p.compute(s, n); no == nil && (least < 0 || cost <= least) {
			if cost < least {
				clear(at)
			}
			least, at[n.Name] = cost, true
		}
	}
	for name := range at {
		if result.NodeNames.Has(name) {
			return
		}
	}
	t.Errorf("none of the nodes %v, which cost least, is named", at)
}

// gpus returns a pod with CPUs and a GPU.
func gpus(name string, cpu int) *v1.Pod {
	return podOf(name, fmt.Sprintf("cpu=%d memory=1Gi nvidia.com/gpu=1", cpu))
}

// withGPUs returns a town with nodes that have GPUs where has returns true for the index.
func withGPUs(t *testing.T, nodes int, has func(i int) bool) (c *town, with map[string]bool) {
	c, with = newTown(t), map[string]bool{}
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		c.node(name)
		if !has(i) {
			continue
		}
		with[name] = true
		machine := two + "device nvidia.com/gpu a,b numa 0\ndevice nvidia.com/gpu c,d numa 1\n"
		l := layout(t, name, machine, place.SingleNUMA, nodes+i+1)
		c.shared.Feed.Layout(l)
		c.layouts[i] = l
		n := c.nodes[i].(*v1.Node)
		n.Status.Allocatable = maps.Clone(n.Status.Allocatable)
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
	}
	return c, with
}

// A pod with devices is tried on nodes that have these, however many others have room for the rest of it.
func TestOnlyNodesWithTheDevicesAreAsked(t *testing.T) {
	for _, x := range []struct {
		what string
		has  func(i int) bool
		most int
	}{
		{"every second node", func(i int) bool { return i%2 == 0 }, sample.Size},
		{"every tenth node", func(i int) bool { return i%10 == 9 }, 50},
		{"three nodes", func(i int) bool { return i%200 == 77 }, 3},
	} {
		t.Run(x.what, func(t *testing.T) {
			c, with := withGPUs(t, 500, x.has)
			if e := c.schedules(gpus("p", 8)); !with[e.node] {
				t.Fatalf("the pod went to %q (%s)", e.node, e.why)
			}
			if len(c.asked) > x.most {
				t.Errorf("%d nodes were asked, want at most %d", len(c.asked), x.most)
			}
			for name := range c.asked {
				if !with[name] {
					t.Errorf("%s was asked, which has no GPU", name)
				}
			}
		})
	}
}

// A resource that no machine has, but every Node object, leaves the choice as it is without the resource.
func TestAResourceOfAllNodeObjects(t *testing.T) {
	c := roomy(t, 500)
	for _, o := range c.nodes {
		n := o.(*v1.Node)
		n.Status.Allocatable = maps.Clone(n.Status.Allocatable)
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
	}
	if e := c.schedules(gpus("p", 8)); e.node == "" || len(c.asked) > sample.Size {
		t.Errorf("the pod went to %q (%s), %d nodes were asked", e.node, e.why, len(c.asked))
	}
}

// What other plugins know of devices counts: a pod gets a node in one attempt if any node has room by their rules, and
// if none has, it waits for the same reasons as if no node had been left out.
func TestDevicesThatOnlyTheNodeObjectHas(t *testing.T) {
	for _, x := range []struct {
		what   string
		taints func(i int) bool // of the nodes with GPUs
		adds   int              // this node has a GPU by its Node alone; -1: none
	}{
		{"nodes with GPUs are tainted", func(int) bool { return true }, 123},
		{"all but one are tainted", func(i int) bool { return i != 377 }, -1},
		{"all are tainted", func(int) bool { return true }, -1},
	} {
		t.Run(x.what, func(t *testing.T) {
			var ends [2]ending
			for k, every := range []bool{false, true} {
				c, _ := withGPUs(t, 500, func(i int) bool { return i%100 == 77 })
				c.every = every
				for i, o := range c.nodes {
					n := o.(*v1.Node)
					if i%100 == 77 && x.taints(i) {
						n.Spec.Taints = []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoSchedule}}
					}
					if i == x.adds {
						n.Status.Allocatable = maps.Clone(n.Status.Allocatable)
						n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
					}
				}
				ends[k] = c.schedules(gpus("p", 8))
			}
			if a, b := fmt.Sprintf("%+v", ends[0]), fmt.Sprintf("%+v", ends[1]); a != b {
				t.Errorf("with nodes left out:\n%s\nwithout:\n%s", a, b)
			}
		})
	}
}
