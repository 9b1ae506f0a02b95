//go:build !upto1.36

package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/whatif"
	labkubelet "github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/workload"
)

// gang creates a PodGroup that needs all pods of a Job, and the Job, and waits until they run. The pods may be evicted.
func (s *sets) gang(ctx context.Context, t *testing.T, name string, pods int32, cpus int,
	change func(*schedulingv1beta1.PodGroup)) {
	t.Helper()
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: pods}
	if change != nil {
		change(g)
	}
	s.group(ctx, t, g)
	p := pod(name, "", cpus)
	p.Labels = map[string]string{"set": name}
	p.Annotations = map[string]string{podapi.SafeToEvict: "true", labkubelet.KilledAnnotation: "true"}
	p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	p.Spec.RestartPolicy, p.Spec.SchedulingGroup = v1.RestartPolicyNever, &v1.PodSchedulingGroup{PodGroupName: &name}
	if _, err := s.client.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Parallelism: &pods, Completions: &pods, BackoffLimit: new(int32(0)),
			PodFailurePolicy: evictionsAreIgnored, Template: v1.PodTemplateSpec{Spec: p.Spec,
				ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.names = append(s.names, name)
	s.members(ctx, t, name, int(pods))
}

// group creates a PodGroup.
func (s *sets) group(ctx context.Context, t *testing.T, g *schedulingv1beta1.PodGroup) {
	t.Helper()
	groups := s.client.SchedulingV1beta1().PodGroups("default")
	if _, err := groups.Create(ctx, g, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deletes(t, groups, g.Name)
}

// members waits until so many pods of a set run, and no others are there, and returns their UIDs.
func (s *sets) members(ctx context.Context, t *testing.T, set string, count int) (uids []types.UID) {
	t.Helper()
	var said []string
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		uids, said = nil, nil
		all := 0
		for _, p := range pods {
			fate, why := workload.FateOf(p)
			if p.Labels["set"] != set || p.Status.Phase == v1.PodFailed && fate != workload.Refused {
				continue
			}
			all++
			said = append(said, fmt.Sprintf("%s on %q is %s: %s", p.Name, p.Spec.NodeName, fate, why))
			if p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil {
				uids = append(uids, p.UID)
			}
		}
		return len(uids) == count && all == count
	}); err != nil {
		t.Fatalf("not all %d pods of %s run: %s: %v", count, set, strings.Join(said, "\n"), err)
	}
	return uids
}

// A pod of a gang moves, and its successor starts as a late member, also where the gang's nodes are to be in one rack,
// and where two successors have to wait until the pod that waits has its room. No kubelet refuses one.
func TestPodsOfGangsMove(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	all, tenon := newSets(ctx, t)
	s := &scene{all, tenon}
	// Two members are on node a, and one on node b, where another one has room once the pod tmp has ended.
	spread := func(t *testing.T, name string, change func(*schedulingv1beta1.PodGroup)) {
		s.on(ctx, t, "a", nil, "x", 14)
		s.on(ctx, t, "b", nil, "y", 12, "z", 4, "tmp", 5)
		s.gang(ctx, t, name, 3, 5, change)
		s.world.end(ctx, t, "tmp")
		s.gone(ctx, t, "tmp")
	}
	for name, play := range map[string]func(t *testing.T){
		"one moves": func(t *testing.T) {
			spread(t, "one", nil)
			s.carried(ctx, t, "one", 3, 1, 9)
		},
		"one moves within its rack": func(t *testing.T) {
			for _, node := range []string{"a", "b"} {
				s.label(ctx, t, node, "rack", "one")
			}
			spread(t, "rack", func(g *schedulingv1beta1.PodGroup) {
				g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
					Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
			})
			s.carried(ctx, t, "rack", 3, 1, 9)
		},
		"two stay on their node": func(t *testing.T) {
			s.on(ctx, t, "b", nil, "y", 14, "z", 14)
			s.gang(ctx, t, "two", 2, 3, nil)
			s.on(ctx, t, "a", nil, "tmp", 8, "x", 2)
			s.world.end(ctx, t, "tmp")
			s.gone(ctx, t, "tmp")
			s.carried(ctx, t, "two", 2, 2, 13)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t)
			s.empty(ctx, t)
		})
	}
}

