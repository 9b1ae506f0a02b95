package sched

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
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

// Every pair of nodes differs in one thing, and in the things that count less it is the other way.
func TestScorePrefersTheNodeThatWastesLeast(t *testing.T) {
	half := cpus("half", 8)
	for name, c := range map[string]struct {
		pod           *v1.Pod
		better, worse string // machines, of best-effort nodes
		held          string // CPUs that are held on the better one
	}{
		"fewer numas, though more is left": {pod: cpus("p", 16),
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\nnuma 1 socket 1 cpus 32-63 memory 64Gi",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi"},
		"no device left without CPUs, though numas are farther apart": {pod: cpus("p", 16),
			better: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 40\ndistances 40 10",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 12\ndistances 12 10\n" +
				"device acme.com/gpu a,b numa 0"},
		"numas closer together, though more is left": {pod: cpus("p", 12),
			better: "numa 0 socket 0 cpus 0-9 memory 64Gi\nnuma 1 socket 1 cpus 10-19 memory 64Gi\ndistances 10 12\ndistances 12 10",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 32\ndistances 32 10"},
		"the smaller numa": {pod: cpus("p", 8),
			better: "numa 0 socket 0 cpus 0-7 memory 64Gi", worse: "numa 0 socket 0 cpus 0-31 memory 64Gi"},
		"the fuller numa": {pod: cpus("p", 4), held: "0-7",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi", worse: "numa 0 socket 0 cpus 0-15 memory 64Gi"},
		"more CPUs beside the devices that are free": {pod: cpus("p", 8),
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0",
			worse:  "numa 0 socket 0 cpus 0-9 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"devices that the pod itself wants are no loss": {pod: podOf("p", "cpu=8 memory=1Gi acme.com/gpu=1"),
			better: "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a,b numa 0",
			worse:  "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b numa 0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, refuse)
			better := layout(t, "better", c.better, place.BestEffort, 1)
			if c.held != "" {
				better = layout(t, "better", c.better, place.BestEffort, 1, holding(half, c.held))
			}
			p.feed.Layout(better)
			p.feed.Layout(layout(t, "worse", c.worse, place.BestEffort, 1))
			if got := scores(t, p, c.pod, "better", "worse"); !slices.Equal(got, []int64{fwk.MaxNodeScore, 0}) {
				t.Errorf("scores %v, want [%d 0]", got, fwk.MaxNodeScore)
			}
		})
	}
}

func TestAlignedNodesGoBeforeLooseOnesAndThoseBeforeUnknownOnes(t *testing.T) {
	p := newPlugin(t, "")
	p.feed.Layout(layout(t, "spread", two, place.BestEffort, 1))
	loose := layout(t, "loose", two, place.None, 1)
	loose.Rules.CPUManagerPolicy, loose.Rules.MemoryManagerPolicy = "none", "None"
	p.feed.Layout(loose)
	got := scores(t, p, cpus("p", 32), "unknown", "loose", "spread")
	if got[0] != 0 || got[1] <= got[0] || got[2] <= got[1] || got[2] != fwk.MaxNodeScore {
		t.Errorf("scores %v", got)
	}
}

func TestNormalizeScore(t *testing.T) {
	p := newPlugin(t, "")
	for _, c := range []struct{ costs, want []int64 }{
		{nil, nil},
		{[]int64{77}, []int64{100}},
		{[]int64{0}, []int64{100}},
		{[]int64{5, 5, 5}, []int64{100, 100, 100}},
		{[]int64{10, 20, 30}, []int64{100, 50, 0}},
		{[]int64{costUnknown, costNUMA, 2 * costNUMA}, []int64{0, 100, 98}},
	} {
		var list fwk.NodeScoreList
		for _, x := range c.costs {
			list = append(list, fwk.NodeScore{Score: x})
		}
		fits(t, p.NormalizeScore(t.Context(), nil, nil, list))
		for i, s := range list {
			if s.Score != c.want[i] {
				t.Errorf("costs %v: score %d is %d, want %d", c.costs, i, s.Score, c.want[i])
			}
		}
	}
}

// Score reads what the dry run says, not only the book.
func TestScoreCountsNominatedPods(t *testing.T) {
	p := newPlugin(t, refuse)
	p.feed.Layout(layout(t, "a", two, place.SingleNUMA, 1))
	p.feed.Layout(layout(t, "b", two, place.SingleNUMA, 1))
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
