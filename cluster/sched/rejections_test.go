package sched

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/config"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/place"
)

// A pod that its node refuses is not sent there again, and its owner is told; after a while it may be
// tried again, though the node has nothing new to report.
func TestARefusedShapeIsKeptAwayForAWhile(t *testing.T) {
	p := newPlugin(t, refuse)
	recorder := events.NewFakeRecorder(8)
	var due []func()
	told := report.NewEvents(klog.Background())
	told.To(recorder)
	r := &rejections{
		events:  told,
		pardon:  p.Book.Pardon,
		machine: (&Shared{Book: p.Book}).machine,
		later:   func(_ time.Duration, do func()) { due = append(due, do) },
	}
	p.Feed = kube.NewFeed(p.Book, r.onOutcome, nil)
	p.Feed.Begin()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	x := bind(cpus("x", 16), "n")
	p.Feed.Pod(x)
	x = x.DeepCopy()
	x.Status.Phase, x.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
	p.Feed.PodGone(x)
	status := filter(t, p, cycle(t, p, cpus("y", 16)), "n")
	if !slices.Equal(
		status.Reasons(),
		[]string{"node refused such a pod (TopologyAffinityError) and has not reported since"},
	) {
		t.Errorf("status %v", status)
	}
	fits(t, filter(t, p, cycle(t, p, cpus("z", 15)), "n"))
	if e := <-recorder.Events; !strings.Contains(e, "PlacementRefused") || !strings.Contains(e, "0-15") {
		t.Errorf("event %q", e)
	}
	if len(due) != 1 {
		t.Fatalf("%d pardons are due", len(due))
	}
	due[0]()
	fits(t, filter(t, p, cycle(t, p, cpus("y", 16)), "n"))
}

func TestSilentNodes(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	x := bind(cpus("x", 1), "n")
	p.Book.Assume("n", kube.ID(x), mustPod(t, x))
	p.Book.Admitted(string(x.UID))
	p.Book.Overdue(string(x.UID))
	pod := cpus("y", 1)
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	p.args.SilentNodes = config.Refuse
	if status := filter(t, p, cycle(t, p, pod), "n"); status.Message() != "node's agent is silent: a report is overdue" {
		t.Errorf("status %v", status)
	}
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2, holding(x, "0")))
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	p.Book.Overdue(string(x.UID)) // which is reported by now
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
}

func mustPod(t *testing.T, pod *v1.Pod) *place.Pod {
	t.Helper()
	p, err := apipod.ToPlace(pod)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
