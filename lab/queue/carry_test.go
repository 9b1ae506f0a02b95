package queue_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/whatif"
	labkubelet "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	rounds = flag.Int("moves.n", 8, "clusters in which TestPlansAreCarriedOut moves pods")
	seed   = flag.Uint64("moves.seed", 1, "the first seed of TestPlansAreCarriedOut")
)

// sets are controllers of one pod each: ReplicaSets, StatefulSets and Jobs in turn.
type sets struct {
	*world
	names []string
}

// create creates a controller of a pod, and reports whether the pod gets a node.
func (s *sets) create(ctx context.Context, t *testing.T, name string, cpus int) (placed bool) {
	t.Helper()
	p := pod(name, "", cpus)
	p.Labels = map[string]string{"set": name}
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	meta := metav1.ObjectMeta{Name: name, Namespace: "default"}
	selector := &metav1.LabelSelector{MatchLabels: p.Labels}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
	var err error
	switch len(s.names) % 3 {
	case 0:
		_, err = s.client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template}},
			metav1.CreateOptions{})
	case 1:
		_, err = s.client.AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template, ServiceName: "none"},
		}, metav1.CreateOptions{})
	case 2:
		template.Annotations = map[string]string{podapi.SafeToEvict: "true", labkubelet.KilledAnnotation: "true"}
		template.Spec.RestartPolicy = v1.RestartPolicyNever
		_, err = s.client.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{ObjectMeta: meta,
			Spec: batchv1.JobSpec{Template: template, BackoffLimit: new(int32(0)), PodFailurePolicy: evictionsAreIgnored}},
			metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.names = append(s.names, name)
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Labels["set"] == name {
				fate, _ := workload.FateOf(p)
				placed = p.Spec.NodeName != ""
				return placed || fate == workload.Pending
			}
		}
		return false
	}); err != nil {
		t.Fatalf("the pod of %s: %v", name, err)
	}
	return placed
}

// allRun waits until the pods of all controllers run.
func (s *sets) allRun(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		running := map[string]bool{}
		for _, p := range pods {
			running[p.Labels["set"]] = running[p.Labels["set"]] || p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil
		}
		return !slices.ContainsFunc(s.names, func(name string) bool { return !running[name] })
	}); err != nil {
		t.Fatalf("not all pods run: %v", err)
	}
}

// fill creates as many controllers as have room, at most 16. Their pods have CPUs by cpus. Two of five end again.
func (s *sets) fill(ctx context.Context, t *testing.T, r *rand.Rand, prefix string, cpus func() int) {
	t.Helper()
	for i := range 16 {
		name := fmt.Sprint(prefix, "-s", i)
		if !s.create(ctx, t, name, cpus()) {
			s.end(ctx, t, name)
			break
		}
	}
	s.allRun(ctx, t)
	var gone []string
	for _, i := range r.Perm(len(s.names))[:len(s.names)*2/5] {
		gone = append(gone, s.names[i])
	}
	s.end(ctx, t, gone...)
}

// evictionsAreIgnored has a Job create a new pod after an eviction, although it allows no failures.
var evictionsAreIgnored = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
	Action: batchv1.PodFailurePolicyActionIgnore,
	OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget,
		Status: v1.ConditionTrue}}}}}

