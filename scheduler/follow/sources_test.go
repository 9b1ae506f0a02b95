package follow

import (
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
)

// Sources that are never started leave no goroutines: Volcano's plugin makes new ones while starting fails, for example
// because NodeLayouts are not defined.
func TestSourcesThatAreNotStartedLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		New(klog.Background(), Options{})
	}
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("100 sources left %d goroutines", n)
	}
}

// A main program that makes a framework of its own may forget the kubeconfig, which the framework does not demand.
func TestSourcesNeedAKubeconfig(t *testing.T) {
	err := New(klog.Background(), Options{}).Start(t.Context(), API{}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "no kubeconfig") {
		t.Errorf("started without a kubeconfig: %v", err)
	}
}

func TestHealthNamesWhatIsMissing(t *testing.T) {
	s := New(klog.Background(), Options{})
	check := func(want string) {
		t.Helper()
		err := s.Healthy()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("health: %v, want %q", err, want)
		}
	}
	in := false
	s.synced = map[string]cache.InformerSynced{"pods": func() bool { return in }, "layouts": func() bool { return in }}
	check("first list is not in: layouts, pods")
	in = true
	check("what was read at the start is not in the ledger yet")
	close(s.ready)
	check("")
}

// A pod that its node refuses is kept off the node, and its owner gets an event. After a while it may be tried there
// again, even if the node has nothing new to report.
func TestARefusedShapeIsKeptAwayForAWhile(t *testing.T) {
	p := New(klog.Background(), Options{})
	recorder := events.NewFakeRecorder(8)
	var due []func()
	p.rejections.later = func(_ time.Duration, do func()) { due = append(due, do) }
	p.Report(recorder)
	p.Begin()
	refusal := func(n int) string {
		t.Helper()
		spec, err := apipod.ToPlace(kubetest.CPUs("y", n))
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, r := range p.Book.Snapshot().Node("n").Place(spec, place.Demand{}).Reasons {
			texts = append(texts, r.Text())
		}
		return strings.Join(texts, "; ")
	}
	p.Feed.Layout(kubetest.Layout(t, "n", kubetest.Two, place.SingleNUMA, 1))
	x := kubetest.Bound(kubetest.CPUs("x", 16), "n")
	p.Feed.Pod(x)
	x = x.DeepCopy()
	x.Status.Phase, x.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
	p.Feed.PodGone(x)
	if got := refusal(16); got != "node refused such a pod (TopologyAffinityError) and has not reported since" {
		t.Errorf("refusal %q", got)
	}
	if got := refusal(15); got != "" {
		t.Errorf("a pod of another shape is refused: %s", got)
	}
	if e := <-recorder.Events; !strings.Contains(e, "PlacementRefused") || !strings.Contains(e, "0-15") {
		t.Errorf("event %q", e)
	}
	if len(due) != 1 {
		t.Fatalf("%d pardons are due", len(due))
	}
	due[0]()
	if got := refusal(16); got != "" {
		t.Errorf("the shape is kept away for ever: %s", got)
	}
}
