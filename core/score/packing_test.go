package score_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

const gpu = "acme.com/gpu"

// gpuNode has two NUMA nodes with 16 CPUs and 4 GPUs each.
func gpuNode(tb testing.TB, policy place.Policy) *place.Usage {
	return node{policy: policy, machine: "numa 0 socket 0 cpus 0-15 memory 64Gi\n" +
		"numa 1 socket 1 cpus 16-31 memory 64Gi\n" +
		"distances 10 20\ndistances 20 10\ndevice acme.com/gpu a,b,c,d numa 0\ndevice acme.com/gpu e,f,g,h numa 1"}.usage(tb)
}

// usualPods are the shapes with their frequencies.
func usualPods(tb testing.TB, weights map[string]int64) (shares []score.Share) {
	for text, w := range weights {
		shares = append(shares, score.Share{Pod: pod(tb, text), Weight: w})
	}
	slices.SortFunc(shares, func(a, b score.Share) int { return int(b.Weight - a.Weight) })
	return shares
}

// cheapest returns the node with the lowest cost for a pod, the first of equal ones in the given order, and the node
// with the pod; -1 if it fits nowhere.
func cheapest(s score.Strategy, nodes []*place.Usage, order []int, p *place.Pod) (int, *place.Usage) {
	at, low := -1, int64(0)
	var best place.Verdict
	for _, i := range order {
		v := place.Place(nodes[i], p)
		if !v.Fits() {
			continue
		}
		if c := s.Cost(nodes[i], p, v, false); at < 0 || c < low {
			at, low, best = i, c, v
		}
	}
	if at < 0 {
		return -1, nil
	}
	return at, nodes[at].Hold(best.Holdings...)
}

// sequences walks through all orders in which pods of 1, 2, 4 and 8 GPUs may come to two nodes. It counts those in
// which the last pod finds no place although another placement of the pods before it would have left one.
type sequences struct {
	strategy       score.Strategy
	pods           map[int]*place.Pod
	waits, checked int
	first          []int // the first such sequence
}

// come adds one more pod. chosen are the nodes as the strategy has filled them, any are all possible placements of the
// same pods.
func (s *sequences) come(chosen []*place.Usage, any [][]*place.Usage, before []int, gpus int) {
	for _, n := range []int{1, 2, 4, 8} {
		if gpus+n > 16 || len(before) == 6 {
			continue
		}
		next := ways(any, s.pods[n])
		if len(next) == 0 {
			continue
		}
		s.checked++
		all := append(slices.Clone(before), n)
		at, with := cheapest(s.strategy, chosen, []int{0, 1}, s.pods[n])
		if at < 0 {
			if s.waits++; s.first == nil {
				s.first = all
			}
			continue
		}
		nodes := slices.Clone(chosen)
		nodes[at] = with
		s.come(nodes, next, all, gpus+n)
	}
}

// ways returns every way to fill the nodes with one more pod.
func ways(any [][]*place.Usage, p *place.Pod) (out [][]*place.Usage) {
	seen := map[string]bool{}
	for _, nodes := range any {
		for i, u := range nodes {
			v := place.Place(u, p)
			if !v.Fits() {
				continue
			}
			next := slices.Clone(nodes)
			next[i] = u.Hold(v.Holdings...)
			key := fmt.Sprint(next[0].FreeDevices(gpu), next[1].FreeDevices(gpu))
			if !seen[key] {
				seen[key] = true
				out = append(out, next)
			}
		}
	}
	return out
}

// With Tenon's strategy, no pod waits for GPUs that another placement would have kept together, in any order of
// arrival. Spreading shows that the count can be above 0.
func TestGPUsAreKeptTogether(t *testing.T) {
	pods, shares := map[int]*place.Pod{}, []score.Share(nil)
	for _, n := range []int{1, 2, 4, 8} {
		pods[n] = pod(t, fmt.Sprintf("cpu=%d memory=%dGi acme.com/gpu=%d", 3*n, 8*n, n))
		shares = append(shares, score.Share{Pod: pods[n], Weight: 1})
	}
	for _, policy := range []place.Policy{place.SingleNUMA, place.Restricted, place.BestEffort} {
		for _, c := range []struct {
			strategy score.Strategy
			waits    bool
		}{
			{score.Strategy{Mix: score.NewMix(shares)}, false},
			{score.Strategy{Type: score.LeastAllocated}, true},
		} {
			nodes := []*place.Usage{gpuNode(t, policy), gpuNode(t, policy)}
			q := sequences{strategy: c.strategy, pods: pods}
			q.come(nodes, [][]*place.Usage{nodes}, nil, 0)
			if q.waits > 0 != c.waits || q.checked < 500 {
				t.Errorf("%v, policy %v: %d of %d pods wait that could have been placed, the first at the end of %v",
					c.strategy.Type, policy, q.waits, q.checked, q.first)
			}
		}
	}
}

// filled fills sixteen nodes with random pods until the requests exceed the capacity, and returns how many GPUs and
// CPUs are then in use.
func filled(tb testing.TB, s score.Strategy, policy place.Policy, shares []score.Share, seed int64) (gpus, cpus int) {
	const count = 16
	r := rand.New(rand.NewSource(seed))
	var nodes []*place.Usage
	for range count {
		nodes = append(nodes, gpuNode(tb, policy))
	}
	var lots []*place.Pod
	for _, s := range shares {
		lots = append(lots, slices.Repeat([]*place.Pod{s.Pod}, int(s.Weight))...)
	}
	for asked := int64(0); asked < count*32*3/2; {
		p := lots[r.Intn(len(lots))]
		asked += p.Containers[0].MilliCPU / 1000
		if at, with := cheapest(s, nodes, r.Perm(count), p); at >= 0 {
			nodes[at] = with
		}
	}
	for _, u := range nodes {
		gpus += 8 - len(u.FreeDevices(gpu))
		cpus += 32 - u.FreeCPUs().Len()
	}
	return gpus, cpus
}

// A cluster that fills up with pods with and without GPUs has more GPUs in use if the mix is known. It also has more in
// use in all, if a GPU counts as much as the 16 CPUs that it is worth in a mix.
func TestAKnownMixUsesMoreGPUs(t *testing.T) {
	shares := usualPods(t, map[string]int64{
		"cpu=2 memory=4Gi acme.com/gpu=1": 30, "cpu=6 memory=16Gi acme.com/gpu=2": 12, "cpu=12 memory=32Gi acme.com/gpu=4": 8,
		"cpu=24 memory=64Gi acme.com/gpu=8": 3, "cpu=4 memory=8Gi": 20, "cpu=7 memory=20Gi": 10, "cpu=12 memory=4Gi": 5,
	})
	for _, policy := range []place.Policy{place.Restricted, place.BestEffort} {
		used := func(s score.Strategy) (gpus, cpus int) {
			for seed := range int64(40) {
				g, c := filled(t, s, policy, shares, seed)
				gpus, cpus = gpus+g, cpus+c
			}
			return gpus, cpus
		}
		gpus, cpus := used(score.Strategy{Mix: score.NewMix(shares)})
		for name, other := range map[string]score.Strategy{"no mix": {}, "MostAllocated": {Type: score.MostAllocated},
			"LeastAllocated": {Type: score.LeastAllocated}} {
			if g, c := used(other); gpus <= g || 16*gpus+cpus <= 16*g+c {
				t.Errorf("%v: %d GPUs and %d CPUs are used, under %s %d and %d", policy, gpus, cpus, name, g, c)
			}
		}
	}
}
