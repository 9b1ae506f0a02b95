//go:build !upto1.36

package operators_test

import (
	"context"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/lab/operators"
	"github.com/tenon-numa/tenon/lab/workload"
)

// jobPods returns the pods of a Job.
func jobPods(all []*v1.Pod, name string) (out []*v1.Pod) {
	for _, p := range all {
		if p.Labels["batch.kubernetes.io/job-name"] == name {
			out = append(out, p)
		}
	}
	return out
}

// jobRuns waits until all pods of a Job run. It fails the test if a kubelet refuses one.
func (w *world) jobRuns(ctx context.Context, t *testing.T, name string) []*v1.Pod {
	t.Helper()
	all, err := w.pods.Until(ctx, func(all []*v1.Pod) bool {
		n := fates(jobPods(all, name))
		return n[workload.Running] == size || n[workload.Refused] > 0
	})
	if n := fates(jobPods(all, name)); err != nil || n[workload.Refused] > 0 {
		t.Fatalf("the pods of job %s do not all run: %v: %v; %s", name, n, err, w.said(ctx, t))
	}
	return jobPods(all, name)
}

// said returns the conditions of all requests.
func (w *world) said(ctx context.Context, t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, r := range w.asked(ctx, t) {
		out.WriteString(r.Name + ":")
		for _, c := range r.Status.Conditions {
			out.WriteString(" " + c.Type + "=" + string(c.Status) + " (" + c.Message + ")")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (w *world) asked(ctx context.Context, t *testing.T) []provisioning.Request {
	t.Helper()
	requests, err := provisioning.NewClient(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	list, err := requests.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// Kueue asks tenon-scheduler before it starts a Job. The node has room for one Job, and one more pod. So the second Job
// has no pods, although its queue has quota, until the first one is gone; a pod that needs no queue runs meanwhile.
func TestKueueStartsJobsThatHaveRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := start(ctx, t, operators.Kueue)
	text, err := os.ReadFile("../../examples/operators/queues/kueue.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.text = string(text)
	w.apply(ctx, t, w.gang)
	w.onOneNUMANode(ctx, t, w.jobRuns(ctx, t, w.gang))

	w.apply(ctx, t, second)
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		return strings.Contains(w.said(ctx, t), "1 of 3 pods fit now"), nil
	})
	if err != nil {
		t.Fatalf("no request waits for room: %v: %s", err, w.said(ctx, t))
	}
	small := workload.Pod("small", workload.Guaranteed("c", workload.Amounts{"cpu": "26", "memory": "1Gi"}))
	small.Spec.SchedulerName = "tenon-scheduler"
	if err := workload.Create(ctx, w.client, small); err != nil {
		t.Fatal(err)
	}
	all, err := w.pods.Until(ctx, func(all []*v1.Pod) bool { return fates(all)[workload.Running] == size+1 })
	if err != nil {
		t.Fatalf("a pod that needs no queue does not run: %v", err)
	}
	if n := len(jobPods(all, second)); n > 0 {
		t.Errorf("the job that has no room has %d pods", n)
	}

	how := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := w.others.Resource(w.object).Namespace("default").Delete(ctx, w.gang, how); err != nil {
		t.Fatal(err)
	}
	w.onOneNUMANode(ctx, t, w.jobRuns(ctx, t, second))
}