// A gang whose pods may be disrupted only together moves as a whole, also where one pod would be enough, and where some
// or all successors have to wait until the pod that waits has its room.
func TestGangsMoveAsAWhole(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	all, tenon := newSets(ctx, t)
	s := &scene{all, tenon}
	ends := func(t *testing.T, names ...string) {
		for _, name := range names {
			s.world.end(ctx, t, name)
			s.gone(ctx, t, name)
		}
	}
	for name, play := range map[string]func(t *testing.T){
		"to the other node": func(t *testing.T) {
			s.on(ctx, t, "a", nil, "x", 14)
			s.on(ctx, t, "b", nil, "y", 9, "z", 9, "tmp", 5, "tmq", 5)
			s.gang(ctx, t, "goes", 2, 5, whole)
			ends(t, "tmp", "tmq")
			s.carried(ctx, t, "goes", 2, 2, 9)
		},
		"to its own node": func(t *testing.T) {
			s.on(ctx, t, "b", nil, "y", 14, "z", 14)
			s.gang(ctx, t, "stays", 2, 3, whole)
			s.on(ctx, t, "a", nil, "tmp", 8, "x", 2)
			ends(t, "tmp")
			s.carried(ctx, t, "stays", 2, 2, 13)
		},
		"to both nodes": func(t *testing.T) {
			s.on(ctx, t, "b", nil, "y", 14, "z", 10, "tmp", 4)
			s.gang(ctx, t, "parts", 2, 3, whole)
			s.on(ctx, t, "a", nil, "tmq", 8, "x", 2)
			ends(t, "tmp", "tmq")
			s.carried(ctx, t, "parts", 2, 2, 13)
		},
		"from a node that is to be empty": func(t *testing.T) {
			s.on(ctx, t, "a", nil, "tmp", 9, "tmq", 14)
			s.on(ctx, t, "b", nil, "y", 9, "z", 4, "tmr", 5)
			s.gang(ctx, t, "both", 2, 5, whole)
			ends(t, "tmp", "tmq", "tmr")
			before := s.members(ctx, t, "both", 2)
			var file string
			var p planned
			if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(context.Context) (bool, error) {
				file, p = tenon.plan(ctx, t, "--empty", "a")
				return len(p.Moves) == 2, nil // the nodes have reported
			}); err != nil {
				out, errs, _ := tenon.run(ctx, t, "defrag", "--empty", "a")
				t.Fatalf("no plan moves both pods: %v\n%s%s", err, out, errs)
			}
			out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {})
			if t.Log(out, errs); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.runs(ctx, t, "")
			if after := s.members(ctx, t, "both", 2); slices.Contains(before, after[0]) || slices.Contains(before, after[1]) {
				t.Errorf("%v run, before %v", after, before)
			}
			s.cordon(ctx, t, "a", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t)
			s.empty(ctx, t)
		})
	}
}

// Whatever plans move of gangs, in both modes, they are carried out while nothing else happens, or stop before a pod is
// lost. No other pods may move.
func TestPlansWithGangsAreCarriedOut(t *testing.T) {
	s, tenon := newSets(t.Context(), t)
	plans, moves, refused := 0, 0, 0
	for k := range uint64(max(2, *rounds/4)) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r, prefix, sizes := rand.New(rand.NewPCG(*seed+k, 6)), fmt.Sprint("r", k), map[string]int{}
		for i := range 3 {
			name, pods := fmt.Sprint(prefix, "-g", i), 2+r.IntN(2)
			sizes[name] = pods
			s.gang(ctx, t, name, int32(pods), 2+r.IntN(3), func(g *schedulingv1beta1.PodGroup) {
				if i < 2 {
					whole(g)
				}
			})
		}
		s.beside(ctx, t, r)
		goal := pod("goal", "", 9+r.IntN(6))
		s.world.create(ctx, t, goal)
		if s.tried(ctx, t, goal.Name) == workload.Pending {
			s.reports(ctx, t)
			file, p := tenon.plan(ctx, t, "--for", "default/goal")
			if len(p.Moves) > 0 {
				out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {})
				t.Log(out, errs)
				switch {
				case code == 2 && (strings.Contains(errs, "stopped, 0 of") || strings.Contains(errs, "plan again")):
					refused++ // such as where the place that is kept for one pod is in the way of the others
					s.runs(ctx, t, "")
				case code != 0:
					t.Errorf("exit code %d", code)
				default:
					plans, moves = plans+1, moves+len(p.Moves)
					s.runs(ctx, t, goal.Name)
				}
				for name, pods := range sizes {
					s.members(ctx, t, name, pods)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		(&scene{s, tenon}).empty(ctx, t)
	}
	if t.Logf("%d plans with %d moves, %d more stopped", plans, moves, refused); plans == 0 {
		t.Error("no plan was carried out")
	}
}

// reports waits until the nodes have reported all pods that run on them, and no others.
func (s *sets) reports(ctx context.Context, t *testing.T) {
	t.Helper()
	reader, err := kube.NewReader(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		now, _, err := stage.Read(ctx, reader)
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(now.Nodes(), func(n whatif.Node) bool {
			return n.State == nil || len(n.State.Entries) != len(n.Pods) || n.State.Doubtful() != ""
		}), nil
	}); err != nil {
		t.Fatalf("the nodes do not report: %v", err)
	}
}

