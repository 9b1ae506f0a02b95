package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/operators"
)

// All tests share one cluster, whose controllers run. A test begins with what start returns: the empty cluster, with a
// scheduler of its own. It deletes what it creates outside the namespace default.

func TestMain(m *testing.M) {
	controllers.MaybeChild()
	lab.MaybeChild()
	if err := lab.EnableGangs(); err != nil && lab.HasGangs {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// stops end what the tests share, the last one first.
var stops []func() error

func stopShared() error {
	var errs []error
	for i := len(stops) - 1; i >= 0; i-- {
		errs = append(errs, stops[i]())
	}
	return errors.Join(errs...)
}

// sharedCluster starts the cluster once.
var sharedCluster = sync.OnceValues(func() (*lab.Cluster, error) {
	ctx := context.Background()
	definition, err := operators.ProvisioningRequests(ctx)
	if err != nil {
		return nil, err
	}
	c, err := lab.Start(ctx, lab.Config{Nodes: []lab.Node{{Name: "a", Machine: "tight"}, {Name: "b", Machine: "tight"}},
		Machines: fstest.MapFS{"tight.txt": {Data: []byte(machine)}, "tight.yaml": {Data: []byte(kubelet)}},
		CRDs:     [][]byte{definition}, APIs: lab.GangAPIs})
	if err != nil {
		return nil, err
	}
	stops = append(stops, c.Stop)
	m, err := controllers.Start(c.Dir, c.KubeconfigPath)
	if err != nil {
		return nil, err
	}
	stops = append(stops, m.Stop)
	return c, nil
})

// sharedCommand builds kubectl-tenon once.
var sharedCommand = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tenon-queue-")
	if err != nil {
		return "", err
	}
	stops = append(stops, func() error { return os.RemoveAll(dir) })
	program := filepath.Join(dir, "kubectl-tenon")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./cmd/kubectl-tenon")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl-tenon: %w\n%s", err, out)
	}
	return program, nil
})

// clean deletes what earlier tests have left in the namespace default, and waits until the nodes are free.
func (w *world) clean(ctx context.Context, t *testing.T) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), PropagationPolicy: &background}
	for _, kind := range []interface {
		DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	}{
		w.client.AppsV1().ReplicaSets("default"), w.client.AppsV1().StatefulSets("default"),
		w.client.BatchV1().Jobs("default"), w.client.CoreV1().Pods("default"), w.client.CoreV1().PodTemplates("default"),
		w.client.CoordinationV1().Leases("default"), w.client.PolicyV1().PodDisruptionBudgets("default"),
		w.client.ResourceV1().ResourceClaims("default"), w.client.ResourceV1().ResourceClaimTemplates("default"),
	} {
		if err := kind.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.forget(ctx, t)
	for _, node := range []string{"a", "b"} {
		w.cordon(ctx, t, node, false)
	}
	if _, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool { return len(pods) == 0 }); err != nil {
		t.Fatal(err)
	}
	w.free(ctx, t)
}

// forget deletes the requests that are left.
func (w *world) forget(ctx context.Context, t *testing.T) {
	t.Helper()
	list, err := w.requests.In("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Items {
		if err := w.requests.In("default").Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// cordon makes a node schedulable or not.
func (w *world) cordon(ctx context.Context, t *testing.T, node string, is bool) {
	t.Helper()
	if _, err := w.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// deletes deletes an object outside the namespace default at the end of the test.
func deletes(t *testing.T, kind interface {
	Delete(context.Context, string, metav1.DeleteOptions) error
}, name string) {
	t.Helper()
	t.Cleanup(func() {
		if err := kind.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
