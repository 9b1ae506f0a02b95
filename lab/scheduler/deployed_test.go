package scheduler_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/cluster/sched"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// programEnv makes the test binary the program tenon-scheduler, with the arguments that it has.
const programEnv = "TENON_TEST_SCHEDULER"

func beScheduler(args string) {
	cmd := sched.NewCommand(context.Background())
	cmd.SetArgs(strings.Fields(args))
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The program with the configuration and the roles of deploy/scheduler takes its lease and places a pod
// that asks for it, and is refused nothing.
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
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	config = fmt.Appendf(config, "clientConnection: {kubeconfig: %q}\n", c.SchedulerKubeconfig)
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, free, err := net.SplitHostPort(port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port.Close()
	program := exec.CommandContext(ctx, os.Args[0])
	// In a cluster it finds the API server by itself, for its own port's sake too.
	program.Env = append(os.Environ(), fmt.Sprintf("%s=--config=%s --bind-address=127.0.0.1 --secure-port=%s "+
		"--authentication-kubeconfig=%[4]s --authorization-kubeconfig=%[4]s", programEnv, file, free, c.SchedulerKubeconfig))
	program.Stdout, program.Stderr = log, log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	placed(ctx, t, c)
	program.Process.Kill()
	program.Wait() // its error is that it was killed
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if t.Failed() || strings.Contains(strings.ToLower(string(text)), "forbidden") {
		t.Errorf("the scheduler says:\n%s", text)
	}
}

// placed fails the test unless a pod that asks for Tenon runs, and Tenon holds its lease.
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
