package queue_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/workload"
)

// scene is a small cluster by hand: each pod is placed while the other node is cordoned.
type scene struct {
	*sets

	tenon commandFor
}

// on creates pods on a node, one after the other. Those whose names begin with m are of a ReplicaSet each, and may
// move. Of the others, only the pod free may be on another node.
func (s *scene) on(ctx context.Context, t *testing.T, node string, annotations map[string]string, pods ...any) {
	t.Helper()
	other := map[string]string{"a": "b", "b": "a"}[node]
	s.cordon(ctx, t, other, true)
	for i := 0; i < len(pods); i += 2 {
		name, cpus := pods[i].(string), pods[i+1].(int)
		p := pod(name, "", cpus)
		if name != "free" {
			p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
		}
		if !strings.HasPrefix(name, "m") {
			for s.placed(ctx, t, p) != node { // the scheduler has not seen the cordon yet
				s.world.end(ctx, t, name)
				s.gone(ctx, t, name)
			}
			continue
		}
		p.Spec.NodeSelector, p.Spec.RestartPolicy = nil, v1.RestartPolicyAlways
		p.Labels, p.Spec.TerminationGracePeriodSeconds = map[string]string{"set": name}, new(int64(1))
		template := v1.PodTemplateSpec{Spec: p.Spec,
			ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: annotations}}
		if _, err := s.client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: p.Labels}, Template: template}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.names = append(s.names, name)
		s.lands(ctx, t, name, node)
	}
	s.cordon(ctx, t, other, false)
}

// lands waits until the pod of a ReplicaSet runs on a node. It deletes pods on the other node, which the scheduler
// placed before it saw the cordon.
func (s *scene) lands(ctx context.Context, t *testing.T, set, node string) {
	t.Helper()
	for last := (*v1.Pod)(nil); last == nil || last.Spec.NodeName != node; {
		if last != nil {
			s.world.end(ctx, t, last.Name)
		}
		if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
			i := slices.IndexFunc(pods, func(p *v1.Pod) bool {
				return p.Labels["set"] == set && p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil &&
					(last == nil || p.UID != last.UID)
			})
			if i >= 0 {
				last = pods[i]
			}
			return i >= 0
		}); err != nil {
			t.Fatalf("%s does not run on %s: %v", set, node, err)
		}
	}
}

// placed creates a pod, and returns its node when it runs.
func (s *scene) placed(ctx context.Context, t *testing.T, p *v1.Pod) string {
	t.Helper()
	s.world.create(ctx, t, p.DeepCopy())
	s.run(ctx, t, p.Name)
	got, err := s.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Spec.NodeName
}

// gone waits until the watch shows no pod of a name, and the scheduler counts none.
func (s *scene) gone(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Name == name })
	}); err != nil {
		t.Fatalf("pod %s does not end: %v", name, err)
	}
	// The scheduler must not keep places by holdings that are no more.
	if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(context.Context) (bool, error) {
		snap := s.sched.Shared.Book.Snapshot()
		return !slices.ContainsFunc([]string{"a", "b"}, func(node string) bool {
			n := snap.Node(node)
			return n != nil && slices.ContainsFunc(n.Entries, func(e state.Entry) bool { return e.Pod.Name == name })
		}), nil
	}); err != nil {
		t.Fatalf("the scheduler counts pod %s, which has ended: %v", name, err)
	}
}

// waiting creates a pod that waits, and makes a plan for it.
func (s *scene) waiting(ctx context.Context, t *testing.T, cpus int, args ...string) (file string, p planned) {
	t.Helper()
	s.world.create(ctx, t, pod("goal", "", cpus))
	if fate := s.tried(ctx, t, "goal"); fate != workload.Pending {
		t.Fatalf("the pod that is to wait is %s", fate)
	}
	if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(context.Context) (bool, error) {
		file, p = s.tenon.plan(ctx, t, append(args, "--for", "default/goal")...)
		return p.Found, nil // the nodes have reported
	}); err != nil {
		out, errs, _ := s.tenon.run(ctx, t, append([]string{"defrag", "--for", "default/goal"}, args...)...)
		t.Fatalf("no plan: %v\n%s%s", err, out, errs)
	}
	return file, p
}

// empty ends everything.
func (s *scene) empty(ctx context.Context, t *testing.T) {
	t.Helper()
	s.end(ctx, t, slices.Clone(s.names)...)
	if err := s.client.CoreV1().Pods("default").DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	s.free(ctx, t)
}

// one has one pod that may move, from node a to node b.
func (s *scene) one(ctx context.Context, t *testing.T, annotations map[string]string) (file string, p planned) {
	t.Helper()
	s.on(ctx, t, "a", annotations, "m", 5, "x", 12)
	s.on(ctx, t, "b", nil, "y", 12, "z", 6)
	return s.waiting(ctx, t, 14)
}

