//go:build !upto1.36

package groups_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// The API server takes the example of the page about gangs, and the pods that a controller makes of its Job run.
func TestTheGangOfThePageRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := startNodes(ctx, t)
	_, client, pods := startScheduler(ctx, t, c, scheduler.Tenon, nil)
	page, err := os.ReadFile("../../docs/howto/gangs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	first, second, found := strings.Cut(example, "---\n")
	second, _, _ = strings.Cut(second, "```")
	if !found {
		t.Fatal("the page has no example of two objects")
	}
	var object schedulingv1beta1.PodGroup
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(first), &object); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(second), &job); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SchedulingV1beta1().PodGroups("default").Create(ctx, &object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The lab has no controller of Jobs.
	made, err := client.BatchV1().Jobs("default").Create(ctx, &job, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := group{name: job.Name}
	for i := range *made.Spec.Parallelism {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", job.Name, i), Namespace: "default"},
			Spec: made.Spec.Template.Spec}
		g.pods = append(g.pods, p)
		p.Spec.SchedulerName = v1.DefaultSchedulerName // the name of the only scheduler here
		if i == *made.Spec.Parallelism-1 {
			if all, _ := pods.Pods(); g.progress(all).running > 0 {
				t.Error("a pod runs before all of the gang are there")
			}
			explained(ctx, t, c)
		}
		if err := workload.Create(ctx, client, p); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := pods.Until(ctx, g.runs); err != nil {
		describe(t, nil, all)
		t.Fatal(err)
	}
}

// explained fails the test unless the command of the page finds that the waiting pods of the gang fit, and that one is
// missing.
func explained(ctx context.Context, t *testing.T, c *lab.Cluster) {
	t.Helper()
	out := explain(ctx, t, c, "podgroup/trainer")
	for _, want := range []string{"The 3 pods that wait fit together: ",
		"The group needs 4 pods, and has 3."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
}

// explain returns what "kubectl tenon explain" writes.
func explain(ctx context.Context, t *testing.T, c *lab.Cluster, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./cmd/kubectl-tenon", "explain"}, args...)...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "KUBECONFIG="+c.KubeconfigPath)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("explain %v: %v\n%s", args, err, out)
	}
	return out
}
