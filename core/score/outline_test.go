package score_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// The cost of an outline is the cost of the verdict, on any machine in any state, under any policy and workload
// profile.
func TestCostOfAnOutlineIsThatOfTheVerdict(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		u := drawnUsage(t, rapid.IntRange(0, 4).Draw(t, "static CPUs") > 0)
		var shares []score.Share
		for range rapid.IntRange(0, 3).Draw(t, "shares") {
			shares = append(shares, score.Share{Pod: drawnPod(t), Weight: rapid.Int64Range(1, 400).Draw(t, "weight")})
		}
		s := score.Strategy{Mix: score.NewMix(shares)}
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			p := drawnPod(t)
			if len(p.Containers) > 0 && rapid.Bool().Draw(t, "simple") {
				p.Containers = p.Containers[len(p.Containers)-1:]
				p.Containers[0].Kind, p.Containers[0].Devices, p.QoS = place.App, nil, place.Guaranteed
			}
			v := place.Place(u, p)
			if o, ok := place.NewQuestion(p).Outline(u); ok {
				estimated := rapid.Bool().Draw(t, "estimated")
				if got, want := s.CostOf(u, p, o, estimated), s.Cost(u, p, v, estimated); got != want {
					t.Fatalf("outline %+v costs %d, verdict %+v %d", o, got, v, want)
				}
				compared++
			}
			u = u.Hold(v.Holdings...)
		}
	})
	if compared < 20 {
		t.Errorf("only %d verdicts had an outline", compared)
	}
}