// What happens around a plan changes neither that its pods get room, nor that nothing is left behind.
func TestScenesOfPlans(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	all, tenon := newSets(ctx, t)
	s := &scene{all, tenon}
	done := func(t *testing.T, file string) {
		t.Helper()
		out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {})
		if code != 0 {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		s.runs(ctx, t, "goal")
	}
	for name, play := range map[string]func(t *testing.T){
		// One successor has room on the other node, and one on the other NUMA node of its own: no place is kept for it
		// where the pod that waits goes.
		"a successor stays on the node": func(t *testing.T) {
			s.on(ctx, t, "a", nil, "ma", 3, "mb", 3, "tmp", 8, "x", 2)
			s.world.end(ctx, t, "tmp")
			s.on(ctx, t, "b", nil, "y", 14, "z", 10)
			file, p := s.waiting(ctx, t, 13)
			if len(p.Moves) != 2 {
				t.Fatalf("the plan is %+v", p)
			}
			done(t, file)
		},
		// Both successors have room only on the other NUMA node of their own node: they wait until the pod that waits has
		// its room.
		"two successors stay on the node": func(t *testing.T) {
			s.on(ctx, t, "a", nil, "ma", 3, "mb", 3, "tmp", 8, "x", 2)
			s.world.end(ctx, t, "tmp")
			s.on(ctx, t, "b", nil, "y", 14, "z", 14)
			file, p := s.waiting(ctx, t, 13)
			if len(p.Moves) != 2 {
				t.Fatalf("the plan is %+v", p)
			}
			done(t, file)
		},
		// Node a has a large gap once its small pod is on the other node, and the usual workload has a large pod.
		"room for the usual workload": func(t *testing.T) {
			s.on(ctx, t, "a", nil, "m", 3, "x", 12)
			s.on(ctx, t, "b", nil, "y", 12, "z", 6)
			file := s.usual(ctx, t)
			out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {})
			if code != 0 || !strings.Contains(out, "All pods run.") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			s.runs(ctx, t, "")
			s.world.create(ctx, t, pod("large", "", 14))
			s.run(ctx, t, "large")
		},
		"the pod's request is over": func(t *testing.T) {
			file, _ := s.one(ctx, t, map[string]string{apipod.ConsumeAnnotation: "old", apipod.ClassAnnotation: apipod.Class})
			done(t, file)
		},
		"a booking has expired": func(t *testing.T) {
			file, p := s.one(ctx, t, nil)
			s.leftBehind(ctx, t, p.Moves[0].UID)
			done(t, file)
		},
		"the controller shrinks": func(t *testing.T) {
			file, _ := s.one(ctx, t, nil)
			out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {
				if _, err := s.client.AppsV1().ReplicaSets("default").Patch(ctx, "m", types.MergePatchType,
					[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			})
			if code != 0 {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			s.run(ctx, t, "goal")
		},
		"the plan is carried out twice at a time": func(t *testing.T) {
			file, _ := s.one(ctx, t, nil)
			s.twice(ctx, t, file)
		},
		"the Lease is lost": func(t *testing.T) {
			file, _ := s.one(ctx, t, nil)
			s.loses(ctx, t, file)
			done(t, file)
		},
		"the user interrupts": func(t *testing.T) {
			file, _ := s.one(ctx, t, nil)
			before := s.uids(ctx, t)
			out, errs, code := tenon.applyUntil(ctx, t, file, "keeps 1 place", func(c *exec.Cmd) {
				_ = c.Process.Signal(syscall.SIGINT)
			})
			if code != 2 || !strings.Contains(errs, "interrupted") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			if after := s.uids(ctx, t); slices.Equal(before, after) {
				s.nothingLeft(ctx, t, "goal")
			}
		},
		"the user interrupts after the eviction": func(t *testing.T) {
			file, _ := s.one(ctx, t, nil)
			out, errs, code := tenon.apply(ctx, t, file, func(c *exec.Cmd) { _ = c.Process.Signal(syscall.SIGINT) })
			if code != 2 {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			s.reported(ctx, t, tenon, file)
			done(t, file)
		},
		"a pod without a controller": func(t *testing.T) {
			s.on(ctx, t, "a", nil, "free", 5, "x", 12)
			s.on(ctx, t, "b", nil, "y", 12, "z", 6)
			s.waiting(ctx, t, 14, "--bare")
			out, errs, code := tenon.run(ctx, t, "defrag", "--for", "default/goal", "--bare", "--apply", "--yes")
			if code != 0 || !strings.Contains(out, "end for good") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			s.run(ctx, t, "goal")
		},
		"a pod with scheduling gates": func(t *testing.T) {
			s.one(ctx, t, nil)
			s.world.end(ctx, t, "goal")
			gated := pod("gated", "", 14)
			gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
			s.world.create(ctx, t, gated)
			before := s.uids(ctx, t)
			out, errs, code := tenon.run(ctx, t, "defrag", "--pending", "--any", "--apply", "--yes")
			if after := s.uids(ctx, t); code != 0 || !slices.Equal(before, after) {
				t.Errorf("exit code %d, pods moved: %t\n%s%s", code, !slices.Equal(before, after), out, errs)
			}
			if _, _, code := tenon.run(ctx, t, "defrag", "--for", "default/gated"); code != 2 {
				t.Errorf("a gated pod is to get room: exit code %d", code)
			}
		},
	} {
		t.Run(name, play)
		s.empty(ctx, t)
	}
}

// twice carries out a plan, and a second time while the first command waits for the scheduler.
func (s *scene) twice(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	if err := s.sched.Stop(); err != nil {
		t.Fatal(err)
	}
	leases := s.client.CoordinationV1().Leases("default")
	out, errs, code := s.tenon.applyUntil(ctx, t, file, "1 pod is evicted.", func(*exec.Cmd) {
		if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := leases.Get(ctx, "tenon-defrag", metav1.GetOptions{})
			return err == nil, nil
		}); err != nil {
			t.Errorf("the first command takes no Lease: %v", err)
		}
		before := s.uids(ctx, t)
		out, errs, code := s.tenon.run(ctx, t, "defrag", "apply", file, "--yes")
		if code != 2 || !strings.Contains(errs, "carries out a plan for pods of namespace default") {
			t.Errorf("the second time: exit code %d\n%s%s", code, out, errs)
		}
		if list, err := s.requests.In("default").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 ||
			!slices.Equal(before, s.uids(ctx, t)) {
			t.Errorf("after the second command: %v", err)
		}
		s.schedule(t)
	})
	if code != 0 {
		t.Errorf("the first time: exit code %d\n%s%s", code, out, errs)
	}
	s.runs(ctx, t, "goal")
	if _, err := leases.Get(ctx, "tenon-defrag", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease is left: %v", err)
	}
}

