package scheduler_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const uneven = `
source made up: a numa of 30 CPUs for pods and one of 10
numa 0 socket 0 cpus 0-31 memory 62Gi
numa 1 socket 1 cpus 32-43 memory 62Gi
distances 10 21
distances 21 10
`

func important(p *v1.Pod) *v1.Pod { p.Spec.PriorityClassName = "important"; return p }

// The amounts of the node would be enough in both cases: only alignment decides who is evicted.
func TestPreemptionEvictsOnlyWhereItHelps(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "uneven", Machine: "uneven"}},
		Machines: fstest.MapFS{"uneven.txt": {Data: []byte(uneven)}, "uneven.yaml": {Data: []byte(halvesConfig)}},
	}, scheduler.Tenon)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "important"}, Value: 1000}
	if _, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.runs(ctx, t, cores("victim", 20), cores("bystander", 4))

	w.create(ctx, t, important(cores("misfit", 34)))
	_, why := w.await(ctx, t, "misfit", workload.Pending)
	contains(t, "pod misfit", why,
		`preemption: 0/1 nodes are available: 1 cannot align container "c" (wants 34 cpu on one numa; best numa has 30 free)`)
	for _, name := range []string{"victim", "bystander"} {
		if p, _ := w.await(ctx, t, name, workload.Running); p.DeletionTimestamp != nil {
			t.Errorf("pod %s is evicted for a pod that would not fit the empty machine", name)
		}
	}

	w.runs(ctx, t, important(cores("urgent", 16)))
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	for _, p := range pods {
		if p.Name == "victim" {
			t.Error("pod victim runs beside the pod that it was evicted for")
		}
	}
	w.await(ctx, t, "bystander", workload.Running)
	w.confirmed(ctx, t, 1)
}
