package trial

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tenon-numa/tenon/lab/volcano"
)

// on binds a job to a node by a node selector.
func on(node string, j *batch.Job) *batch.Job {
	j.Spec.Tasks[0].Template.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	return j
}

// A job evicts no tasks from a node that its node selector excludes, though they are less important and their CPUs
// would be enough. Its own node is full of tasks that must not be evicted.
func TestPreemptionKeepsToNodeSelectors(t *testing.T) {
	c := start(t, "2xxeon-2s")
	c.schedule(volcano.Tenon)
	nodes, err := c.client.CoreV1().Nodes().List(c.ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Fatalf("%d nodes, want 2: %v", len(nodes.Items), err)
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	if _, err := c.client.SchedulingV1().PriorityClasses().Create(c.ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first, second := nodes.Items[0].Name, nodes.Items[1].Name
	low := on(second, job{name: "low", tasks: 8, cpus: 12}.manifest())
	low.Spec.MinAvailable = 1
	low.Spec.Tasks[0].Template.Annotations = map[string]string{"volcano.sh/preemptable": "true"}
	c.submit(on(first, job{name: "keep", tasks: 8, cpus: 12}.manifest()), low)
	c.whole("keep", "low")
	before := map[string]bool{}
	for _, p := range c.pods() {
		before[string(p.UID)] = true
	}
	high := on(first, job{name: "high", tasks: 1, cpus: 12}.manifest())
	high.Spec.PriorityClassName = "high"
	c.submit(high)
	c.settle()
	for _, p := range c.pods() {
		switch {
		case p.Labels[batch.JobNameKey] == "high":
			if p.Spec.NodeName != "" {
				t.Errorf("the important task is bound to %s, which is full", p.Spec.NodeName)
			}
		case !before[string(p.UID)]:
			t.Errorf("task %s was evicted from a node that the important task may not use", p.Name)
		}
	}
	c.remove("high", "keep", "low")
}
