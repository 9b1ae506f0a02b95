package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A short lease, so that the test need not wait long for a dead leader.
const elected = `leaderElection: {leaderElect: true, resourceNamespace: tenon-system, resourceName: tenon-scheduler,
  leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}
`

const alone = `leaderElection: {leaderElect: false}
`

const replica = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 2
profiles:
- schedulerName: tenon-scheduler
  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
  pluginConfig:
  - name: Tenon
    args: {apiVersion: tenon.sh/v1alpha1, kind: TenonArgs, unknownNodes: Refuse}
`

func configured(c *lab.Cluster, election string) string {
	return replica + election + fmt.Sprintf("clientConnection: {kubeconfig: %q, qps: 1000, burst: 1000}\n",
		c.SchedulerKubeconfig)
}

// ours makes pods use Tenon's scheduler.
func ours(pods []*v1.Pod) []*v1.Pod {
	for _, p := range pods {
		p.Spec.SchedulerName = deploy.Scheduler
	}
	return pods
}

func bound(pods []*v1.Pod) (n int) {
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// leader waits until another scheduler than before holds the lease, and returns its identity.
func leader(ctx context.Context, t *testing.T, client kubernetes.Interface, before string) (now string) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		l, err := client.CoordinationV1().Leases(deploy.Namespace).Get(ctx, deploy.Scheduler, metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			return false, nil // not yet
		}
		now = *l.Spec.HolderIdentity
		return now != "" && now != before, nil
	})
	if err != nil {
		t.Fatalf("wait for a leader after %q: %v", before, context.Cause(ctx))
	}
	return now
}

// The leader dies in the middle of a burst, with bound pods that no node has reported, and pods that are about to be
// bound. The next leader gives no pod what another one holds.
func TestANewLeaderTakesOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, client, pods := programless(ctx, t)
	const seed, size = 7, 90
	first := startProgram(ctx, t, c, configured(c, elected))
	holder := leader(ctx, t, client, "")
	for round := range 3 {
		second := startProgram(ctx, t, c, configured(c, elected))
		if err := workload.Create(ctx, client, ours(workload.Mix(seed, fmt.Sprintf("r%d-", round), size))...); err != nil {
			t.Fatal(err)
		}
		now, err := pods.Until(ctx, func(pods []*v1.Pod) bool { return bound(pods) > 10*(round+1) })
		if err != nil {
			t.Fatal(err)
		}
		first.kill()
		t.Logf("seed %d, round %d: the leader dies when %s", seed, round, workload.Count(now))
		holder = leader(ctx, t, client, holder)
		if now, err = pods.Until(ctx, workload.Settled(size)); err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d, round %d: %s", seed, round, workload.Count(now))
		noRefusal(t, now)
		if err := pods.Clear(ctx, client); err != nil {
			t.Fatal(err)
		}
		first = second
	}
}

// Two schedulers without a lease are a mistake of their administrator: one cannot see the other's reservations before
// they are bound. Kubelets may then refuse pods, but their next try succeeds, no pod is lost, and neither scheduler
// keeps a wrong ledger.
func TestTwoSchedulersInError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, client, pods := programless(ctx, t)
	for range 2 {
		startProgram(ctx, t, c, configured(c, alone))
	}
	const seed, size = 3, 60
	if err := workload.Create(ctx, client, ours(workload.Mix(seed, "a-", size))...); err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for try := 0; ; try++ {
		now, err := pods.Until(ctx, workload.Settled(size))
		if err != nil {
			t.Fatal(err)
		}
		var anew []*v1.Pod // as their controller would
		gone := map[types.UID]bool{}
		for _, p := range now {
			if f, why := workload.FateOf(p); f == workload.Refused {
				t.Logf("pod %s was refused by node %s: %s", p.Name, p.Spec.NodeName, why)
				if err := client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				anew, gone[p.UID] = append(anew, again(p, try)), true
			}
		}
		if refusals += len(anew); len(anew) == 0 {
			break
		}
		const most = 10
		if try == most {
			t.Fatalf("pods are still refused after %d tries", most)
		}
		if err := workload.Create(ctx, client, anew...); err != nil {
			t.Fatal(err)
		}
		_, err = pods.Until(ctx, func(now []*v1.Pod) bool { // the watch may be behind
			return !slices.ContainsFunc(now, func(p *v1.Pod) bool { return gone[p.UID] })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d: %d refusals", seed, refusals)
	// When the cluster is quiet, both have all information.
	if err := pods.Clear(ctx, client); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		p := ours([]*v1.Pod{cores(fmt.Sprintf("calm-%d", i), 16)})
		if err := workload.Create(ctx, client, p...); err != nil {
			t.Fatal(err)
		}
		now, err := pods.Until(ctx, workload.Settled(i+1))
		if err != nil {
			t.Fatal(err)
		}
		noRefusal(t, now)
	}
}

// again returns a pod to create once more under another name.
func again(p *v1.Pod, try int) *v1.Pod {
	name, _, _ := strings.Cut(p.Name, "-try")
	out := workload.Pod(fmt.Sprintf("%s-try%d", name, try+1), p.Spec.Containers...)
	out.Spec.SchedulerName = p.Spec.SchedulerName
	return out
}

// programless returns a cluster of unusual machines without a scheduler.
func programless(ctx context.Context, t *testing.T) (*lab.Cluster, kubernetes.Interface, *workload.Watch) {
	t.Helper()
	c, err := lab.Start(ctx, lab.Config{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	pods, err := workload.Follow(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pods.Stop)
	return c, client, pods
}
