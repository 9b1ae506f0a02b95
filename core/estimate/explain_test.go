package estimate

import (
	"fmt"
	"slices"
	"testing"
)

func uid(n int) string { return fmt.Sprint("pod-", n) }

func TestExplain(t *testing.T) {
	cpu := func(n int64) quantities { return quantities{"cpu": n} }
	for name, c := range map[string]struct {
		now, before quantities
		pods, gone  []int64
		want        []bool // the pods that are counted
	}{
		"came":                      {cpu(6), cpu(2), []int64{4}, nil, []bool{true}},
		"did not come":              {cpu(2), cpu(2), []int64{4}, nil, []bool{false}},
		"one of two came":           {cpu(6), cpu(2), []int64{4, 3}, nil, []bool{true, false}},
		"either of two":             {cpu(6), cpu(2), []int64{4, 4}, nil, []bool{false, false}},
		"both":                      {cpu(10), cpu(2), []int64{4, 4}, nil, []bool{true, true}},
		"left":                      {cpu(2), cpu(6), nil, []int64{4}, []bool{false}},
		"has not left":              {cpu(6), cpu(6), nil, []int64{4}, []bool{true}},
		"one came, one left":        {cpu(5), cpu(6), []int64{3}, []int64{4}, []bool{true, false}},
		"equal ones changed places": {cpu(6), cpu(6), []int64{4}, []int64{4}, []bool{false, true}},
		"nothing explains it":       {cpu(9), cpu(6), []int64{4}, []int64{4}, []bool{false, true}},
	} {
		var pods, gone []candidate
		for i, n := range c.pods {
			pods = append(pods, candidate{uid: uid(i), shape: fmt.Sprint(i), takes: cpu(n)})
		}
		for i, n := range c.gone {
			gone = append(gone, candidate{uid: uid(i + len(c.pods)), takes: cpu(n)})
		}
		out := map[string]bool{}
		explain(c.now, c.before, pods, gone, out)
		var got []bool
		for i := range c.want {
			got = append(got, out[uid(i)])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// If a pod must be in the amounts, it is clear which pod it replaced. Pods of one shape are interchangeable.
func TestExplainWithWhatIsSure(t *testing.T) {
	four := quantities{"cpu": 4}
	out := map[string]bool{}
	came := []candidate{{uid: "came", shape: "x", takes: four, sure: true, admitted: true}}
	explain(four, four, came, []candidate{{uid: "left", takes: four}}, out)
	if !out["came"] || out["left"] {
		t.Errorf("%v, want that one came and the other left", out)
	}
	clear(out)
	explain(four, quantities{}, []candidate{{uid: "unknown", shape: "x", takes: four},
		{uid: "admitted", shape: "x", takes: four, admitted: true}}, nil, out)
	if out["unknown"] || !out["admitted"] {
		t.Errorf("%v, want the one that is known to be admitted", out)
	}
}
