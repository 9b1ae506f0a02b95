//go:build !upto1.36

package operators_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/operators"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	queueJobs = flag.Int("queue.jobs", 30, "how many jobs go through Kueue, in each of four ways")
	queueSeed = flag.Uint64("queue.seed", 1, "seed of the jobs")
)

// The cluster of the crowd: each node gives pods 14 CPUs on each of two NUMA nodes, and a pod has CPUs of one of them.
const (
	crowdNodes   = 4
	cpusPerNUMA  = 14
	crowdCPUs    = crowdNodes * 2 * cpusPerNUMA
	crowdMachine = `
source made up: two NUMA nodes of 14 CPUs for pods each
numa 0 socket 0 cpus 0-15 memory 62Gi
numa 1 socket 1 cpus 16-31 memory 62Gi
distances 10 21
distances 21 10
`
	crowdKubelet = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,16-17
topologyManagerPolicy: single-numa-node
`
)

// job is a Job of equal pods that do not wait for each other.
type job struct {
	name, queue string
	pods, cpus  int
	runs        time.Duration
}

// drawJobs returns jobs of many shapes for a queue: half of them of one pod, the others of two to four. Their names
// begin with a prefix that has no hyphen.
func drawJobs(seed uint64, n int, queue, prefix string) (out []job) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		j := job{name: fmt.Sprintf("%s%04d", prefix, i), queue: queue, pods: 1, cpus: drawCPUs(r)}
		if r.IntN(2) == 0 {
			j.pods = 2 + r.IntN(3)
		}
		j.runs = drawTime(r)
		out = append(out, j)
	}
	return out
}

// drawCPUs returns how many CPUs a pod has, and drawTime how long it runs.
func drawCPUs(r *rand.Rand) int { return 2 + r.IntN(cpusPerNUMA-2) }

func drawTime(r *rand.Rand) time.Duration { return time.Duration(500+r.IntN(2000)) * time.Millisecond }

// pod returns a pod of the job.
func (j job) pod() *v1.Pod {
	p := workload.Pod(j.name, workload.Guaranteed("worker",
		workload.Amounts{"cpu": fmt.Sprint(j.cpus), "memory": "1Gi"}))
	p.Spec.SchedulerName = "tenon-scheduler"
	return p
}

// object returns the job as its user writes it.
func (j job) object() *batchv1.Job {
	n := int32(j.pods)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: j.name, Labels: map[string]string{"kueue.x-k8s.io/queue-name": j.queue}},
		Spec: batchv1.JobSpec{Parallelism: &n, Completions: &n,
			Template: v1.PodTemplateSpec{Spec: j.pod().Spec}}}
}

// The queues of the crowd: one whose quota is all CPUs of the cluster, and the example's, which asks whether there is
// room.
const (
	byQuota = "quota"
	byRoom  = "numa"
)

// Many jobs go through Kueue, more than the cluster has room for at a time. With a quota of all CPUs, Kueue starts jobs
// whose pods then wait, since no NUMA node has their CPUs free. With the admission check no pod waits.
func TestKueueStartsACrowdOfJobs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := startCrowd(ctx, t)
	quota, check := w.crowd(ctx, t, byQuota, nil), w.crowd(ctx, t, byRoom, nil)
	t.Logf("%d jobs, seed %d, on %d nodes with %d CPUs for pods\n%s", *queueJobs, *queueSeed, crowdNodes, crowdCPUs,
		table(column{"quota alone", quota}, column{"check", check}))
	if quota.waited == 0 {
		t.Error("with the quota alone no pod waited: such jobs do not need the admission check")
	}
	if n := check.waited + check.refused + quota.refused; n > 0 {
		t.Errorf("%d jobs that had room have pods that waited or were refused", n)
	}
	if check.requests != *queueJobs || check.again+check.failed+check.expired > 0 {
		t.Errorf("%d requests for %d jobs: %d were made again, %d failed, %d expired", check.requests, *queueJobs,
			check.again, check.failed, check.expired)
	}
}

// startCrowd starts the cluster of the crowd, with its queues.
func startCrowd(ctx context.Context, t *testing.T) *world {
	t.Helper()
	t.Logf("%d jobs, seed %d", *queueJobs, *queueSeed)
	files := fstest.MapFS{"tight.txt": {Data: []byte(crowdMachine)}, "tight.yaml": {Data: []byte(crowdKubelet)}}
	cfg := lab.Config{Machines: files}
	for i := range crowdNodes {
		cfg.Nodes = append(cfg.Nodes, lab.Node{Name: fmt.Sprintf("n%d", i), Machine: "tight"})
	}
	w := startOn(ctx, t, operators.Kueue, cfg)
	if err := rights.Apply(ctx, w.RESTConfig(), queues(t)...); err != nil {
		t.Fatal(err)
	}
	return w
}

// queues returns the example's queue, and one without the check, which has the CPUs of the cluster as its quota.
func queues(t *testing.T) [][]byte {
	t.Helper()
	data, err := os.ReadFile("../../examples/operators/queues/kueue.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(data), "---\napiVersion: batch/v1\n")
	plain := text
	for _, x := range []struct{ old, anew string }{
		{"  admissionChecksStrategy:\n    admissionChecks:\n    - {name: room}\n", ""},
		{"{name: cpu, nominalQuota: 1600}", fmt.Sprintf("{name: cpu, nominalQuota: %d}", crowdCPUs)},
		{byRoom, byQuota},
	} {
		if !strings.Contains(plain, x.old) {
			t.Fatalf("the example's queue has no %q", x.old)
		}
		plain = strings.ReplaceAll(plain, x.old, x.anew)
	}
	return [][]byte{[]byte(text), []byte(plain)}
}

// crowd has jobs come all at once to a queue of the cluster, which has no other jobs, while the pods of a stream, if
// there is one, come and go. It returns when all are gone.
func (w *world) crowd(ctx context.Context, t *testing.T, queue string, beside *stream) result {
	t.Helper()
	prefix := queue
	if beside != nil {
		prefix += beside.name
	}
	jobs := drawJobs(*queueSeed, *queueJobs, queue, prefix)
	r := newRecord(jobs)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.follow(ctx, t, r)
	began := time.Now()
	created := make(chan error, 1)
	go func() { created <- w.create(ctx, jobs) }()
	ended, polls := 0, 0
	var look look
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		for _, p := range r.due(time.Now()) {
			if err := w.FinishPod(ctx, p.node, p.uid); err != nil {
				return false, err
			}
		}
		if err := beside.flow(ctx, w, r, time.Now()); err != nil {
			return false, err
		}
		if polls++; polls%4 == 0 { // it takes some milliseconds
			s := w.sched.Shared.Book.Snapshot()
			fit, asked := r.fitting(s, queue == byQuota)
			look.judge(s)
			look.at(time.Now(), fit, asked, r.idle())
		}
		over := r.over()
		if over >= ended+50 {
			ended = over
			t.Logf("%d of %d jobs have ended after %s", over, len(jobs), time.Since(began).Round(time.Second))
		}
		return over == len(jobs), nil
	})
	took := time.Since(began)
	if err == nil {
		err = <-created
	}
	if err != nil {
		t.Fatalf("wait for the jobs' ends: %v\n%s\n%s", err, r.describe(), w.said(t.Context(), t))
	}
	how := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := w.client.BatchV1().Jobs("default").DeleteCollection(ctx, how, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := beside.end(ctx, w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pods.Until(ctx, func(all []*v1.Pod) bool { return len(all) == 0 }); err != nil {
		t.Fatal(err)
	}
	return r.result(t, took, look)
}

// create creates jobs one after the other.
func (w *world) create(ctx context.Context, jobs []job) error {
	for _, j := range jobs {
		if _, err := w.client.BatchV1().Jobs("default").Create(ctx, j.object(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create job %s: %w", j.name, err)
		}
	}
	return nil
}
