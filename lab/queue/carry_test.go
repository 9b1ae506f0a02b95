package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/workload"
)

var carried = flag.Int("carry.n", 6, "clusters in which TestPlansAreCarriedOut moves pods")

// commandFor is kubectl-tenon for a cluster.
type commandFor struct {
	program, kubeconfig string
}

func newCommand(ctx context.Context, t *testing.T, w *world) commandFor {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl-tenon")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/kubectl-tenon")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl-tenon: %v\n%s", err, out)
	}
	return commandFor{program, w.KubeconfigPath}
}

// run runs a command, and returns its output and exit code.
func (c commandFor) run(ctx context.Context, t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ended := (&exec.ExitError{}); err != nil && !errors.As(err, &ended) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// planned is what the tests read of a plan.
type planned struct {
	Found bool
	Moves []struct{ Name, From string }
}

// plan writes a plan into a file.
func (c commandFor) plan(ctx context.Context, t *testing.T, args ...string) (file string, p planned) {
	t.Helper()
	out, errs, code := c.run(ctx, t, append([]string{"defrag", "-o", "json"}, args...)...)
	if code > 1 {
		t.Fatalf("defrag %v: exit code %d\n%s", args, code, errs)
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, p
}

// sets are controllers of one pod each: ReplicaSets and StatefulSets in turn.
type sets struct {
	*world
	names []string
}

// create creates a controller of a pod, and returns what has become of the pod.
func (s *sets) create(ctx context.Context, t *testing.T, name string, cpus int) workload.Fate {
	t.Helper()
	p := pod(name, "", cpus)
	p.Labels = map[string]string{"set": name}
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	meta := metav1.ObjectMeta{Name: name, Namespace: "default"}
	selector := &metav1.LabelSelector{MatchLabels: p.Labels}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
	var err error
	if len(s.names)%2 == 0 {
		_, err = s.client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template}},
			metav1.CreateOptions{})
	} else {
		_, err = s.client.AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template, ServiceName: "none"},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.names = append(s.names, name)
	var fate workload.Fate
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Labels["set"] == name {
				fate, _ = workload.FateOf(p)
				return fate != workload.Waiting
			}
		}
		return false
	}); err != nil {
		t.Fatalf("the pod of %s: %v", name, err)
	}
	return fate
}

// end deletes controllers with their pods.
func (s *sets) end(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	for _, name := range names {
		if s.client.AppsV1().ReplicaSets("default").Delete(ctx, name, o) != nil {
			if err := s.client.AppsV1().StatefulSets("default").Delete(ctx, name, o); err != nil {
				t.Fatal(err)
			}
		}
		s.names = slices.DeleteFunc(s.names, func(x string) bool { return x == name })
	}
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return slices.Contains(names, p.Labels["set"]) })
	}); err != nil {
		t.Fatalf("the pods of %v do not end: %v", names, err)
	}
}

// runs reports what is wrong with the pods of the controllers and the goal: none may wait, and none may be refused.
func (s *sets) runs(ctx context.Context, t *testing.T, goal string) {
	t.Helper()
	list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		switch fate, why := workload.FateOf(p); {
		case fate == workload.Refused:
			t.Errorf("pod %s was refused: %s: %s", p.Name, why, p.Status.Message)
		case p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil:
			running[p.Labels["set"]] = true
			running[p.Name] = true
		}
	}
	for _, name := range append(slices.Clone(s.names), goal) {
		if !running[name] {
			t.Errorf("%s does not run", name)
		}
	}
	left, err := s.requests.In("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d requests are left: %v", len(left.Items), err)
	}
}

// Whatever the command defrag plans, defrag apply carries out while nothing else happens: the pod that waited runs,
// the controllers' pods run again, and no kubelet refuses one.
func TestPlansAreCarriedOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*carried)*40*time.Second)
	defer cancel()
	w := start(ctx, t)
	m, err := controllers.Start(w.Dir, w.KubeconfigPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	tenon := newCommand(ctx, t, w)
	plans, moves := 0, 0
	for k := range uint64(*carried) {
		r := rand.New(rand.NewPCG(*seed+k, 4))
		s := &sets{world: w}
		for i := range 16 {
			name := fmt.Sprintf("r%d-s%d", k, i)
			if s.create(ctx, t, name, 2+r.IntN(4)) == workload.Pending {
				s.end(ctx, t, name)
				break
			}
		}
		var gone []string
		for _, i := range r.Perm(len(s.names))[:len(s.names)*2/5] {
			gone = append(gone, s.names[i])
		}
		s.end(ctx, t, gone...)
		goal := pod(fmt.Sprintf("r%d-goal", k), "", 11+r.IntN(4))
		w.create(ctx, t, goal)
		if w.tried(ctx, t, goal.Name) == workload.Pending {
			file, p := tenon.plan(ctx, t, "--for", "default/"+goal.Name)
			if p.Found && len(p.Moves) > 0 {
				plans, moves = plans+1, moves+len(p.Moves)
				out, errs, code := tenon.run(ctx, t, "defrag", "apply", file, "--yes", "--answer-timeout", "30s",
					"--run-timeout", "1m")
				if t.Log(out); code != 0 {
					t.Errorf("defrag apply: exit code %d\n%s", code, errs)
				}
				s.runs(ctx, t, goal.Name)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		w.end(ctx, t, goal.Name)
		s.end(ctx, t, slices.Clone(s.names)...)
		w.free(ctx, t)
	}
	t.Logf("%d plans with %d moves", plans, moves)
	if plans == 0 {
		t.Error("no plan was carried out")
	}
}