// loses carries out a plan while the command waits for the scheduler: first another program takes its Lease, then
// somebody deletes it. The command stops, and evicts nothing. The other program goes on with what is kept.
func (s *scene) loses(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	if err := s.sched.Stop(); err != nil {
		t.Fatal(err)
	}
	leases, before := s.client.CoordinationV1().Leases("default"), s.uids(ctx, t)
	remove := func() error { return leases.Delete(ctx, "tenon-defrag", metav1.DeleteOptions{}) }
	take := func() error {
		_, err := leases.Patch(ctx, "tenon-defrag", types.MergePatchType, []byte(`{"spec":{"holderIdentity":"another"}}`),
			metav1.PatchOptions{})
		return err
	}
	left := func(ctx context.Context) int {
		list, err := s.requests.In("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
		}
		return len(list.Items)
	}
	for _, lose := range []func() error{take, remove} {
		out, errs, code := s.tenon.applyUntil(ctx, t, file, "1 pod is evicted.", func(*exec.Cmd) {
			if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(ctx context.Context) (bool, error) {
				_, err := leases.Get(ctx, "tenon-defrag", metav1.GetOptions{})
				return err == nil && left(ctx) == 1, nil
			}); err != nil {
				t.Errorf("the command asks for no place: %v", err)
			}
			if err := lose(); err != nil {
				t.Error(err)
			}
		})
		if code != 2 || !strings.Contains(errs, "the Lease tenon-defrag is lost") {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		if err := remove(); err == nil && left(ctx) != 1 { // it was taken
			t.Error("what another program goes on with was deleted")
		}
	}
	s.nothingLeft(ctx, t, "goal")
	if after := s.uids(ctx, t); !slices.Equal(before, after) {
		t.Errorf("pods were evicted: %v, before %v", after, before)
	}
	s.schedule(t)
}

// usual makes a plan for the usual workload that moves a pod.
func (s *scene) usual(ctx context.Context, t *testing.T) (file string) {
	t.Helper()
	var p planned
	if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(context.Context) (bool, error) {
		file, p = s.tenon.plan(ctx, t, "--usual")
		return len(p.Moves) > 0, nil // the nodes have reported
	}); err != nil {
		out, errs, _ := s.tenon.run(ctx, t, "defrag", "--usual")
		t.Fatalf("no plan: %v\n%s%s", err, out, errs)
	}
	return file
}

// leftBehind makes the request of a killed command, which is over.
func (s *scene) leftBehind(ctx context.Context, t *testing.T, uid string) {
	t.Helper()
	list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "set=m"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("pods %d: %v", len(list.Items), err)
	}
	name := "tenon-move-" + uid
	labels := map[string]string{"app.kubernetes.io/managed-by": "kubectl-tenon"}
	template := &v1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"set": "m"}},
			Spec: pod("m", "", 5).Spec}}
	if _, err := s.client.CoreV1().PodTemplates("default").Create(ctx, template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.request(ctx, t, &provisioning.Request{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class,
			PodSets: []provisioning.PodSet{{Count: 1, PodTemplateRef: provisioning.Reference{Name: name}}},
			Parameters: map[string]string{"bookingSeconds": "10",
				provisioning.PodsOf: string(metav1.GetControllerOf(&list.Items[0]).UID)}}})
	s.until(ctx, t, name, provisioning.BookingExpired, metav1.ConditionTrue, "")
}
