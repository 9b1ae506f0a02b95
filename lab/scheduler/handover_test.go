package scheduler_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab/workload"
)

// The schedulers' Deployment replaces them one after the other when their configuration has changed. The leader that is
// ended gives its lease back, so the next one schedules with the new configuration although the lease would last for
// another hour. No pod is lost, and none is given what another holds.
func TestALeaderThatIsReplacedPassesItsLeaseOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, client, pods := programless(ctx, t)
	const seed, size = 11, 60
	anHour := strings.NewReplacer("leaseDuration: 3s", "leaseDuration: 1h", "renewDeadline: 2s", "renewDeadline: 50m").
		Replace(configured(c, elected))
	first := startProgram(ctx, t, c, anHour)
	holder := leader(ctx, t, client, "")
	startProgram(ctx, t, c, strings.Replace(anHour, "unknownNodes: Refuse", "unknownNodes: Allow", 1))
	if err := workload.Create(ctx, client, ours(workload.Mix(seed, "r-", size))...); err != nil {
		t.Fatal(err)
	}
	now, err := pods.Until(ctx, func(pods []*v1.Pod) bool { return bound(pods) > 10 })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: the leader is ended when %s", seed, workload.Count(now))
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Errorf("the leader ends with an error: %v", err)
	}
	leader(ctx, t, client, holder)
	if now, err = pods.Until(ctx, workload.Settled(size)); err != nil {
		t.Fatal(err)
	}
	noRefusal(t, now)
}
