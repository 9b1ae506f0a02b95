package score_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// usual is a mix of count shapes: GPUs with CPUs and memory, by ones, twos and fours, and CPUs alone.
func usual(tb testing.TB, count int) *score.Mix {
	var shares []score.Share
	for i := range count {
		text := fmt.Sprintf("cpu=%d memory=%dGi", 2+i, 4+i)
		if i%2 == 0 {
			text += fmt.Sprintf(" acme.com/gpu=%d", 1<<(i/2%3))
		}
		shares = append(shares, score.Share{Pod: pod(tb, text), Weight: int64(count - i)})
	}
	return score.NewMix(shares)
}

// said returns a text for each shape of a mix, with its weight.
func said(m *score.Mix) (out []string) {
	for _, s := range m.Shares() {
		out = append(out, fmt.Sprintf("%s x%d", s.Pod.Shape(), s.Weight))
	}
	return out
}

func TestAMixHasTheHeaviestShapes(t *testing.T) {
	plain, fraction := pod(t, "cpu=2"), pod(t, "cpu=1")
	plain.QoS = place.Burstable
	fraction.Containers[0].MilliCPU = 500
	shares := []score.Share{
		{Pod: pod(t, "cpu=4"), Weight: 10}, {Pod: pod(t, "cpu=2"), Weight: 30}, {Pod: pod(t, "cpu=4"), Weight: 20},
		{Pod: pod(t, "acme.com/gpu=1"), Weight: 4}, {Pod: plain, Weight: 99}, {Pod: fraction, Weight: 99},
		{Pod: nil, Weight: 9}, {Pod: pod(t, "cpu=9"), Weight: 0}, {Pod: pod(t, "cpu=8"), Weight: -4},
	}
	want := []string{"q2;04000 x120", "q2;00,acme.com/gpu=1 x16", "q2;02000 x120"}
	if got := said(score.NewMix(shares)); !slices.Equal(got, want) {
		t.Errorf("the mix is %q, want %q", got, want)
	}
	var many []score.Share
	for i := range 40 {
		many = append(many, score.Share{Pod: pod(t, fmt.Sprintf("cpu=%d", i+1)), Weight: int64(i + 1)})
	}
	if got := score.NewMix(many).Shares(); len(got) != score.MaxShapes || got[0].Pod.Shape() != "q2;040000" {
		t.Errorf("%d shapes, the first %s", len(got), got[0].Pod.Shape())
	}
	many = many[:1]
	for i := range 30 {
		many = append(many, score.Share{Pod: pod(t, fmt.Sprintf("acme.com/kind%d=1", i)), Weight: 1 << 40})
	}
	if got := score.NewMix(many).Shares(); len(got) != 12 || got[11].Pod != many[0].Pod {
		t.Errorf("%d shapes of 30 resources and one of CPUs, which must have a place", len(got))
	}
	if nothing := score.NewMix(nil); len(nothing.Shares()) != 0 || (*score.Mix)(nil).Shares() != nil {
		t.Error("no shares are a mix of something")
	}
}

// Shares in another order, or split in two, give the same mix.
func TestAMixHasNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shares []score.Share
		for range rapid.IntRange(0, 30).Draw(t, "shares") {
			shares = append(shares, score.Share{Pod: drawnPod(t), Weight: rapid.Int64Range(1, 9).Draw(t, "weight")})
		}
		want := said(score.NewMix(shares))
		var cut []score.Share
		for _, s := range rapid.Permutation(shares).Draw(t, "order") {
			cut = append(cut, score.Share{Pod: s.Pod, Weight: s.Weight - 1}, score.Share{Pod: s.Pod, Weight: 1})
		}
		if got := said(score.NewMix(cut)); !slices.Equal(got, want) {
			t.Errorf("%q and %q", want, got)
		}
	})
}

// The mix follows the latest requests; a pod that waits counts once.
func TestTheMixFollowsRequests(t *testing.T) {
	r := score.NewRecent()
	small, large, none := pod(t, "cpu=1"), pod(t, "cpu=8"), pod(t, "")
	if !r.Add("first", small) || len(r.Mix().Shares()) != 1 {
		t.Error("the first pod does not count at once")
	}
	renewed := 0
	for i := range 5000 {
		for range 2 {
			r.Add("waits", large)
			r.Add("nothing", none)
			if r.Add(fmt.Sprint(i), small) {
				renewed++
			}
		}
	}
	if got := said(r.Mix()); !slices.Equal(got, []string{"q2;01000 x255", "q2;08000 x1"}) {
		t.Errorf("the mix is %q after many requests for one pod", got)
	}
	if renewed < 70 || renewed > 100 {
		t.Errorf("the mix was made %d times for 5000 pods", renewed)
	}
	for i := range 1024 - 256 {
		r.Add(fmt.Sprint("large", i), large)
	}
	if got := r.Mix().Shares(); got[0].Pod != large || got[0].Weight < 180 || got[0].Weight > 192 {
		t.Errorf("the mix is %q after 768 of the last 1024 pods were large", said(r.Mix()))
	}
}
