//go:build !upto1.36

package groups_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// room is how many CPUs each of the six NUMA nodes of the cluster has for pods.
const room = 30

// full returns a gang of pods of different sizes, in any order, that takes every CPU of the cluster.
func full(r *rand.Rand, name string) group {
	var sizes []int
	for range 6 {
		for rest := room; rest > 0; {
			n := min(rest, 4+r.IntN(27))
			if rest-n < 4 {
				n = rest
			}
			sizes, rest = append(sizes, n), rest-n
		}
	}
	r.Shuffle(len(sizes), func(i, k int) { sizes[i], sizes[k] = sizes[k], sizes[i] })
	g := group{name: name, need: len(sizes)}
	for i, cpus := range sizes {
		p := ofCPUs(fmt.Sprintf("%s-%02d", name, i), cpus)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.name}
		g.pods = append(g.pods, p)
	}
	return g
}

// canRun reports whether there are nodes for all pods of a gang, in their order, on the empty cluster.
func (g *group) canRun(t *testing.T, nodes []*state.Node) bool {
	t.Helper()
	var pods []assign.Pod
	for _, p := range g.pods {
		cp, err := pod.ToPlace(p)
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, assign.Pod{ID: state.PodID{UID: p.Name}, Pod: cp, Kind: cp.Shape()})
	}
	at, _ := assign.Find(assign.Problem{Nodes: nodes, Pods: pods, Least: len(pods), Budget: 1 << 22})
	return at != nil
}

// gangs is how many gangs of unequal pods the test runs, one after the other.
const gangs = 8

// A gang of unequal pods that takes the whole cluster runs whenever there are nodes for all its pods, also where
// kube-scheduler's way of one pod after the other finds none. One node is closed to pods, and has room.
func TestAGangOfUnequalPodsRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, client, pods := startRunning(ctx, t, scheduler.Tenon, nil, "closed")
	taint(ctx, t, client, "closed")
	hasFree(ctx, t, s, map[string]int{"a": 2 * room, "b": 2 * room, "c": 2 * room})
	var nodes []*state.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, s.Shared.Book.Snapshot().Node(name))
	}
	r := rand.New(rand.NewPCG(*seed, 1))
	for i := 0; i < gangs; {
		g := full(r, fmt.Sprintf("u%03d", i))
		if !g.canRun(t, nodes) {
			continue
		}
		i++
		g.create(ctx, t, client)
		all, err := pods.Until(ctx, g.runs)
		if err != nil {
			describe(t, map[string]group{g.name: g}, all)
			t.Fatalf("%v; searches: %d found, %d none, %d spent", err, searches(t, s, "found"), searches(t, s, "none"),
				searches(t, s, "spent"))
		}
		remove(ctx, t, client, g)
		if _, err := pods.Until(ctx, func(all []*v1.Pod) bool { return len(all) == 0 }); err != nil {
			t.Fatal(err)
		}
	}
	if n := searches(t, s, "found"); n == 0 {
		t.Error("every gang got nodes one pod after the other: such gangs do not need a search")
	} else {
		t.Logf("%d gangs ran; nodes were searched %d times", gangs, n)
	}
}

// taint keeps pods from a node.
func taint(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "closed", Effect: v1.TaintEffectNoSchedule})
	if _, err := client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// searches returns how many searches for the nodes of a gang had a result.
func searches(t *testing.T, s *scheduler.Running, result string) int {
	t.Helper()
	families, err := s.Shared.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if strings.HasSuffix(f.GetName(), "gang_searches_total") && m.Label[0].GetValue() == result {
				return int(m.Counter.GetValue())
			}
		}
	}
	t.Fatal("no searches are counted")
	return 0
}
