package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	if args := os.Getenv(programEnv); args != "" {
		beScheduler(args)
		return
	}
	os.Exit(m.Run())
}

// outcomes collects the outcomes of predictions.
type outcomes struct {
	first chan struct{} // closed at the first confirmed prediction
	mu    sync.Mutex
	count map[state.Result]int
	wrong []string
}

func newOutcomes() *outcomes { return &outcomes{first: make(chan struct{})} }

func (o *outcomes) add(x state.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == nil {
		o.count = map[state.Result]int{}
	}
	if o.count[x.Result]++; x.Result == state.Confirmed && o.count[x.Result] == 1 {
		close(o.first)
	}
	if x.Result == state.Wrong {
		o.wrong = append(o.wrong, kube.Describe(nil, x))
	}
}

// check fails the test if a prediction was wrong, or if none comes true: a node reports some time after its pods run.
func (o *outcomes) check(t *testing.T) {
	t.Helper()
	select {
	case <-o.first:
	case <-time.After(30 * time.Second):
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.Logf("predictions: %v", o.count)
	for _, w := range o.wrong {
		t.Error(w)
	}
	if o.count[state.Confirmed] == 0 {
		t.Error("no prediction was ever confirmed")
	}
}

// world is a cluster with a scheduler.
type world struct {
	*lab.Cluster
	client kubernetes.Interface
	pods   *workload.Watch
	seen   *outcomes
	sched  *scheduler.Running
	tenon  bool // a profile of the scheduler has Tenon
}

func start(ctx context.Context, t *testing.T, cfg lab.Config, profiles string) *world {
	t.Helper()
	return startOver(ctx, t, cfg, profiles, func(c *lab.Cluster) string { return c.SchedulerKubeconfig })
}

// startOver is start with another way from the scheduler to the API server.
func startOver(ctx context.Context, t *testing.T, cfg lab.Config, profiles string,
	way func(*lab.Cluster) string) *world {
	t.Helper()
	cfg.Progress = func(line string) { t.Log(line) }
	c, err := lab.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, c)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Cluster: c, client: kubernetes.NewForConfigOrDie(c.RESTConfig()), seen: newOutcomes(),
		tenon: scheduler.HasTenon(profiles)}
	s, err := scheduler.Start(c.Dir, way(c), profiles, w.seen.add)
	if err != nil {
		t.Fatal(err)
	}
	w.sched = s
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	return w
}

func keepLogs(t *testing.T, c *lab.Cluster) {
	b, err := os.ReadFile(c.Dir + "/kubelets.log")
	if err == nil && len(b) > 4000 {
		b = b[len(b)-4000:]
	}
	t.Logf("end of the kubelets' log:\n%s", b)
}

// noRefusal fails the test for every pod that a kubelet refused.
func noRefusal(t *testing.T, pods []*v1.Pod) {
	t.Helper()
	for _, p := range pods {
		if f, why := workload.FateOf(p); f == workload.Refused {
			t.Errorf("pod %s was refused by node %s: %s: %s", p.Name, p.Spec.NodeName, why, p.Status.Message)
		}
	}
}

const halves = `
source made up: two numas of 30 CPUs and 60Gi for pods each
numa 0 socket 0 cpus 0-31 memory 62Gi
numa 1 socket 1 cpus 32-63 memory 62Gi
distances 10 21
distances 21 10
`

const halvesConfig = withoutScope + "topologyManagerScope: container\n"

const withoutScope = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,32-33
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
systemReserved: {memory: 3Gi}
evictionHard: {memory.available: 1Gi}
reservedMemory:
- {numaNode: 0, limits: {memory: 2Gi}}
- {numaNode: 1, limits: {memory: 2Gi}}
`

// Schedulers that charge every NUMA node for a pod until a report arrives leave the second one pending.
func TestTwoPodsOfHalfANodeRunAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}},
	}, scheduler.Tenon)
	want := workload.Amounts{"cpu": "16", "memory": "24Gi"}
	began := time.Now()
	for _, name := range []string{"a", "b"} {
		if err := workload.Create(ctx, w.client, workload.Pod(name, workload.Guaranteed("c", want))); err != nil {
			t.Fatal(err)
		}
	}
	pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		n := 0
		for _, p := range pods {
			if f, _ := workload.FateOf(p); f == workload.Running {
				n++
			}
		}
		return n == 2
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("both running after %s", time.Since(began).Round(time.Millisecond))
	noRefusal(t, pods)

	if err := workload.Create(ctx, w.client, workload.Pod("c", workload.Guaranteed("c", want))); err != nil {
		t.Fatal(err)
	}
	pods, err = w.pods.Until(ctx, workload.Settled(3))
	if err != nil {
		t.Fatal(err)
	}
	_, why := workload.FateOf(pods[2])
	if !strings.Contains(why, `1 cannot align container "c" (wants 16 cpu on one NUMA node; best NUMA node has 14 free)`) {
		t.Errorf("pod c says: %s", why)
	}
	t.Log(why)
	if err := w.client.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return len(pods) == 2 && pods[0].Status.Phase == v1.PodRunning && pods[1].Status.Phase == v1.PodRunning
	}); err != nil {
		t.Errorf("pod c does not take the place of pod a: %v", err)
	}
	w.seen.check(t)
}

// A storm on six unusual machines: pods of mixed shapes created at once, deleted, and created again.
func TestStorm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{}, scheduler.Tenon)
	const seed, size = 1, 200
	for round := range 3 {
		began := time.Now()
		pods := workload.Mix(seed, fmt.Sprintf("r%d-", round), size)
		if err := workload.Create(ctx, w.client, pods...); err != nil {
			t.Fatal(err)
		}
		seen, err := w.pods.Until(ctx, workload.Settled(size))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d, round %d: %s after %s", seed, round, workload.Count(seen), time.Since(began).Round(time.Millisecond))
		noRefusal(t, seen)
		for _, p := range seen {
			if f, why := workload.FateOf(p); f == workload.Pending && !strings.Contains(why, "nodes are available") {
				t.Errorf("pod %s does not say why it waits: %q", p.Name, why)
			}
		}
		if err := w.pods.Clear(ctx, w.client); err != nil {
			t.Fatal(err)
		}
	}
	w.seen.check(t)
}
