package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// ordinary is a configuration of two profiles that enable the plugin together with all of kube-scheduler's own.
const ordinary = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 2
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
  pluginConfig: [{name: Tenon, args: {unknownNodes: Refuse}}]
- schedulerName: second-scheduler
  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
  pluginConfig: [{name: Tenon, args: {unknownNodes: Refuse}}]
`

// builtExample builds examples/scheduler as its own module, outside the workspace, and returns the program.
func builtExample(ctx context.Context, t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "scheduler")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "examples", "scheduler")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build examples/scheduler: %v\n%s", err, out)
	}
	return program
}

// Another main program has the plugin only through kube-scheduler's own option. Pods are placed where they are aligned.
// Those that do not fit wait and are woken when room appears, also by another profile's pods. DefaultPreemption evicts
// for pods of higher priority. No kubelet refuses a pod.
func TestThePluginInAnotherMainProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	program := builtExample(ctx, t)
	c, err := lab.Start(ctx, lab.Config{
		Nodes:    []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}},
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Cluster: c, client: kubernetes.NewForConfigOrDie(c.RESTConfig()), seen: newOutcomes()}
	config := configFile(t, fmt.Sprintf(ordinary, c.SchedulerKubeconfig))
	launch(t, exec.CommandContext(ctx, program, "--config="+config, "--bind-address=127.0.0.1", "--secure-port=0",
		"-v=2"))
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	w.furnish(ctx, t)

	t.Log("scheduler is started")
	second := func(p *v1.Pod) *v1.Pod { p.Spec.SchedulerName = "second-scheduler"; return p }
	// The node as a whole has 24 CPUs left, and each NUMA node 12.
	w.runs(ctx, t, low(cores("first", 18)), second(low(cores("other", 18))))
	t.Log("two pods run")
	w.create(ctx, t, low(cores("waits", 20)))
	w.await(ctx, t, "waits", workload.Pending)
	w.ends(ctx, t, "other")
	w.await(ctx, t, "waits", workload.Running)
	t.Log("a pod that waited runs")
	w.create(ctx, t, second(low(cores("behind", 20))))
	w.await(ctx, t, "behind", workload.Pending)
	w.ends(ctx, t, "first")
	w.await(ctx, t, "behind", workload.Running)

	t.Log("a pod of the second profile that waited runs")
	// No pod is evicted that the node has not reported yet.
	w.cpus(ctx, t, "halves", 2)
	w.runs(ctx, t, high(cores("urgent", 24)))
	pods, _ := w.pods.Pods()
	if len(pods) != 2 {
		t.Errorf("one pod goes for the urgent one; there are %s", workload.Count(pods))
	}
	noRefusal(t, pods)
}
