package score_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

var theirTypes = [...]score.Type{score.LeastAllocated, score.MostAllocated, score.BalancedAllocation,
	score.LeastNUMANodes}

// twin is a machine of two equal NUMA nodes.
func twin(cpus int, memory string) string {
	return fmt.Sprintf("numa 0 cpus 0-%d memory %s\nnuma 1 cpus %d-%d memory %s\ndistances 10 20\ndistances 20 10",
		cpus-1, memory, cpus, 2*cpus-1, memory)
}

// The machines and numbers of scheduler-plugins' tests (score_test.go).
func theirs(policy place.Policy, scope place.Scope) []node {
	return []node{
		{machine: twin(4, "500Mi"), policy: policy, scope: scope},
		{machine: twin(2, "50Mi"), policy: policy, scope: scope},
		{machine: twin(6, "60Mi"), policy: policy, scope: scope},
	}
}

func scores(t *testing.T, s score.Strategy, p *place.Pod, nodes []node) (out []int64) {
	t.Helper()
	for _, n := range nodes {
		out = append(out, scored(t, s, p, n))
	}
	return out
}

func TestNumbersOfSchedulerPlugins(t *testing.T) {
	shares := pod(t, "cpu=2 memory=20Mi")
	single, loose := place.SingleNUMA, place.BestEffort
	for _, c := range []struct {
		typ    score.Type
		pod    *place.Pod
		policy place.Policy
		scope  place.Scope
		want   []int64
	}{
		{score.MostAllocated, shares, single, place.PerContainer, []int64{27, 70, 33}},
		{score.BalancedAllocation, shares, single, place.PerContainer, []int64{89, 82, 100}},
		{score.LeastAllocated, shares, single, place.PerContainer, []int64{73, 30, 66}},
		{score.LeastNUMANodes, pod(t, "cpu=2 memory=50Mi"), loose, place.PerContainer, []int64{94, 94, 94}},
		{score.LeastNUMANodes, pod(t, "cpu=4 memory=50Mi"), loose, place.PerContainer, []int64{94, 82, 94}},
		{score.LeastNUMANodes, pod(t, "cpu=6 memory=50Mi"), loose, place.PerContainer, []int64{82, 0, 94}},
		{score.LeastNUMANodes, pod(t, "cpu=2 memory=50Mi", "cpu=2 memory=50Mi"), loose, place.PerContainer,
			[]int64{94, 94, 94}},
		{score.LeastNUMANodes, pod(t, "cpu=1 memory=50Mi", "cpu=3 memory=50Mi"), loose, place.PerContainer,
			[]int64{94, 82, 94}},
		{score.LeastNUMANodes, pod(t, "cpu=5 memory=50Mi", "cpu=3 memory=50Mi"), loose, place.PerContainer,
			[]int64{82, 0, 94}},
		{score.LeastNUMANodes, pod(t, "cpu=2 memory=50Mi", "cpu=2 memory=50Mi"), loose, place.PerPod, []int64{94, 82, 82}},
		{score.LeastNUMANodes, pod(t, "cpu=5 memory=50Mi", "cpu=3 memory=50Mi"), loose, place.PerPod, []int64{82, 0, 82}},
	} {
		if got := scores(t, score.Strategy{Type: c.typ}, c.pod, theirs(c.policy, c.scope)); !slices.Equal(got, c.want) {
			t.Errorf("%v of %s under %v, scope %v: %d, want %d", c.typ, c.pod.Shape(), c.policy, c.scope, got, c.want)
		}
	}
}

// four has four NUMA nodes in two pairs. The GPUs of the first resource are in one pair, those of the second are not.
func four(gpus string) string {
	var b strings.Builder
	for i := range 4 {
		fmt.Fprintf(&b, "numa %d cpus %d-%d memory 8Gi\n", i, 8*i, 8*i+7)
	}
	b.WriteString("distances 10 12 20 20\ndistances 12 10 20 20\ndistances 20 20 10 12\ndistances 20 20 12 10\n")
	for i, numa := range strings.Fields(gpus) {
		fmt.Fprintf(&b, "device acme.com/gpu g%d numa %s\n", i, numa)
	}
	return b.String()
}

func TestLeastNUMANodesPrefersCloseNUMAs(t *testing.T) {
	nodes := []node{{machine: four("0 1"), policy: place.BestEffort}, {machine: four("0 2"), policy: place.BestEffort}}
	s := score.Strategy{Type: score.LeastNUMANodes}
	for gpus, want := range map[int][]int64{1: {94, 94}, 2: {82, 76}} {
		asking := pod(t, fmt.Sprintf("cpu=2 memory=50Mi acme.com/gpu=%d", gpus))
		if got := scores(t, s, asking, nodes); !slices.Equal(got, want) {
			t.Errorf("%d GPUs: %d, want %d", gpus, got, want)
		}
	}
}