// end deletes controllers with their pods.
func (s *sets) end(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	for _, name := range names {
		if s.client.AppsV1().ReplicaSets("default").Delete(ctx, name, o) != nil &&
			s.client.AppsV1().StatefulSets("default").Delete(ctx, name, o) != nil {
			if err := s.client.BatchV1().Jobs("default").Delete(ctx, name, o); err != nil {
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

// tried waits until a pod has been tried, and returns what became of it.
func (w *world) tried(ctx context.Context, t *testing.T, name string) (fate workload.Fate) {
	t.Helper()
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				fate, _ = workload.FateOf(p)
				return fate != workload.Waiting
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("pod %s: %v", name, err)
	}
	if fate == workload.Refused {
		t.Fatalf("pod %s was refused", name)
	}
	return fate
}

// free waits until the nodes have nothing any more.
func (w *world) free(ctx context.Context, t *testing.T) {
	t.Helper()
	reader, err := kube.NewReader(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		s, _, err := stage.Read(ctx, reader)
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(s.Nodes(), func(n whatif.Node) bool {
			return n.State == nil || len(n.State.Entries) > 0 || n.State.Doubtful() != ""
		}), nil
	})
	if err != nil {
		t.Fatalf("nodes are not free: %v", err)
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
	var states []string
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase != v1.PodRunning || p.DeletionTimestamp != nil {
			states = append(states, fmt.Sprintf("pod %s on %q is %s, deleted %v, %+v", p.Name, p.Spec.NodeName, p.Status.Phase,
				p.DeletionTimestamp, p.Status.Conditions))
		}
		switch fate, why := workload.FateOf(p); {
		case fate == workload.Refused:
			t.Errorf("pod %s was refused: %s: %s", p.Name, why, p.Status.Message)
		case p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil:
			running[p.Labels["set"]] = true
			running[p.Name] = true
		}
	}
	for _, name := range append(slices.Clone(s.names), goal) {
		if name != "" && !running[name] {
			t.Errorf("%s does not run: %s", name, strings.Join(states, "; "))
		}
	}
	left, err := s.requests.In("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d requests are left: %v", len(left.Items), err)
	}
}

// newSets returns the cluster for controllers of pods, and kubectl-tenon.
func newSets(ctx context.Context, t *testing.T) (*sets, commandFor) {
	t.Helper()
	w := start(ctx, t)
	return &sets{world: w}, w.command(t)
}

// scatter creates controllers until a pod does not fit, ends two of five, and creates a pod for most of a NUMA node. It
// returns that pod, and a plan if it waits and pods have to move.
func (s *sets) scatter(ctx context.Context, t *testing.T, r *rand.Rand, tenon commandFor,
	prefix string) (goal, file string, p planned) {
	t.Helper()
	s.fill(ctx, t, r, prefix, func() int { return 2 + r.IntN(4) })
	large := pod(prefix+"-goal", "", 11+r.IntN(4))
	s.world.create(ctx, t, large)
	if s.tried(ctx, t, large.Name) != workload.Pending {
		return large.Name, "", p
	}
	if file, p = tenon.plan(ctx, t, "--for", "default/"+large.Name); !p.Found {
		p.Moves = nil
	}
	return large.Name, file, p
}

// clear ends everything.
func (s *sets) clear(ctx context.Context, t *testing.T, goal string) {
	t.Helper()
	s.world.end(ctx, t, goal)
	s.end(ctx, t, slices.Clone(s.names)...)
	s.free(ctx, t)
}

// Whatever the command defrag plans, defrag apply carries out while nothing else happens: the pod that waited runs,
// the controllers' pods run again, and no kubelet refuses one.
func TestPlansAreCarriedOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*rounds)*40*time.Second)
	defer cancel()
	s, tenon := newSets(ctx, t)
	plans, moves, refused := 0, 0, 0
	for k := range uint64(*rounds) {
		goal, file, p := s.scatter(ctx, t, rand.New(rand.NewPCG(*seed+k, 4)), tenon, fmt.Sprint("r", k))
		if len(p.Moves) > 0 {
			plans, moves = plans+1, moves+len(p.Moves)
			out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {})
			switch {
			case code == 2 && strings.Contains(errs, "no place can be kept for the successors of"):
				refused++ // two of them would have to stay where the pod that waits goes
				s.runs(ctx, t, "")
			case code != 0:
				t.Errorf("defrag apply: exit code %d\n%s%s", code, out, errs)
			default:
				t.Log(out)
				s.runs(ctx, t, goal)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		s.clear(ctx, t, goal)
	}
	t.Logf("%d plans with %d moves, %d of them not begun", plans, moves, refused)
	if plans <= 2*refused {
		t.Error("no plan was carried out")
	}
}

