package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// The program with the configuration and the roles of deploy/scheduler takes its lease and places a pod, and no request
// is refused.
func TestSchedulerAsDeployed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Nodes: []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config, err := os.ReadFile("../../deploy/scheduler/scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const connection = "clientConnection:\n"
	before, after, ok := strings.Cut(string(config), connection)
	if !ok {
		t.Fatalf("the configuration has no %q", connection)
	}
	program := startProgram(ctx, t, c, fmt.Sprintf("%s%s  kubeconfig: %q\n%s", before, connection, c.SchedulerKubeconfig,
		after))
	placed(ctx, t, c)
	program.kill()
	if text := program.said(t); strings.Contains(strings.ToLower(text), "forbidden") {
		t.Errorf("the scheduler says:\n%s", text)
	}
}

// placed fails the test unless a pod for Tenon runs, and Tenon holds its lease.
func placed(ctx context.Context, t *testing.T, c *lab.Cluster) {
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	pods, err := workload.Follow(ctx, client)
	if err != nil {
		t.Error(err)
		return
	}
	defer pods.Stop()
	p := cores("chosen", 4)
	p.Spec.SchedulerName = deploy.Scheduler
	if err := workload.Create(ctx, client, p); err != nil {
		t.Error(err)
		return
	}
	_, err = pods.Until(ctx, func(now []*v1.Pod) bool {
		if len(now) != 1 {
			return false
		}
		fate, _ := workload.FateOf(now[0])
		return fate == workload.Running
	})
	if err != nil {
		t.Error(err)
	}
	l, err := client.CoordinationV1().Leases(deploy.Namespace).Get(ctx, deploy.Scheduler, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		t.Errorf("the lease is not held: %v, %v", l, err)
	}
}
