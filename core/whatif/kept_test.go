package whatif

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// A place that is kept is there for a pod of its request and for no other, and a pod that has come uses it up.
func TestKeptPlacesAreUsedUpOnce(t *testing.T) {
	pod := &place.Pod{Containers: []place.Container{{Name: "c", MilliCPU: 500}}}
	want := func(request string) *Want {
		return &Want{Pod: pod, Needs: Amounts{"cpu": 8000, "pods": 1}, Request: request}
	}
	n := Node{Name: "n", Allocatable: Amounts{"cpu": 16_000, "pods": 10}, Used: Amounts{},
		Kept: map[string]Amounts{"ml/job": {"cpu": 8000, "pods": 1}}}
	place := func(p *Plan, request string, count int) int {
		t.Helper()
		out, err := p.Fill(want(request), count, func(i int) state.PodID {
			return state.PodID{UID: fmt.Sprint(request, i)}
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Placed)
	}
	if got := place(New([]Node{n}, Rules{}), "", 2); got != 1 {
		t.Errorf("%d other pods fit beside the kept place", got)
	}
	if got := place(New([]Node{n}, Rules{}), "ml/job", 3); got != 2 {
		t.Errorf("%d pods of the request fit", got)
	}
	p := New([]Node{n}, Rules{})
	if got := place(p, "ml/job", 1) + place(p, "", 2); got != 2 {
		t.Errorf("%d pods fit once one of the request has come", got)
	}
	if j := (Rules{}).Judge(&Node{Name: "n", Allocatable: n.Allocatable, Used: Amounts{"cpu": 4000}, Kept: n.Kept},
		want(""), nil); j.Fits() || j.Reasons[0].With != "ml/job" {
		t.Errorf("the reason is %v", j.Reasons)
	}
}
