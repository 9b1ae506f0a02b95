package queue_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	rounds = flag.Int("defrag.n", 8, "clusters in which TestPlansMakeRoom moves pods")
	seed   = flag.Uint64("defrag.seed", 1, "the first seed of TestPlansMakeRoom")
)

// Pods come and go until one waits although there is room for it, scattered over NUMA nodes. Once the pods of a plan
// are evicted and their controller has created them again, all run, and no kubelet has refused one.
func TestPlansMakeRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*rounds)*20*time.Second)
	defer cancel()
	w := start(ctx, t)
	waited, planned, moves := 0, 0, 0
	for k := range uint64(*rounds) {
		r := rand.New(rand.NewPCG(*seed+k, 3))
		names := w.scatter(ctx, t, r, fmt.Sprint("r", k))
		goal := owned(pod(fmt.Sprintf("r%d-goal", k), "", 11+r.IntN(4)))
		w.create(ctx, t, goal)
		if w.tried(ctx, t, goal.Name) == workload.Pending {
			waited++
			plan, movers := w.plan(ctx, t, goal.Name)
			if plan != nil {
				planned, moves = planned+1, moves+len(plan.Moves)
				names = w.carryOut(ctx, t, plan, movers, names)
				w.run(ctx, t, append(slices.Clone(names), goal.Name)...)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		w.end(ctx, t, append(names, goal.Name)...)
		w.free(ctx, t)
	}
	t.Logf("%d of %d pods waited; %d plans with %d moves", waited, *rounds, planned, moves)
	if planned == 0 {
		t.Error("no plan was carried out")
	}
}

// owned gives a pod a controller.
func owned(p *v1.Pod) *v1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "crowd", UID: "crowd",
		Controller: new(true)}}
	return p
}

// scatter creates pods until one does not fit, and ends two of five. It returns the names of the pods that run.
func (w *world) scatter(ctx context.Context, t *testing.T, r *rand.Rand, prefix string) (names []string) {
	t.Helper()
	for i := range 16 {
		p := owned(pod(fmt.Sprint(prefix, "-p", i), "", 2+r.IntN(4)))
		w.create(ctx, t, p)
		if w.tried(ctx, t, p.Name) == workload.Pending {
			w.end(ctx, t, p.Name)
			break
		}
		names = append(names, p.Name)
	}
	for _, i := range r.Perm(len(names))[:len(names)*2/5] {
		w.end(ctx, t, names[i])
		names[i] = ""
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
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

// plan finds which pods to move for a pod that waits, by what commands read of the cluster, once all nodes have
// reported. It returns nil if none has to move by then.
func (w *world) plan(ctx context.Context, t *testing.T, name string) (*defrag.Plan, []defrag.Mover) {
	t.Helper()
	reader, err := kube.NewReader(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var p defrag.Problem
	err = wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		s, _, err := stage.Read(ctx, reader)
		if err != nil {
			return false, err
		}
		field, err := s.Movers(ctx, defrag.Bounds{}, time.Now())
		if err != nil {
			return false, err
		}
		p = defrag.Problem{Nodes: s.Nodes(), Movers: field.Movers, Budgets: field.Budgets, Most: 10, Trials: 1000,
			Looks: 100_000}
		var wants []*whatif.Want
		for i := range field.Movers {
			wants = append(wants, field.Movers[i].Want)
		}
		for _, x := range s.Pending() {
			if x.Name == name {
				p.Pods = append(p.Pods, defrag.Goal{Member: whatif.Member{ID: x.ID(1, 0), Want: x.Want}})
				wants = append(wants, x.Want)
			}
		}
		return len(field.Fixed) == 0 && s.Unrelated(wants), nil
	})
	if err != nil {
		t.Fatalf("not all pods may move: %v", err)
	}
	if len(p.Pods) == 0 {
		return nil, nil // it runs meanwhile
	}
	out, err := defrag.Find(p, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if out.Plan == nil || len(out.Plan.Moves) == 0 {
		return nil, nil
	}
	return out.Plan, p.Movers
}

// carryOut evicts the pods of a plan and creates their successors, in the plan's order. It returns the names of the
// pods that should run then.
func (w *world) carryOut(ctx context.Context, t *testing.T, plan *defrag.Plan, movers []defrag.Mover,
	names []string) []string {
	t.Helper()
	var back []*v1.Pod
	for _, m := range plan.Moves {
		old := movers[m.Mover].Pod
		p, err := w.client.CoreV1().Pods(old.Namespace).Get(ctx, old.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = w.client.PolicyV1().Evictions(old.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
		if err != nil {
			t.Fatal(err)
		}
		next := owned(pod(old.Name+"-b", "", 1))
		next.Spec.Containers[0].Resources = p.Spec.Containers[0].Resources
		back = append(back, next)
		names = append(slices.DeleteFunc(names, func(x string) bool { return x == old.Name }), next.Name)
	}
	w.create(ctx, t, back...)
	return names
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
