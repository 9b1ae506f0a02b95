package sched

import (
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// An administrator finds what is wrong with a node's report as events on the node, each once.
func TestWhatIsOddAboutAReportIsAnEvent(t *testing.T) {
	s := newSources(klog.Background(), Options{})
	recorder := events.NewFakeRecorder(10)
	s.events.To(recorder)
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
	s.Feed.Topology(topology("n", 1, 16, 16))
	said()
	odd := topology("n", 2, 17, 16)
	s.Feed.Topology(odd)
	said("Warning NodeResourceTopologyOdd zone node-0: cpu: available 17 is outside 0..16; 16 counts")
	odd = odd.DeepCopy()
	odd.ResourceVersion = "3"
	s.Feed.Topology(odd)
	said()
	s.Feed.Topology(topology("n", 4))
	s.Feed.Topology(topology("n", 5))
	said("Warning NodeResourceTopologyRefused NodeResourceTopology of node \"n\": object has no zone")
	long := topology("n", 6, 16, 16)
	for range 12 {
		long.Attributes = append(
			long.Attributes,
			v1alpha2.AttributeInfo{Name: "topologyManagerOption" + strings.Repeat("x", 500+len(long.Attributes)), Value: "1"},
		)
	}
	s.Feed.Topology(long)
	said("Warning NodeResourceTopologyOdd")
}
