package plugin

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// scores returns the final scores of the nodes.
func scores(t *testing.T, p *Plugin, pod *v1.Pod, nodes ...string) []int64 {
	t.Helper()
	cs := cycle(t, p, pod)
	fits(t, p.PreScore(t.Context(), cs, pod, nil))
	var list fwk.NodeScoreList
	for _, n := range nodes {
		raw, status := p.Score(t.Context(), cs, pod, nodeInfo(n))
		fits(t, status)
		list = append(list, fwk.NodeScore{Name: n, Score: raw})
	}
	fits(t, p.ScoreExtensions().NormalizeScore(t.Context(), cs, pod, list))
	var out []int64
	for _, s := range list {
		out = append(out, s.Score)
	}
	return out
}

// Score passes the node's machine and the pod's verdict to core/score.
func TestScorePrefersTheNodeThatWastesLeast(t *testing.T) {
	half := cpus("half", 8)
	p := newPlugin(t, refuse)
	const machine = "numa 0 socket 0 cpus 0-15 memory 64Gi"
	p.Feed.Layout(layout(t, "fuller", machine, place.BestEffort, 1, holding(half, "0-7")))
	p.Feed.Layout(layout(t, "empty", machine, place.BestEffort, 1))
	if got := scores(t, p, cpus("p", 4), "fuller", "empty"); !slices.Equal(got, []int64{fwk.MaxNodeScore, 85}) {
		t.Errorf("scores %v, want [%d 85]", got, fwk.MaxNodeScore)
	}
	if got := scores(t, p, cpus("p", 4), "empty"); !slices.Equal(got, []int64{fwk.MaxNodeScore}) {
		t.Errorf("the only node's score is %v", got)
	}
}

// A pod that waits for another one's admission on a node, although it could be bound at once on the next one, also
// delays later pods. Pods of one shape need not wait for each other.
func TestAPodGoesWhereItNeedNotWait(t *testing.T) {
	p := newPlugin(t, refuse)
	const machine = "numa 0 socket 0 cpus 0-15 memory 64Gi"
	p.Feed.Layout(layout(t, "fuller", machine, place.BestEffort, 1, holding(cpus("half", 8), "0-7")))
	p.Feed.Layout(layout(t, "empty", machine, place.BestEffort, 1))
	first := cpus("first", 2)
	fits(t, p.Reserve(t.Context(), cycle(t, p, first), first, "fuller"))
	for _, c := range []struct {
		pod    *v1.Pod
		fuller bool // is better
	}{{cpus("other", 4), false}, {cpus("alike", 2), true}} {
		if got := scores(t, p, c.pod, "fuller", "empty"); (got[0] > got[1]) != c.fuller {
			t.Errorf("pod %s, assumed beside first: scores %v of fuller and empty", c.pod.Name, got)
		}
	}
	if _, wait, err := p.Book.Turn(string(first.UID), 0); wait != nil || err != nil {
		t.Fatal("the only assumed pod has to wait: ", err)
	}
	p.Book.Admitted(string(first.UID))
	if got := scores(t, p, cpus("other", 4), "fuller", "empty"); got[0] <= got[1] {
		t.Errorf("the pod before it is admitted, and yet scores are %v", got)
	}
}

// The profile determines how nodes are scored, and a pod may choose for itself, with the profile's weights.
func TestScoringStrategies(t *testing.T) {
	const heavyMemory = `{"scoringStrategy":{"type":"LeastAllocated","resources":[{"name":"memory","weight":4}]}}`
	const machine = "numa 0 socket 0 cpus 0-15 memory 4Gi" // a pod of 4 CPUs and 1Gi takes a quarter
	for _, c := range []struct {
		plugin, args, asks string
		want               []int64 // for fuller, empty, unknown
	}{
		{Name, `{}`, "", []int64{100, 85, 0}},
		{Name, `{"scoringStrategy":{"type":"LeastAllocated"}}`, "", []int64{62, 75, 0}},
		{Name, heavyMemory, "", []int64{70, 75, 0}},
		{Name, heavyMemory, "MostAllocated", []int64{30, 25, 0}},
		{Name, `{"scoringStrategy":{"type":"LeastAllocated"}}`, "Tenon", []int64{100, 85, 0}},
		{Name, `{}`, "BalancedAllocation", []int64{96, 100, 0}},
		{config.Match, `{}`, "", []int64{62, 75, 0}},
		{config.Match, `{"scoringStrategy":{"type":"LeastNUMANodes"}}`, "", []int64{94, 94, 0}},
	} {
		first := newPlugin(t, "")
		factory := (&Shared{Book: first.Book, Feed: first.Feed, Ready: first.Ready}).Factory(c.plugin)
		made, err := factory(t.Context(), &runtime.Unknown{Raw: []byte(c.args)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*Plugin)
		p.Feed.Layout(layout(t, "fuller", machine, place.BestEffort, 1, holding(cpus("half", 8), "0-7")))
		p.Feed.Layout(layout(t, "empty", machine, place.BestEffort, 1))
		pod := cpus("p", 4)
		if c.asks != "" {
			pod = noted(pod, booking.StrategyAnnotation, c.asks)
		}
		if got := scores(t, p, pod, "fuller", "empty", "unknown"); !slices.Equal(got, c.want) {
			t.Errorf("%s %s, pod asks for %q: %v, want %v", c.plugin, c.args, c.asks, got, c.want)
		}
	}
}

func TestAScoringStrategyThatIsNotKnownIsNamed(t *testing.T) {
	p := newPlugin(t, "")
	for value, quoted := range map[string]string{"": `""`, "mostAllocated": `"mostAllocated"`,
		strings.Repeat("x", 999): `"` + strings.Repeat("x", 60) + `..."`} {
		pod := noted(cpus("p", 2), booking.StrategyAnnotation, value)
		_, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
		says(
			t,
			status,
			fwk.UnschedulableAndUnresolvable,
			`pod default/p: annotation tenon.sh/scoring-strategy: unknown value `+quoted+
				`: want one of Tenon, LeastAllocated, MostAllocated, BalancedAllocation, LeastNUMANodes, UnionSpan`,
		)
	}
}

func TestAlignedNodesGoBeforeLooseOnesAndThoseBeforeUnknownOnes(t *testing.T) {
	p := newPlugin(t, "")
	p.Feed.Layout(layout(t, "spread", two, place.BestEffort, 1))
	loose := layout(t, "loose", two, place.None, 1)
	loose.Rules.CPUManagerPolicy, loose.Rules.MemoryManagerPolicy = "none", "None"
	p.Feed.Layout(loose)
	got := scores(t, p, cpus("p", 32), "unknown", "loose", "spread")
	if got[0] != 0 || got[1] <= got[0] || got[2] <= got[1] || got[2] != fwk.MaxNodeScore {
		t.Errorf("scores %v", got)
	}
}

// Score uses the dry run's nodes, not only the ledger.
func TestScoreCountsNominatedPods(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 1))
	p.Feed.Layout(layout(t, "b", two, place.SingleNUMA, 1))
	pod := cpus("p", 4)
	cs := cycle(t, p, pod)
	before, _ := p.Score(t.Context(), cs, pod, nodeInfo("a"))
	fits(t, p.AddPod(t.Context(), cs, pod, podInfo(t, cpus("nominated", 8)), nodeInfo("a")))
	a, _ := p.Score(t.Context(), cs, pod, nodeInfo("a"))
	b, _ := p.Score(t.Context(), cs, pod, nodeInfo("b"))
	if b != before || a >= b {
		t.Errorf("a cost %d and costs %d with a nominated pod, b costs %d", before, a, b)
	}
}