// Others create pods while a plan is carried out. They may take the room of the pod that waits, if their priority is
// higher: then the command fails. The pods that moved run in any case, unless no place was kept for a successor.
func TestPlansAmongOthers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*rounds)*40*time.Second)
	defer cancel()
	s, tenon := newSets(ctx, t)
	classes := s.client.SchedulingV1().PriorityClasses()
	if _, err := classes.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000,
		PreemptionPolicy: new(v1.PreemptNever)}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deletes(t, classes, "high")
	plans, waits, lost := 0, 0, 0
	for k := range uint64(max(2, *rounds/4)) {
		r := rand.New(rand.NewPCG(*seed+k, 5))
		goal, file, p := s.scatter(ctx, t, r, tenon, fmt.Sprint("r", k))
		var others []string
		if len(p.Moves) > 0 {
			plans++
			high := k%2 == 1
			out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {
				for i := range 4 {
					other := pod(fmt.Sprintf("r%d-other%d", k, i), "", 1+r.IntN(4))
					if high {
						other.Spec.PriorityClassName = "high"
					}
					s.world.create(ctx, t, other)
					others = append(others, other.Name)
				}
			})
			// Others may also take the room of a successor for which no place could be kept.
			open := strings.Contains(out, "no place is kept for the successor") && strings.Contains(errs, "the successor of")
			if t.Log(out, errs); code != 0 && code != 2 || code == 2 && !high && !open {
				t.Errorf("defrag apply: exit code %d", code)
			}
			switch {
			case code == 2 && open:
				lost++
				if !high {
					s.world.run(ctx, t, goal)
				}
				s.forget(ctx, t)
			case code == 2:
				waits++
				s.runs(ctx, t, "")
			default:
				s.runs(ctx, t, goal)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		s.world.end(ctx, t, others...)
		s.clear(ctx, t, goal)
	}
	t.Logf("%d plans; %d times others of a higher priority took the room, and %d times others that of a successor", plans,
		waits, lost)
	if plans == 0 {
		t.Error("no plan was carried out")
	}
}

// uids returns the pods that exist, apart from some.
func (s *sets) uids(ctx context.Context, t *testing.T, but ...string) (out []string) {
	t.Helper()
	list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && !slices.Contains(but, p.Name) {
			out = append(out, string(p.UID))
		}
	}
	slices.Sort(out)
	return out
}

// stopped fails the test unless a plan stops with an error that has a part, evicts nothing, and leaves nothing behind.
func (s *sets) stopped(ctx context.Context, t *testing.T, tenon commandFor, goal, file, part string) {
	t.Helper()
	before := s.uids(ctx, t)
	out, errs, code := tenon.run(ctx, t, "defrag", "apply", file, "--yes", "--answer-timeout", "3s")
	if code != 2 || !strings.Contains(errs, part) {
		t.Errorf("exit code %d, want 2 and %q:\n%s%s", code, part, out, errs)
	}
	if after := s.uids(ctx, t); !slices.Equal(before, after) {
		t.Errorf("pods were evicted: %v, before %v", after, before)
	}
	s.nothingLeft(ctx, t, goal)
}

// nothingLeft fails the test if requests are left, or the pod that waits has a nominated node.
func (s *sets) nothingLeft(ctx context.Context, t *testing.T, goal string) {
	t.Helper()
	if left, err := s.requests.In("default").List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("%d requests are left: %v", len(left.Items), err)
	}
	p, err := s.client.CoreV1().Pods("default").Get(ctx, goal, metav1.GetOptions{})
	if err != nil || p.Status.NominatedNodeName != "" {
		t.Errorf("the pod that waits has the nominated node %q: %v", p.Status.NominatedNodeName, err)
	}
}

