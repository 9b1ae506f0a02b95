package score_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
)

// The NUMA nodes of CPUs and devices count once if they are the same, and are added up if they are not.
func TestUnionSpan(t *testing.T) {
	const text = "numa 0 cpus 0-3 memory 1Gi\nnuma 1 cpus 4-7 memory 1Gi\nnuma 2 cpus 8-11 memory 1Gi\n" +
		"numa 3 cpus 12-15 memory 1Gi\ndevice nvidia.com/gpu a numa 0\ndevice nvidia.com/gpu b numa 1\n" +
		"device nvidia.com/gpu c numa 2\ndevice nvidia.com/gpu d numa 3\ndevice example.com/seat s numa none\n"
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(m, place.Rules{Topology: place.TopologyRules{Policy: place.BestEffort},
		CPU: place.CPURules{Static: true}})
	for _, c := range []struct {
		asks string
		want int64
	}{
		{"cpu=4 nvidia.com/gpu=1", 88},
		{"cpu=4 nvidia.com/gpu=2", 76},
		{"cpu=8 nvidia.com/gpu=1", 76},
		{"cpu=8 nvidia.com/gpu=4", 52},
		{"cpu=16", 52},
		{"nvidia.com/gpu=2", 76},
		{"example.com/seat=1", 0},
	} {
		p := pod(t, c.asks+" memory=1Mi")
		costs := []int64{score.Strategy{Type: score.UnionSpan}.Cost(u, p, place.Place(u, p), false)}
		score.Strategy{Type: score.UnionSpan}.Scores(costs)
		if costs[0] != c.want {
			t.Errorf("%s: score %d, want %d", c.asks, costs[0], c.want)
		}
	}
}
