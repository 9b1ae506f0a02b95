//go:build !upto1.36

package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// With the gate PodLevelResourceManagers, pods that request resources as a whole get them as one block under scope pod.
// Under scope container, their containers get CPUs of their own. All predictions are right, and no pod is refused.
func TestPodsGetResourcesAsAWhole(t *testing.T) {
	for scope, held := range map[string][]string{
		"pod":       {" 2-9 [{memory position 0 2147483648}]"},
		"container": {"own 2-5 [{memory position 0 1073741824}]"},
	} {
		t.Run(scope, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			config := fmt.Sprintf("%stopologyManagerScope: %s\nfeatureGates: {PodLevelResourceManagers: true}\n",
				withoutScope, scope)
			w := start(ctx, t, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "own", Machine: "halves"}},
				Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(config)}}},
				scheduler.Tenon)
			w.runs(ctx, t, whole("first"))
			if got := w.held(ctx, t, "first")["first"]; fmt.Sprint(got) != fmt.Sprint(held) {
				t.Errorf("the pod holds %q, want %q", got, held)
			}
			// Each NUMA node has 30 CPUs. Together they fill the node, but for what containers share under scope container.
			w.runs(ctx, t, whole("second"), whole("third"), cores("fourth", 6), whole("fifth"), whole("sixth"), whole("seventh"))
			w.seen.check(t)
			pods, _ := w.pods.Pods()
			noRefusal(t, pods)
		})
	}
}

// whole returns a pod whose spec.resources has 8 CPUs. Container "own" gets 4 of them for itself.
func whole(name string) *v1.Pod {
	list := func(cpu, memory string) v1.ResourceRequirements {
		amounts := v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		return v1.ResourceRequirements{Requests: amounts, Limits: amounts}
	}
	p := workload.Pod(name, v1.Container{Name: "own", Image: "example.com/work:v1", Resources: list("4", "1Gi")},
		v1.Container{Name: "shares", Image: "example.com/work:v1"})
	all := list("8", "2Gi")
	p.Spec.Resources = &all
	return p
}