// A plan that cannot go on evicts nothing, and one that was interrupted goes on.
func TestPlansThatCannotGoOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	s, tenon := newSets(ctx, t)
	goal, file, p := "", "", planned{}
	for k := range uint64(30) {
		prefix := fmt.Sprint("r", k)
		if goal, file, p = s.scatter(ctx, t, rand.New(rand.NewPCG(*seed+k, 4)), tenon, prefix); len(p.Moves) > 1 {
			break
		}
		s.clear(ctx, t, goal)
	}
	if len(p.Moves) < 2 {
		t.Fatal("no plan has two moves")
	}
	if err := s.sched.Stop(); err != nil {
		t.Fatal(err)
	}
	s.stopped(ctx, t, tenon, goal, file, "no scheduler answers whether it keeps places")
	s.sched = nil
	s.schedule(t)

	for i := range 28 { // others take all CPUs that are free
		name := fmt.Sprint("other", i)
		s.world.create(ctx, t, pod(name, "", 2))
		if s.tried(ctx, t, name) == workload.Pending {
			break
		}
	}
	const wrong = "the plan does not work any more"
	if err := wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(context.Context) (bool, error) {
		_, errs, _ := tenon.run(ctx, t, "defrag", "apply", file, "--dry-run")
		return strings.Contains(errs, wrong), nil // the nodes have reported
	}); err != nil {
		t.Errorf("the plan works: %v", err)
	}
	s.stopped(ctx, t, tenon, goal, file, wrong)
	list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, "other") {
			s.world.end(ctx, t, p.Name)
		}
	}

	s.reported(ctx, t, tenon, file)
	out, errs, code := tenon.apply(ctx, t, file, func(c *exec.Cmd) { _ = c.Process.Kill() })
	if t.Log(out); code != -1 {
		t.Errorf("exit code %d of a command that was killed\n%s", code, errs)
	}
	s.reported(ctx, t, tenon, file)
	if out, errs, code = tenon.apply(ctx, t, file, func(*exec.Cmd) {}); code != 0 {
		t.Errorf("defrag apply again: exit code %d\n%s%s", code, out, errs)
	}
	s.world.run(ctx, t, goal)
	s.allRun(ctx, t)
	s.runs(ctx, t, goal)
}

// reported waits until all nodes have reported what has become of their pods: then a plan can be computed again.
func (s *sets) reported(ctx context.Context, t *testing.T, tenon commandFor, file string) {
	t.Helper()
	said := ""
	if err := wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, errs, code := tenon.run(ctx, t, "defrag", "apply", file, "--dry-run")
		said = errs
		return code == 0, nil
	}); err != nil {
		t.Fatalf("the plan does not work: %s", said)
	}
}

// grant binds a role for people to a user.
func (s *sets) grant(ctx context.Context, t *testing.T, role, user string) {
	t.Helper()
	bindings, name := s.client.RbacV1().ClusterRoleBindings(), user+"-"+role
	_, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deletes(t, bindings, name)
}

// The pods of a budget that allows one eviction at a time leave a node one after the other.
func TestANodeIsLeftAsBudgetsAllow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, tenon := newSets(ctx, t)
	for _, name := range []string{"s0", "s1", "s2"} {
		if !s.create(ctx, t, name, 4) {
			t.Fatalf("%s gets no node", name)
		}
	}
	s.allRun(ctx, t)
	list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for _, p := range list.Items {
		on[p.Spec.NodeName]++
	}
	node := "a"
	if on["b"] > on["a"] {
		node = "b"
	}
	if on[node] < 2 {
		t.Fatalf("the pods are on %v", on)
	}
	all := intstr.FromInt32(2)
	_, err = s.client.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "most"}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all,
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "set",
				Operator: metav1.LabelSelectorOpExists}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var file string
	var p planned
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		file, p = tenon.plan(ctx, t, "--empty", node)
		return p.Found, nil // the budget has counted its pods
	})
	if err != nil || len(p.Moves) != on[node] || !p.InSteps {
		t.Fatalf("the plan is %+v: %v", p, err)
	}
	apply := []string{"defrag", "apply", file, "--yes", "--answer-timeout", "30s", "--as", "mary"}
	for _, role := range []string{"", "tenon-operator", "tenon-pod-mover"} {
		if role != "" {
			s.grant(ctx, t, role, "mary")
		}
		out, errs, code := tenon.run(ctx, t, apply...)
		if t.Log(role, out, errs); (code == 0) != (role == "tenon-pod-mover") ||
			code != 0 && !strings.Contains(errs, "Forbidden") {
			t.Errorf("with the role %q, exit code %d", role, code)
		}
	}
	if list, err = s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 3 {
		t.Errorf("there are %d pods: %v", len(list.Items), err)
	}
	for _, p := range list.Items {
		if p.Spec.NodeName == node || p.Status.Phase != v1.PodRunning {
			t.Errorf("pod %s is %s on node %s", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
	n, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil || !n.Spec.Unschedulable {
		t.Errorf("node %s is cordoned: %t, %v", node, n.Spec.Unschedulable, err)
	}
}
