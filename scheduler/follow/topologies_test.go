package follow

import (
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
)

// Faults of a node's report become events on the node, each once.
func TestFaultsOfAReportAreEvents(t *testing.T) {
	s := New(klog.Background(), Options{})
	recorder := events.NewFakeRecorder(10)
	s.Report(recorder)
	s.Feed.Begin()
	said := func(want ...string) {
		t.Helper()
		for _, w := range want {
			select {
			case e := <-recorder.Events:
				if !strings.Contains(e, w) {
					t.Errorf("event %q, want %q", e, w)
				}
			default:
				t.Errorf("no event that says %q", w)
			}
		}
		if len(recorder.Events) > 0 {
			t.Errorf("one event more: %s", <-recorder.Events)
		}
	}
	s.Feed.Topology(kubetest.Topology("n", 1, 16, 16))
	said()
	odd := kubetest.Topology("n", 2, 17, 16)
	s.Feed.Topology(odd)
	said("Warning NodeResourceTopologyOdd zone node-0: cpu: available 17 is outside 0..16; 16 counts")
	odd = odd.DeepCopy()
	odd.ResourceVersion = "3"
	s.Feed.Topology(odd)
	said()
	s.Feed.Topology(kubetest.Topology("n", 4))
	s.Feed.Topology(kubetest.Topology("n", 5))
	said("Warning NodeResourceTopologyRefused NodeResourceTopology of node \"n\": object has no zone")
	long := kubetest.Topology("n", 6, 16, 16)
	for range 12 {
		long.Attributes = append(
			long.Attributes,
			v1alpha2.AttributeInfo{Name: "topologyManagerOption" + strings.Repeat("x", 500+len(long.Attributes)), Value: "1"},
		)
	}
	s.Feed.Topology(long)
	said("Warning NodeResourceTopologyOdd")
}

// The age of a node is the age of the report that the ledger uses, not of another one.
func TestTheAgeOfANodeIsTheAgeOfItsReport(t *testing.T) {
	s := New(klog.Background(), Options{})
	now := time.Unix(1000, 0)
	s.layoutTimes, s.topologyTimes = newReportTimes(
		func() time.Time { return now },
	), newReportTimes(
		func() time.Time { return now.Add(time.Minute) },
	)
	s.Feed.Begin()
	l, o := kubetest.Layout(t, "n", kubetest.Two, place.SingleNUMA, 1), kubetest.Topology("n", 2, 16, 16)
	s.Feed.Layout(l)
	s.layoutTimes.OnAdd(l, true)
	s.Feed.Topology(o)
	s.topologyTimes.OnAdd(o, true)
	if got := s.Reported("n"); !got.Equal(now) {
		t.Errorf("the exact node reported at %v", got)
	}
	l.ResourceVersion = "3"
	s.Feed.LayoutGone(l)
	if got := s.Reported("n"); !got.Equal(now.Add(time.Minute)) {
		t.Errorf("the coarse node reported at %v", got)
	}
	s.Feed.Topology(kubetest.Topology("n", 4))
	if got := s.Problem("n"); got != `NodeResourceTopology of node "n": object has no zone` {
		t.Errorf("problem %q", got)
	}
	if s.Book.Snapshot().Node("n") != nil {
		t.Error("a node whose report is refused is known")
	}
}
