//go:build !upto1.36

package groups_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	count = flag.Int("groups", 60, "how many groups are made")
	seed  = flag.Uint64("groups.seed", 1, "seed of the groups")
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	if err := lab.EnableGangs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// limit bounds a test. Most of it is for the gangs that a flag asks for.
const limit = time.Hour

const machine = `
numa 0 socket 0 cpus 0-31 memory 62Gi
numa 1 socket 1 cpus 32-63 memory 62Gi
distances 10 21
distances 21 10
`

const config = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,32-33
topologyManagerPolicy: single-numa-node
`

// group is a gang: its pods, and how many of them it needs.
type group struct {
	name string
	need int
	pods []*v1.Pod
	rack string // the label whose value its nodes share, or ""
	rank string // its priority class, or ""
	ends bool   // its pods are evicted together
}

// draw returns a gang of pods of equal or different sizes, with at most 30 CPUs each.
func draw(r *rand.Rand, i int) group {
	g := group{name: fmt.Sprintf("g%03d", i)}
	size, equal := 2+r.IntN(4), r.IntN(2) == 0
	cpus := 2 + r.IntN(15)
	g.need = size - r.IntN(2)*r.IntN(2)
	for k := range size {
		if !equal {
			cpus = 2 + r.IntN(15)
		}
		p := ofCPUs(fmt.Sprintf("%s-%d", g.name, k), cpus)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.name}
		g.pods = append(g.pods, p)
	}
	return g
}

// create creates a gang and its pods.
func (g *group) create(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: g.name, Namespace: "default"}}
	pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(g.need)}
	if pg.Spec.PriorityClassName = g.rank; g.ends {
		pg.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	if g.rack != "" {
		pg.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: g.rack}}}
	}
	if _, err := client.SchedulingV1beta1().PodGroups("default").Create(ctx, pg, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range g.pods {
		if err := workload.Create(ctx, client, p); err != nil {
			t.Fatal(err)
		}
	}
}

// progress is how many pods of a gang have nodes, run, and were refused.
type progress struct{ bound, running, refused int }

func (g *group) progress(pods []*v1.Pod) (out progress) {
	for _, p := range pods {
		if !strings.HasPrefix(p.Name, g.name+"-") {
			continue
		}
		if p.Spec.NodeName != "" {
			out.bound++
		}
		switch f, _ := workload.FateOf(p); f {
		case workload.Running:
			out.running++
		case workload.Refused:
			out.refused++
		}
	}
	return out
}

// runs reports whether all pods of a gang run; a condition for [workload.Watch.Until].
func (g *group) runs(pods []*v1.Pod) bool { return g.progress(pods).running == len(g.pods) }

// settled reports whether a gang has not begun, or no pod of it that has a node is on its way.
func (p progress) settled() bool { return p.bound == 0 || p.running+p.refused == p.bound }

// play runs gangs that come at once, more than fit. Those that have begun are removed, so that others can, once fits
// reports of none of the first gangs that wait that it could run; nil asks for no such thing. It returns how many pods
// kubelets refused, and the gangs that ran with fewer pods than they need.
func play(ctx context.Context, t *testing.T, client kubernetes.Interface, pods *workload.Watch,
	fits func(g *group) bool) (refused int, half []string) {
	t.Helper()
	t.Logf("%d gangs, seed %d", *count, *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	waiting := map[string]group{}
	for i := range *count {
		g := draw(r, i)
		waiting[g.name] = g
		g.create(ctx, t, client)
	}
	rounds := 0
	for ; len(waiting) > 0; rounds++ {
		all, err := round(ctx, waiting, pods, fits)
		if err != nil {
			describe(t, waiting, all)
			t.Fatal(err)
		}
		for name, g := range waiting {
			p := g.progress(all)
			if p.bound == 0 {
				continue
			}
			if refused += p.refused; p.running < g.need {
				half = append(half, name)
			}
			delete(waiting, name)
			remove(ctx, t, client, g)
		}
	}
	t.Logf("all gangs have begun after %d rounds; %d pods were refused, %d gangs started in part", rounds, refused,
		len(half))
	return refused, half
}

// round waits until some gangs have begun, and all of these have settled. It returns the pods.
func round(ctx context.Context, waiting map[string]group, pods *workload.Watch, fits func(g *group) bool) (
	all []*v1.Pod, err error) {
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		all, _ = pods.Pods()
		begun := 0
		var idle []*group
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			g := waiting[name]
			p := g.progress(all)
			if begun += p.bound; !p.settled() || p.running < g.need && p.bound > 0 && p.refused == 0 {
				return false, nil
			}
			if p.bound == 0 && len(idle) < 20 {
				idle = append(idle, &g)
			}
		}
		return begun > 0 && (fits == nil || !slices.ContainsFunc(idle, fits)), nil
	})
	if err != nil {
		return all, fmt.Errorf("wait until gangs run, and no other one fits: %w", err)
	}
	return all, nil
}

// Gangs run whole, no kubelet refuses a pod, and no gang waits that could run. On a busy machine, a pod may get other
// CPUs than predicted if it comes at the very end of another one: a kubelet writes that a pod has ended before it gives
// the pod's CPUs back (SyncTerminatingPod and completeTerminating, pkg/kubelet of 1.37). That is seen about once in
// thirty runs.
func TestGangsStartWhole(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	wrong := make(chan state.Outcome, 2)
	s, client, pods := startRunning(ctx, t, scheduler.Tenon, func(o state.Outcome) {
		if o.Result == state.Wrong {
			t.Logf("pod %s: predicted %v, seen %v", o.Pod, o.Predicted, o.Seen)
			select {
			case wrong <- o:
			default:
			}
		}
	})
	refused, half := play(ctx, t, client, pods, func(g *group) bool { return g.couldRun(t, s) })
	if refused+len(half) > 0 {
		t.Errorf("%d pods were refused, and these gangs started in part: %v", refused, half)
	}
	if len(wrong) > 1 {
		t.Error("more than one prediction was wrong")
	}
}

// Without Tenon, kubelets refuse pods of the same gangs, and the rest of these gangs runs alone.
func TestGangsWithoutTenonStartInPart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, client, pods := startRunning(ctx, t, scheduler.Plain, nil)
	if refused, half := play(ctx, t, client, pods, nil); refused == 0 || len(half) == 0 {
		t.Errorf("%d pods were refused, and the gangs %v started in part: such gangs do not need Tenon", refused, half)
	}
}

// couldRun reports whether enough pods of a gang fit now, by every way to spread them over the nodes. While a node is
// not certain, it is true.
func (g *group) couldRun(t *testing.T, s *scheduler.Running) bool {
	var nodes []*state.Node
	for n := range s.Shared.Book.Snapshot().All() {
		if n.Doubtful() != "" {
			return true
		}
		nodes = append(nodes, n)
	}
	var some func(nodes []*state.Node, k, need int) bool
	some = func(nodes []*state.Node, k, need int) bool {
		if need <= 0 || len(g.pods)-k < need {
			return need <= 0
		}
		p, err := pod.ToPlace(g.pods[k])
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range nodes {
			if next, ok := n.With(state.PodID{UID: g.pods[k].Name}, p); ok {
				rest := slices.Clone(nodes)
				if rest[i] = next; some(rest, k+1, need-1) {
					return true
				}
			}
		}
		return some(nodes, k+1, need)
	}
	return some(nodes, 0, g.need)
}

// startRunning starts a cluster of three nodes, and of further ones, with a scheduler. The kubelets of nodes whose
// names begin with "lax" align as far as they can.
func startRunning(ctx context.Context, t *testing.T, profiles string, outcome func(state.Outcome), more ...string) (
	*scheduler.Running, kubernetes.Interface, *workload.Watch) {
	t.Helper()
	return startScheduler(ctx, t, startNodes(ctx, t, more...), profiles, outcome)
}

// startNodes starts a cluster without a scheduler.
func startNodes(ctx context.Context, t *testing.T, more ...string) *lab.Cluster {
	t.Helper()
	var nodes []lab.Node
	for _, name := range append([]string{"a", "b", "c"}, more...) {
		n := lab.Node{Name: name, Machine: "halves"}
		if strings.HasPrefix(name, "lax") {
			n.Machine = "lax"
		}
		nodes = append(nodes, n)
	}
	lax := strings.Replace(config, "single-numa-node", "best-effort", 1)
	files := fstest.MapFS{"halves.txt": {Data: []byte("source made up: two numas of 30 CPUs for pods each" + machine)},
		"halves.yaml": {Data: []byte(config)}}
	files["lax.txt"], files["lax.yaml"] = files["halves.txt"], &fstest.MapFile{Data: []byte(lax)}
	c, err := lab.Start(ctx, lab.Config{Machines: files, APIs: lab.GangAPIs, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// startScheduler starts a scheduler, and follows the pods of the cluster.
func startScheduler(ctx context.Context, t *testing.T, c *lab.Cluster, profiles string, outcome func(state.Outcome)) (
	*scheduler.Running, kubernetes.Interface, *workload.Watch) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	s, err := scheduler.Start(c.Dir, c.SchedulerKubeconfig, profiles, outcome)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	pods, err := workload.Follow(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pods.Stop)
	return s, client, pods
}

// remove deletes the pods of a gang.
func remove(ctx context.Context, t *testing.T, client kubernetes.Interface, g group) {
	t.Helper()
	for _, p := range g.pods {
		if err := client.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// describe prints the gangs that are left.
func describe(t *testing.T, waiting map[string]group, all []*v1.Pod) {
	var lines []string
	for name, g := range waiting {
		lines = append(lines, fmt.Sprintf("gang %s needs %d of %d: %+v", name, g.need, len(g.pods), g.progress(all)))
	}
	slices.Sort(lines)
	t.Log(strings.Join(lines, "\n"))
	for _, p := range all {
		if f, why := workload.FateOf(p); f != workload.Running {
			t.Logf("pod %s on %q: %s: %s", p.Name, p.Spec.NodeName, f, why)
		}
	}
}
