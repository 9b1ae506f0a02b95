package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/failures"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// A failed attempt is handled beside the scheduling loop, with the same message as in the loop. An attempt that has
// made room for the pod is handled in the loop, because the next attempts have to respect the nomination.
func TestFailuresAreHandledBesideTheLoop(t *testing.T) {
	c := newYard(t, 3, 50).open(t, "tenon", shippedProfile(t))
	handled := make(chan string, 9)
	c.sched.FailureHandler = func(ctx context.Context, _ framework.Framework, _ *framework.QueuedPodInfo,
		status *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		if ctx.Err() != nil {
			t.Error("an attempt is handled with a context that has ended")
		}
		handled <- status.AsError().Error()
	}
	c.shared.wrapFailureHandler(c.sched)
	pod := podOf("large", "cpu=1000 memory=1Gi")
	nodes := c.f.SnapshotSharedLister().(*internalcache.Snapshot)
	if err := c.sched.Cache.UpdateSnapshot(klog.Background(), nodes); err != nil {
		t.Fatal(err)
	}
	_, err := c.choose(t, framework.NewCycleState(), pod)
	if why := (*framework.FitError)(nil); !errors.As(err, &why) {
		t.Fatalf("a pod larger than any node: %v", err)
	}
	info, err2 := framework.NewPodInfo(pod)
	if err2 != nil {
		t.Fatal(err2)
	}
	fail := func(nominated string) {
		ctx, cancel := context.WithCancel(t.Context())
		c.sched.FailureHandler(ctx, c.f, &framework.QueuedPodInfo{PodInfo: info},
			fwk.NewStatus(fwk.Unschedulable).WithError(err), &fwk.NominatingInfo{NominatedNodeName: nominated}, time.Now())
		cancel()
	}
	fail("")
	want := <-handled // without a line, the loop handles it
	c.shared.failures = failures.New()
	if fail(""); len(handled) > 0 {
		t.Fatalf("the loop handled %q", <-handled)
	}
	if fail("node-00000"); len(handled) != 1 || <-handled != want {
		t.Fatal("the loop did not handle an attempt that nominates a node")
	}
	c.shared.failures.Run(t.Context())
	if got := <-handled; got != want {
		t.Errorf("beside the loop, the message is %q, want %q", got, want)
	}
}
