package trial

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

var (
	jobs   = flag.Int("jobs", 60, "jobs of TestMixedGangs")
	rounds = flag.Int("rounds", 3, "rounds in which they are created")
	seed   = flag.Uint64("seed", 1, "seed of the jobs")
	with   = flag.String("plugin", "tenon", "plugin that places the jobs, such as numa-aware")
)

// job is a gang of equal tasks.
type job struct {
	name      string
	tasks     int
	cpus, gpu int
}

func (j job) String() string {
	return fmt.Sprintf("%s: %d tasks of %d CPUs, %d GPUs", j.name, j.tasks, j.cpus, j.gpu)
}

// mixed returns jobs of 1, 2, 4 or 8 tasks, a third of them with GPUs. Each of them fits an empty cluster.
func mixed(n int, seed uint64) (out []job) {
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...int) int { return from[r.IntN(len(from))] }
	for i := range n {
		j := job{name: fmt.Sprintf("job-%03d", i), tasks: pick(1, 2, 4, 8), cpus: pick(2, 4, 8, 12, 20)}
		if r.IntN(3) == 0 {
			j.gpu = pick(1, 2, 4)
			j.tasks, j.cpus = pick(1, 2, 4), pick(4, 8, 16)
		}
		out = append(out, j)
	}
	return out
}

const namespace = metav1.NamespaceDefault

// submit creates the pod group and the pods of a job.
func (c *cluster) submit(j job) {
	c.Helper()
	group := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: j.name},
		Spec: scheduling.PodGroupSpec{MinMember: int32(j.tasks), Queue: "default"}}
	groups := c.volcano.SchedulingV1beta1().PodGroups(namespace)
	if _, err := groups.Create(c.ctx, group, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(j.cpus), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Gi")}
	if j.gpu > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(int64(j.gpu), resource.DecimalSI)
	}
	for i := range j.tasks {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", j.name, i),
			Labels: map[string]string{"job": j.name}, Annotations: map[string]string{
				scheduling.KubeGroupNameAnnotationKey: j.name, "volcano.sh/task-spec": "worker",
				"volcano.sh/preemptable": "true"}},
			Spec: v1.PodSpec{SchedulerName: "volcano", RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{
				Name: "c", Image: "lab.invalid/c:1", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}}}
		if _, err := c.client.CoreV1().Pods(namespace).Create(c.ctx, p, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
}

// remove deletes a job, and waits until its pods have gone.
func (c *cluster) remove(names ...string) {
	c.Helper()
	for _, name := range names {
		if err := c.volcano.SchedulingV1beta1().PodGroups(namespace).Delete(c.ctx, name, metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		err := c.client.CoreV1().Pods(namespace).DeleteCollection(c.ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "job=" + name})
		if err != nil {
			c.Fatal(err)
		}
	}
	gone := map[string]bool{}
	for _, name := range names {
		gone[name] = true
	}
	c.until("pods of deleted jobs have gone", func() bool {
		for _, p := range c.pods() {
			if gone[p.Labels["job"]] {
				return false
			}
		}
		return true
	})
}

func (c *cluster) pods() []v1.Pod {
	list, err := c.client.CoreV1().Pods(namespace).List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return list.Items
}

// reasons returns what the scheduler says of the pods that have no node.
func (c *cluster) reasons() (out []string) {
	for _, p := range c.pods() {
		for _, x := range p.Status.Conditions {
			if x.Type == v1.PodScheduled && x.Status == v1.ConditionFalse {
				out = append(out, p.Name+": "+x.Message)
			}
		}
	}
	return out
}

// state is what became of the jobs so far.
type state struct {
	running  []string // jobs whose tasks all run
	waiting  []string // jobs of which no task has a node
	between  []string // jobs of which some tasks have a node, and not all of them run
	refused  []string // pods that a kubelet has refused, with its reason
	deciding bool     // the scheduler has not said of every waiting job that it does not fit
}

func (c *cluster) look() (s state) {
	groups, err := c.volcano.SchedulingV1beta1().PodGroups(namespace).List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	bound, running, all := map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range c.pods() {
		name := p.Labels["job"]
		all[name]++
		if p.Spec.NodeName != "" {
			bound[name]++
		}
		switch p.Status.Phase {
		case v1.PodRunning:
			running[name]++
		case v1.PodFailed:
			s.refused = append(s.refused, p.Name+": "+p.Status.Reason+": "+p.Status.Message)
		}
	}
	for i := range groups.Items {
		g := &groups.Items[i]
		switch {
		case running[g.Name] == all[g.Name]:
			s.running = append(s.running, g.Name)
		case bound[g.Name] == 0:
			s.waiting = append(s.waiting, g.Name)
			s.deciding = s.deciding || !unschedulable(g)
		default:
			s.between = append(s.between, g.Name)
		}
	}
	return s
}

func unschedulable(g *scheduling.PodGroup) bool {
	for _, x := range g.Status.Conditions {
		if x.Type == scheduling.PodGroupUnschedulableType && x.Status == v1.ConditionTrue {
			return true
		}
	}
	return false
}

// quiet is how long nothing must change before jobs count as settled: ten sessions of the scheduler.
const quiet = 2 * time.Second

// settle waits until every job runs as a whole or waits as a whole, and that does not change.
func (c *cluster) settle() (s state) {
	c.Helper()
	var before state
	since := time.Now()
	c.until("every gang runs or waits as a whole", func() bool {
		if s = c.look(); !reflect.DeepEqual(s, before) {
			before, since = s, time.Now()
		}
		return len(s.refused) > 0 || len(s.between) == 0 && !s.deciding && time.Since(since) > quiet
	})
	return s
}

// Jobs of 1, 2, 4 and 8 tasks come and go. No kubelet refuses a task, no gang runs in part, every prediction is right,
// and all jobs run in the end.
func TestMixedGangs(t *testing.T) {
	c := start(t, "2xxeon-2s,2xgpu-8")
	log, _ := c.schedule(*with)
	c.ready()
	all, done, next := mixed(*jobs, *seed), 0, 0
	refused, partial := 0, 0
	for done < len(all) {
		for want := min(len(all), next + (len(all)+*rounds-1) / *rounds); next < want; next++ {
			c.submit(all[next])
		}
		s := c.settle()
		refused += len(s.refused)
		partial += len(s.between)
		t.Logf("%d jobs done, %d run, %d wait, %d in part, %d pods refused %.200v", done, len(s.running), len(s.waiting),
			len(s.between), len(s.refused), s.refused)
		if len(s.running) == 0 || len(s.refused) > 0 {
			t.Fatalf("no job runs, or a kubelet refused a pod; %d wait: %v", len(s.waiting), c.reasons())
		}
		// Every other job ends, so that the rest is scattered.
		var end []string
		for i, name := range s.running {
			if i%2 == 0 || next == len(all) {
				end = append(end, name)
			}
		}
		c.remove(end...)
		done += len(end)
	}
	wrong := 0
	for _, line := range c.lines(log) {
		if strings.Contains(line, "did not do what was predicted") {
			wrong++
			t.Log(line)
		}
	}
	t.Logf("%d jobs in %d rounds: %d pods refused, %d partial gangs, %d wrong predictions", len(all), *rounds, refused,
		partial, wrong)
	if refused+partial+wrong > 0 {
		t.Fail()
	}
}