// Each difference to scheduler-plugins, in the smallest case in which it changes the result.
func TestDifferencesToSchedulerPlugins(t *testing.T) {
	fullFirst := node{machine: twin(8, "1Gi"), policy: place.SingleNUMA, held: "0-3"}
	ephemeral := twin(8, "1Gi") + "\ndevice acme.com/license l numa none"
	for name, c := range map[string]struct {
		typ  score.Type
		pod  *place.Pod
		node node
		want int64
	}{
		// The kubelet takes NUMA node 0 (4 of 8 CPUs free, memory half taken); in scheduler-plugins NUMA node 1 counts
		// as well.
		"the NUMA node that the kubelet will choose": {score.MostAllocated, pod(t, "cpu=4 memory=512Mi"), fullFirst, 75},
		"numas of a best-effort node": {score.LeastAllocated, pod(t, "cpu=12 memory=1Gi"),
			node{machine: twin(8, "1Gi"), policy: place.BestEffort}, 37},
		"numas of a node with policy none": {score.LeastAllocated, pod(t, "cpu=4 memory=512Mi"),
			node{machine: twin(8, "1Gi")}, 50},
		"containers that fill a NUMA node together": {score.LeastAllocated,
			pod(t, "cpu=4 memory=512Mi", "cpu=4 memory=512Mi"),
			node{machine: twin(8, "1Gi"), policy: place.SingleNUMA, scope: place.PerPod}, 2},
		"containers on a NUMA node each": {score.LeastAllocated, pod(t, "cpu=6 memory=512Mi", "cpu=6 memory=512Mi"),
			node{machine: twin(8, "1Gi"), policy: place.SingleNUMA}, 37},
		"an exact fit is no misfit": {score.LeastAllocated, pod(t, "cpu=8 memory=1Gi"),
			node{machine: twin(8, "1Gi"), policy: place.SingleNUMA}, 2},
		"a resource that has no NUMA nodes": {score.MostAllocated, pod(t, "cpu=4 memory=512Mi acme.com/license=1"),
			node{machine: ephemeral, policy: place.SingleNUMA}, 50},
		"nor keeps it NUMA nodes from being counted": {score.LeastNUMANodes, pod(t, "cpu=4 memory=512Mi acme.com/license=1"),
			node{machine: ephemeral, policy: place.SingleNUMA}, 94},
		"one resource is balanced": {score.BalancedAllocation, pod(t, "cpu=4"),
			node{machine: twin(8, "1Gi"), policy: place.SingleNUMA}, 100},
		"the scale is one for all nodes": {score.LeastNUMANodes, pod(t, "cpu=12"),
			node{machine: twin(8, "1Gi"), policy: place.BestEffort, max: 64}, 82},
		"nothing that has NUMA nodes": {score.LeastNUMANodes, pod(t, "acme.com/license=1"),
			node{machine: ephemeral, policy: place.BestEffort}, 0},
	} {
		if got := scored(t, score.Strategy{Type: c.typ}, c.pod, c.node); got != c.want {
			t.Errorf("%s: %v scores %d, want %d", name, c.typ, got, c.want)
		}
	}
}

func TestWeights(t *testing.T) {
	// cpu 50, memory 96 left
	p, n := pod(t, "cpu=2 memory=20Mi"), node{machine: twin(4, "500Mi"), policy: place.SingleNUMA}
	for _, c := range []struct {
		weights []score.Weight
		want    int64
	}{
		{nil, 73},
		{[]score.Weight{{"cpu", 3}}, 61},
		{[]score.Weight{{"memory", 3}}, 84},
		{[]score.Weight{{"cpu", 0}, {"memory", -7}}, 73}, // 0 becomes 1, as in their defaults
		{[]score.Weight{{"memory", 9}, {"memory", 1}}, 73},
		{[]score.Weight{{"cpu", score.MaxWeight}, {"memory", score.MaxWeight * 8}}, 73},
		{[]score.Weight{{"acme.com/gpu", 100}}, 73},
	} {
		if got := scored(t, score.Strategy{Type: score.LeastAllocated, Weights: c.weights}, p, n); got != c.want {
			t.Errorf("%v: %d, want %d", c.weights, got, c.want)
		}
	}
}

// Machines and pods for which scheduler-plugins divides by zero or exceeds a slice.
func TestUnusualMachinesAndPodsAreScored(t *testing.T) {
	odd := node{machine: "numa 0 cpus 0-7\nnuma 8 cpus 8-15 memory 8Gi\nnuma 50 memory 8Gi"}.usage(t)
	var text strings.Builder
	for i := range 64 {
		fmt.Fprintf(&text, "numa %d cpus %d memory 1Gi\n", 3*i, i)
	}
	many := node{machine: text.String()}.usage(t)
	across := pod(t, "cpu=4 memory=1Gi")
	podLevel := pod(t, "cpu=2 memory=1Gi")
	podLevel.PodLevel = true
	var nine idset.Set[idset.CPU]
	for id := range idset.CPU(9) {
		nine = nine.With(7 * id)
	}
	for name, c := range map[string]struct {
		u    *place.Usage
		pod  *place.Pod
		v    place.Verdict
		want []int64 // of the four strategies
	}{
		"sparse ids, no memory beside the CPUs": {odd, across, place.Place(odd, across), []int64{81, 18, 99, 82}},
		"nine NUMA nodes of sixty-four": {many, across, place.Verdict{Holdings: []place.Holding{{CPUs: nine}}},
			[]int64{2, 100, 100, 3}},
		"pod-level resources": {odd, podLevel, place.Place(odd, podLevel), []int64{0, 0, 0, 0}},
		"no containers":       {odd, pod(t), place.Place(odd, pod(t)), []int64{0, 0, 0, 0}},
		"a refusal": {odd, across, place.Verdict{Refusal: place.TopologyAffinityError},
			[]int64{0, 0, 0, 0}},
	} {
		var got []int64
		for _, typ := range theirTypes {
			s := score.Strategy{Type: typ}
			got = append(got, scoreOf(s, s.Cost(c.u, c.pod, c.v, false)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// What an init container leaves to later containers counts once.
func TestLeftoversOfInitContainersCountOnce(t *testing.T) {
	p := pod(t, "cpu=4 memory=512Mi acme.com/gpu=1", "cpu=4 memory=512Mi acme.com/gpu=1")
	p.Containers[0].Kind = place.Init
	n := node{machine: twin(8, "1Gi") + "\ndevice acme.com/gpu a,b numa 0", policy: place.SingleNUMA}
	if got := scored(t, score.Strategy{Type: score.MostAllocated}, p, n); got != 50 {
		t.Errorf("scores %d, want 50", got)
	}
}
