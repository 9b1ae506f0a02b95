package chaos

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	cpu "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memory "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A kubelet that cannot start, because it was killed between two writes of a state file, is counted and started again,
// and the run continues.
func TestANodeThatEndedIsStartedAgain(t *testing.T) {
	for file, tear := range map[string]func(*testing.T, string){
		"cpu_manager_state": tearCPUs, "memory_manager_state": tearMemory} {
		t.Run(file, func(t *testing.T) { startedAgain(t, file, tear) })
	}
}

func startedAgain(t *testing.T, file string, tear func(*testing.T, string)) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	r := oneNode(ctx, t)
	c := r.cluster
	p := workload.Pod("p", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
	p.Spec.NodeName = "a"
	runs := func(lives []life) bool {
		return len(lives) > 0 && lives[len(lives)-1].pod.Status.Phase == v1.PodRunning
	}
	if err := r.add(ctx, p); err != nil {
		t.Fatal(err)
	}
	if err := r.record.wait(ctx, "the pod runs", runs); err != nil {
		t.Fatal(err)
	}
	tear(t, filepath.Join(c.NodeDir("a"), file))
	if err := c.RestartKubelet(ctx, "a", ""); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Fatal("the kubelet runs on with a torn file")
	}
	if err := r.restartDead(ctx); err != nil {
		t.Fatal(err)
	}
	if n := r.result.Breakdowns["a kubelet was killed between two writes of "+file]; n != 1 {
		t.Errorf("counted %v", r.result.Breakdowns)
	}
	if err := c.Err(); err != nil {
		t.Errorf("the node runs again, and the cluster says: %v", err)
	}
	if err := c.StopAgent(ctx, "a"); err != nil {
		t.Error(err)
	}
	again := workload.Pod("q", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
	again.Spec.NodeName = "a"
	if err := r.add(ctx, again); err != nil {
		t.Fatal(err)
	}
	next := func(lives []life) bool { return len(lives) == 2 && runs(lives) }
	if err := r.record.wait(ctx, "the next pod runs", next); err != nil {
		now, _ := r.client.CoreV1().Pods("default").Get(t.Context(), "q", metav1.GetOptions{})
		t.Errorf("%v: %+v", err, now.Status)
	}
}

// oneNode starts a cluster with node a, without schedulers.
func oneNode(ctx context.Context, t *testing.T) *run {
	t.Helper()
	c, err := lab.Start(ctx, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "a", Machine: "xeon-2s"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := &run{Options: Options{Say: func(line string) { t.Log(line) }}, cluster: c, stopped: map[string]bool{},
		policy: map[string]int{}, result: Result{Breakdowns: map[string]int{}}}
	if r.client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if r.record, err = follow(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.record.stop)
	return r
}

// tearMemory changes the memory manager's file to its state between two writes: memory is taken that no container has.
func tearMemory(t *testing.T, path string) {
	file := &memory.MemoryManagerCheckpointV1{}
	rewrite(t, path, file, func() { clear(file.Entries) })
}

// tearCPUs changes the CPU manager's file to its state between two writes: no container has the CPUs that are not
// shared.
func tearCPUs(t *testing.T, path string) {
	file := &cpu.CPUManagerCheckpointV2{}
	rewrite(t, path, file, func() { clear(file.Entries) })
}

// rewrite changes a state file of a kubelet.
func rewrite(t *testing.T, path string, file checkpointmanager.Checkpoint, change func()) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.UnmarshalCheckpoint(text); err != nil {
		t.Fatal(err)
	}
	change()
	if text, err = file.MarshalCheckpoint(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
