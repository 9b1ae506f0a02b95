package queue_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/lab/workload"
)

var program = flag.String("descheduler", "",
	"program tenon-descheduler; without it, the tests of the descheduler are skipped")

// descheduler is the program with the plugin TenonMakeRoom, as a service account with the rights that the
// documentation gives it.
type descheduler struct {
	*sets
	kubeconfig string
}

// newDescheduler gives the descheduler's service account its rights.
func newDescheduler(ctx context.Context, t *testing.T, s *sets) *descheduler {
	t.Helper()
	const namespace, name = "kube-system", "descheduler-sa"
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	// The role of the descheduler's own manifests, as far as a single run needs it.
	own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "descheduler-cluster-role"},
		Rules: []rbacv1.PolicyRule{rule("events.k8s.io", "events", "create", "update"),
			rule("", "nodes", "get", "watch", "list"), rule("", "namespaces", "get", "watch", "list"),
			rule("", "pods", "get", "watch", "list", "delete"), rule("", "pods/eviction", "create"),
			rule("scheduling.k8s.io", "priorityclasses", "get", "watch", "list"),
			rule("policy", "poddisruptionbudgets", "get", "watch", "list"),
			rule("", "persistentvolumeclaims", "get", "watch", "list")}}
	roles, bindings := s.client.RbacV1().ClusterRoles(), s.client.RbacV1().ClusterRoleBindings()
	if _, err := roles.Create(ctx, own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deletes(t, roles, own.Name)
	for _, role := range []string{own.Name, "tenon-operator", "tenon-pod-mover"} {
		b, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "descheduler-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		deletes(t, bindings, b.Name)
	}
	config, err := clientcmd.LoadFromFile(s.KubeconfigPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + namespace + ":" + name
	}
	d := &descheduler{s, filepath.Join(t.TempDir(), "kubeconfig")}
	if err := clientcmd.WriteToFile(*config, d.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return d
}

// once runs the descheduler once, and returns its log. limits are lines of the policy, filter the arguments of its
// evictor, and args the arguments of the plugin, as JSON.
func (d *descheduler) once(ctx context.Context, t *testing.T, limits, filter, args string) string {
	t.Helper()
	out, err := d.command(ctx, t, limits, filter, args).CombinedOutput()
	if err != nil || strings.Contains(string(out), "forbidden") {
		t.Fatalf("the descheduler: %v\n%s", err, out)
	}
	return string(out)
}

// command returns the command that runs the descheduler once.
func (d *descheduler) command(ctx context.Context, t *testing.T, limits, filter, args string) *exec.Cmd {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
%s
profiles:
- name: room
  pluginConfig:
  - {name: DefaultEvictor, args: %s}
  - {name: TenonMakeRoom, args: %s}
  plugins:
    balance: {enabled: [TenonMakeRoom]}
`, limits, filter, args), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(ctx, *program, "--kubeconfig", d.kubeconfig, "--policy-config-file", policy,
		"--secure-port", "0")
}

// dry runs the descheduler dry until it has simulated a number of evictions: the cache of its dry run fills while it
// runs.
func (d *descheduler) dry(ctx context.Context, t *testing.T, args string, evictions int) string {
	t.Helper()
	c := d.command(ctx, t, "", "{}", args)
	c.Args = append(c.Args, "--dry-run", "--descheduling-interval", "1s", "-v=1")
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for lines := bufio.NewScanner(pipe); evictions > 0 && lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Evicted pod in dry run mode") {
			evictions--
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
	if evictions > 0 || strings.Contains(out.String(), "forbidden") {
		t.Errorf("%d more evictions should have been simulated:\n%s", evictions, out.String())
	}
	return out.String()
}

// idle fails the test unless a run of the descheduler evicts nothing and leaves nothing behind.
func (d *descheduler) idle(ctx context.Context, t *testing.T, goal string, run func() (log string)) {
	t.Helper()
	before := d.uids(ctx, t)
	log := run()
	if after := d.uids(ctx, t); !slices.Equal(before, after) {
		t.Errorf("pods were evicted: %v, before %v\n%s", after, before, log)
	}
	if left, err := d.requests.In("default").List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("%d requests are left: %v", len(left.Items), err)
	}
	templates, err := d.client.CoreV1().PodTemplates("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(templates.Items) > 0 {
		t.Errorf("%d templates are left: %v", len(templates.Items), err)
	}
	p, err := d.client.CoreV1().Pods("default").Get(ctx, goal, metav1.GetOptions{})
	if err != nil || p.Status.NominatedNodeName != "" {
		t.Errorf("the pod that waits has the nominated node %q: %v", p.Status.NominatedNodeName, err)
	}
}

// The descheduler makes room for a pod that waits: it runs, the pods that moved run again, and no kubelet refuses one.
// Before that, nothing is evicted and nothing is written in a dry run, when a limit of the policy is smaller than the
// plan, and when the evictor's filters refuse the pods.
func TestTheDeschedulerMakesRoom(t *testing.T) {
	if *program == "" {
		t.Skip("no -descheduler: \"go run ./test descheduler\" builds it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute+time.Duration(*rounds)*90*time.Second)
	defer cancel()
	s, tenon := newSets(ctx, t)
	d := newDescheduler(ctx, t, s)
	const args = `{pendingFor: 0s, most: 10, keep: %s, answerTimeout: 30s, runTimeout: 30s}`
	possible := fmt.Sprintf(args, "IfPossible")
	plans, moves, whole := 0, 0, 0
	for k := range uint64(*rounds) {
		goal, _, p := s.scatter(ctx, t, rand.New(rand.NewPCG(*seed+k, 6)), tenon, fmt.Sprint("r", k))
		if len(p.Moves) > 0 {
			plans, moves = plans+1, moves+len(p.Moves)
			d.idle(ctx, t, goal, func() string { return d.dry(ctx, t, possible, len(p.Moves)) })
			for _, x := range []struct{ limits, filter, text string }{
				{"maxNoOfPodsToEvictTotal: 0", "{}", "the policy allows no evictions"},
				{fmt.Sprint("maxNoOfPodsToEvictTotal: ", len(p.Moves)-1), "{}", "reason="},
				{"maxNoOfPodsToEvictPerNamespace: 0", "{}", "No choice of these pods"},
				{"maxNoOfPodsToEvictPerNode: 0", "{}", "No choice of these pods"},
				{"", "{labelSelector: {matchLabels: {movable: never}}}", "is refused by the descheduler's filters"},
			} {
				d.idle(ctx, t, goal, func() string {
					log := d.once(ctx, t, x.limits, x.filter, possible)
					if !strings.Contains(log, x.text) {
						t.Errorf("%s %s: the log has no %q:\n%s", x.limits, x.filter, x.text, log)
					}
					return log
				})
			}
			whole += d.moves(ctx, t, goal, fmt.Sprintf(args, "Always"), possible)
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		s.clear(ctx, t, goal)
	}
	t.Logf("%d plans with %d moves; a place was kept for each successor in %d", plans, moves, whole)
	if plans == 0 {
		t.Error("no plan was carried out")
	}
}

// moves makes room by a plan whose successors all have places. If there is none, that run evicts nothing, and another
// one makes room without. It returns 1 if the first run did it.
func (d *descheduler) moves(ctx context.Context, t *testing.T, goal, always, possible string) int {
	t.Helper()
	before := d.uids(ctx, t)
	log := d.once(ctx, t, "", "{}", always)
	if !strings.Contains(log, "no place can be kept for the successor") {
		if t.Log(log); !strings.Contains(log, "The pod that waited runs") {
			t.Error("the pod that waited does not run")
		}
		d.runs(ctx, t, goal)
		return 1
	}
	if after := d.uids(ctx, t); !slices.Equal(before, after) {
		t.Errorf("pods were evicted although not all places are kept:\n%s", log)
	}
	if log = d.once(ctx, t, "", "{}", possible); !strings.Contains(log, "The pod that waited runs") {
		t.Errorf("the pod that waited does not run:\n%s", log)
	}
	d.runs(ctx, t, goal)
	return 0
}

// A tenant's pod that waits has no pods of a higher priority moved, whatever it requests.
func TestTheDeschedulerMovesNoMoreImportantPods(t *testing.T) {
	if *program == "" {
		t.Skip("no -descheduler: \"go run ./test descheduler\" builds it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	s, tenon := newSets(ctx, t)
	d := newDescheduler(ctx, t, s)
	classes := s.client.SchedulingV1().PriorityClasses()
	if _, err := classes.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -10},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deletes(t, classes, "low")
	goal := d.needsMoves(ctx, t, tenon)
	was, err := s.client.CoreV1().Pods("default").Get(ctx, goal, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.world.end(ctx, t, goal)
	low := pod("low", "", int(was.Spec.Containers[0].Resources.Requests.Cpu().Value()))
	low.Spec.PriorityClassName = "low"
	if s.world.create(ctx, t, low); s.tried(ctx, t, low.Name) != workload.Pending {
		t.Fatal("the pod does not wait")
	}
	d.idle(ctx, t, low.Name, func() string {
		log := d.once(ctx, t, "", "{}", "{pendingFor: 0s, most: 10, maxPriority: 1000}")
		if !strings.Contains(log, "each has a priority above -10") {
			t.Errorf("the log does not name the priority:\n%s", log)
		}
		return log
	})
}

// needsMoves draws clusters until a pod waits for which others have to move, and returns the pod.
func (d *descheduler) needsMoves(ctx context.Context, t *testing.T, tenon commandFor) (goal string) {
	t.Helper()
	for k := *seed; ; k++ {
		goal, _, p := d.scatter(ctx, t, rand.New(rand.NewPCG(k, 6)), tenon, fmt.Sprint("r", k))
		if len(p.Moves) > 0 {
			t.Logf("seed %d", k)
			return goal
		}
		d.clear(ctx, t, goal)
	}
}

// A descheduler that is ended while it waits for the scheduler's answers leaves nothing behind, and evicts nothing.
func TestTheDeschedulerLeavesNothingBehind(t *testing.T) {
	if *program == "" {
		t.Skip("no -descheduler: \"go run ./test descheduler\" builds it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	s, tenon := newSets(ctx, t)
	d := newDescheduler(ctx, t, s)
	goal := d.needsMoves(ctx, t, tenon)
	if err := s.sched.Stop(); err != nil {
		t.Fatal(err)
	}
	d.idle(ctx, t, goal, func() string {
		log := d.once(ctx, t, "", "{}", "{pendingFor: 0s, most: 10, answerTimeout: 2s}")
		if !strings.Contains(log, "no scheduler answers whether it keeps places") {
			t.Errorf("the log does not say what was missing:\n%s", log)
		}
		return log
	})
	d.idle(ctx, t, goal, func() string {
		c := d.command(ctx, t, "", "{}", "{pendingFor: 0s, most: 10}")
		var log strings.Builder
		c.Stderr = &log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
			asked, err := d.requests.In("default").List(ctx, metav1.ListOptions{})
			return len(asked.Items) > 0, err
		}); err != nil {
			t.Error(err)
		}
		if err := errors.Join(c.Process.Signal(syscall.SIGTERM), c.Wait()); err != nil {
			t.Errorf("the descheduler: %v\n%s", err, log.String())
		}
		return log.String()
	})
	s.sched = nil
	s.schedule(t)
}
