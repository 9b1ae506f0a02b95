package trial

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"github.com/tenon-numa/tenon/lab/volcano"
)

const namespace = metav1.NamespaceDefault

// job is a gang of equal tasks.
type job struct {
	name      string
	tasks     int
	cpus, gpu int
}

func (j job) String() string {
	return fmt.Sprintf("%s: %d tasks of %d CPUs, %d GPUs", j.name, j.tasks, j.cpus, j.gpu)
}

// task is a task of a job whose pods take CPUs and GPUs of one NUMA node.
func task(name string, replicas, cpus, gpus int) batch.TaskSpec {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Gi")}
	if gpus > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	return batch.TaskSpec{Name: name, Replicas: int32(replicas), TopologyPolicy: batch.SingleNumaNode,
		Template: v1.PodTemplateSpec{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64),
			Containers: []v1.Container{{Name: "c", Image: "lab.invalid/c:1",
				Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}}}}
}

// manifest returns the job as a user writes it. If a task fails, Volcano restarts the whole job, three times at most.
func (j job) manifest() *batch.Job {
	return &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: j.name}, Spec: batch.JobSpec{SchedulerName: "volcano",
		MinAvailable: int32(j.tasks), MaxRetry: 3, Tasks: []batch.TaskSpec{task("worker", j.tasks, j.cpus, j.gpu)},
		Policies: []batch.LifecyclePolicy{{Event: bus.PodFailedEvent, Action: bus.RestartJobAction}}}}
}

// submit creates a job. Volcano's controllers create its pods.
func (c *cluster) submit(jobs ...*batch.Job) {
	c.Helper()
	for _, j := range jobs {
		if _, err := c.volcano.BatchV1alpha1().Jobs(namespace).Create(c.ctx, j, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) job(name string) *batch.Job {
	c.Helper()
	j, err := c.volcano.BatchV1alpha1().Jobs(namespace).Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return j
}

func (c *cluster) pods() []v1.Pod {
	c.Helper()
	list, err := c.client.CoreV1().Pods(namespace).List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return list.Items
}

// finishing makes the tasks of a job end as soon as they start.
func finishing(j *batch.Job) *batch.Job {
	for i := range j.Spec.Tasks {
		j.Spec.Tasks[i].Template.Annotations = map[string]string{"lab.tenon.sh/finishes": "true"}
	}
	return j
}

// Volcano's controllers create the pods of a job, and the second task's pods once the first task runs. They complete a
// job whose tasks end. Volcano's webhooks set a job's missing fields, and reject a job that cannot run. A deleted job
// leaves nothing.
func TestJobsOfVolcanosControllers(t *testing.T) {
	c := start(t, "2xxeon-2s,gpu-8")
	c.schedule(volcano.Tenon)
	documented := &batch.Job{}
	text, err := os.ReadFile("../../docs/examples/volcano-job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, documented); err != nil {
		t.Fatal(err)
	}
	train := job{name: "staged", tasks: 2, cpus: 8}.manifest()
	driver := task("driver", 1, 2, 0)
	driver.DependsOn = &batch.DependsOn{Name: []string{"worker"}}
	train.Spec.Tasks = append(train.Spec.Tasks, driver)
	c.submit(documented, train, finishing(job{name: "short", tasks: 4, cpus: 8}.manifest()))
	if got := c.job("staged").Spec.Queue; got != "default" {
		t.Errorf("job staged is in queue %q, want the one that the webhook writes", got)
	}
	c.until("all tasks of the job run", func() bool {
		j := c.job("staged")
		return j.Status.Running == 3 && j.Status.State.Phase == batch.Running
	})
	c.until("the documented job runs", func() bool { return c.job(documented.Name).Status.Running == 4 })
	c.until("the short job completes", func() bool { return c.job("short").Status.State.Phase == batch.Completed })
	succeeded := 0
	for _, p := range c.pods() {
		if p.Status.Phase == v1.PodSucceeded {
			succeeded++
		}
		if got := p.Annotations["volcano.sh/numa-topology-policy"]; got != string(batch.SingleNumaNode) {
			t.Errorf("pod %s: the controller has written the policy %q", p.Name, got)
		}
	}
	if succeeded != 4 {
		t.Errorf("%d tasks succeeded, want the four of the short job", succeeded)
	}
	impossible := job{name: "impossible", tasks: 2, cpus: 8}.manifest()
	impossible.Spec.MinAvailable = 3
	_, err = c.volcano.BatchV1alpha1().Jobs(namespace).Create(c.ctx, impossible, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "minAvailable") {
		t.Errorf("a job that needs more tasks than it has: %v, want a refusal", err)
	}
	c.remove(documented.Name, "staged", "short")
}