// beside creates pods that may not move, until one has no room, and ends two of five.
func (s *sets) beside(ctx context.Context, t *testing.T, r *rand.Rand) {
	t.Helper()
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprint("x", i))
		s.world.create(ctx, t, pod(names[i], "", 2+r.IntN(4)))
		if s.tried(ctx, t, names[i]) == workload.Pending {
			break
		}
	}
	ends := []string{names[len(names)-1]}
	for _, i := range r.Perm(len(names) - 1)[:(len(names)-1)*2/5] {
		ends = append(ends, names[i])
	}
	s.world.end(ctx, t, ends...)
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return slices.Contains(ends, p.Name) })
	}); err != nil {
		t.Fatal(err)
	}
}

// whole has the pods of a group be disrupted only together.
func whole(g *schedulingv1beta1.PodGroup) {
	g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
}

// Pods of a PodGroup with the policy basic start one by one: one of them moves without an annotation, and another one
// gets room by a plan that no person sees before.
func TestPodsOfABasicGroupAreSinglePods(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all, tenon := newSets(ctx, t)
	s, name := &scene{all, tenon}, "basic"
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	s.group(ctx, t, g)
	member := func(of string, cpus int) *v1.Pod {
		p := pod(of, "", cpus)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		return p
	}
	s.cordon(ctx, t, "b", true)
	s.replicated(ctx, t, "m", member("m", 5))
	s.names = append(s.names, "m")
	s.lands(ctx, t, "m", "a")
	s.on(ctx, t, "a", nil, "x", 12)
	s.on(ctx, t, "b", nil, "y", 12, "z", 6)
	s.world.create(ctx, t, member("goal", 14))
	if fate := s.tried(ctx, t, "goal"); fate != workload.Pending {
		t.Fatalf("the pod that is to wait is %s", fate)
	}
	if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(context.Context) (bool, error) {
		_, p := tenon.plan(ctx, t, "--for", "default/goal")
		return len(p.Moves) == 1, nil // the nodes have reported
	}); err != nil {
		out, errs, _ := tenon.run(ctx, t, "defrag", "--for", "default/goal")
		t.Fatalf("no plan moves one pod: %v\n%s%s", err, out, errs)
	}
	out, errs, code := tenon.run(ctx, t, "defrag", "--pending", "--any", "--apply", "--yes")
	if t.Log(out, errs); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.runs(ctx, t, "goal")
}

// carried makes room for a pod that waits by a plan with so many moves of a gang's members, and fails the test unless
// all of them run then.
func (s *scene) carried(ctx context.Context, t *testing.T, gang string, members, moves, cpus int) {
	t.Helper()
	before := s.members(ctx, t, gang, members)
	file, p := s.waiting(ctx, t, cpus)
	if len(p.Moves) != moves {
		t.Fatalf("the plan is %+v", p)
	}
	out, errs, code := s.tenon.apply(ctx, t, file, func(*exec.Cmd) {})
	if t.Log(out, errs); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.runs(ctx, t, "goal")
	after := s.members(ctx, t, gang, members)
	stay := slices.DeleteFunc(slices.Clone(before), func(uid types.UID) bool { return !slices.Contains(after, uid) })
	if len(stay) != members-moves {
		t.Errorf("of %v, %v are left, and %d moved", before, stay, moves)
	}
}

// label gives a node a label until the end of the test.
func (w *world) label(ctx context.Context, t *testing.T, node, key, value string) {
	t.Helper()
	set := func(ctx context.Context, to string) {
		if _, err := w.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, to), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	set(ctx, fmt.Sprintf("%q", value))
	t.Cleanup(func() { set(context.WithoutCancel(ctx), "null") })
}
