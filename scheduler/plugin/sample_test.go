package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

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
