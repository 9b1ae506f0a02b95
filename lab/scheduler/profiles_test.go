package scheduler_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

func tenons(p *v1.Pod) *v1.Pod {
	p.Spec.SchedulerName = "tenon-scheduler"
	return p
}

// Pods that do not name Tenon's profile go through the default scheduler, and Tenon places around them.
func TestTenonBesideTheDefaultScheduler(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := one(ctx, t, scheduler.Both)
	foreign := cores("foreign", 20)
	foreign.Annotations = map[string]string{"tenon.sh/numa-policy": "not for the default scheduler"}
	w.runs(ctx, t, foreign)
	w.runs(ctx, t, tenons(cores("own", 20)))
	w.create(ctx, t, tenons(cores("more", 16)))
	_, why := w.await(ctx, t, "more", workload.Pending)
	contains(t, "pod more", why, `1 cannot align container "c" (wants 16 cpu on one NUMA node; best NUMA node has 10 free)`)
	w.runs(ctx, t, tenons(cores("small-1", 10)), tenons(cores("small-2", 10)))

	held := w.cpus(ctx, t, "halves", 4)
	for name, numa := range map[string]string{"foreign": "0-31", "own": "32-63"} {
		on, err := idset.Parse[idset.CPU](numa)
		if err != nil {
			t.Fatal(err)
		}
		if got := held[name]; got.Len() != 20 || !got.Minus(on).Empty() {
			t.Errorf("pod %s holds CPUs %s, want 20 of %s", name, got, numa)
		}
	}
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.confirmed(ctx, t, 1)
}

// cpus waits until a node reports this many pods, and returns their CPUs by name.
func (w *world) cpus(ctx context.Context, t *testing.T, node string, pods int) map[string]idset.Set[idset.CPU] {
	t.Helper()
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var l *v1alpha1.NodeLayout
	err = wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (done bool, err error) {
		l, err = layouts.Get(ctx, node, metav1.GetOptions{})
		return err == nil && len(l.Holdings) == pods, err
	})
	if err != nil {
		t.Fatalf("node %s does not report %d pods: %v", node, pods, err)
	}
	c, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]idset.Set[idset.CPU]{}
	for _, e := range c.Entries {
		for _, h := range e.Holdings {
			out[e.Pod.Name] = out[e.Pod.Name].Union(h.CPUs)
		}
	}
	return out
}
