package plugin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// GPUs that the workload profile's pods need together stay together, although the other node would waste fewer CPUs.
// The profile learns from all profiles of the scheduler.
func TestScoreKeepsWhatUsualPodsNeed(t *testing.T) {
	first := newPlugin(t, refuse)
	shared := &Shared{Book: first.Book, Feed: first.Feed, Ready: first.Ready}
	p, other := pluginOf(t, shared, refuse), pluginOf(t, shared, "{}")
	p.Feed.Layout(
		layout(t, "four", "numa 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b,c,d numa 0", place.SingleNUMA, 1),
	)
	p.Feed.Layout(
		layout(t, "three", "numa 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a,b,c numa 0", place.SingleNUMA, 1),
	)
	one := podOf("one", "cpu=1 memory=1Gi acme.com/gpu=1")
	if got := scores(t, p, one, "four", "three"); !slices.Equal(got, []int64{100, 90}) {
		t.Errorf("scores %v before anything else was asked for: the fuller node is the better one", got)
	}
	for i := range 8 {
		cycle(t, other, podOf(fmt.Sprint("wide", i), "cpu=4 memory=4Gi acme.com/gpu=4"))
	}
	if got := scores(t, p, one, "four", "three"); !slices.Equal(got, []int64{85, 100}) {
		t.Errorf("scores %v after pods of four GPUs were asked for", got)
	}
}
