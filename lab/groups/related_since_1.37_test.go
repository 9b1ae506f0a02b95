//go:build !upto1.36

package groups_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// relate annotates the pods of a gang.
func (g *group) relate(annotation string) {
	for _, p := range g.pods {
		p.Annotations = map[string]string{annotation: g.name}
	}
}

// where waits until the nodes have reported the pods of a gang, and returns the node and the NUMA nodes of each.
func (g *group) where(ctx context.Context, t *testing.T, s *scheduler.Running, all []*v1.Pod) (nodes []string,
	numas []topo.Mask) {
	t.Helper()
	for _, p := range all {
		if !strings.HasPrefix(p.Name, g.name+"-") {
			continue
		}
		err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
			n := s.Shared.Book.Snapshot().Node(p.Spec.NodeName)
			e, ok := n.Entry(string(p.UID))
			if !ok || e.Source != state.Observed {
				return false, nil
			}
			nodes, numas = append(nodes, n.Name), append(numas, place.Exclusive(n.Machine, e.Holdings))
			return true, nil
		})
		if err != nil {
			t.Fatalf("wait until %s reports pod %s: %v", p.Spec.NodeName, p.Name, err)
		}
	}
	return nodes, numas
}

// Real kubelets put the pods of gangs where their annotations want them: all on one NUMA node, or none on the NUMA node
// of another. Some NUMA nodes are partly taken, so that the first place is often the wrong one.
func TestRelatedPodsOfGangs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s, client, pods := startRunning(ctx, t, scheduler.Tenon, nil, "lax-a", "lax-b")
	hasFree(ctx, t, s, map[string]int{"a": 60, "b": 60, "c": 60, "lax-a": 60, "lax-b": 60})
	r := rand.New(rand.NewPCG(*seed, 2))
	held := group{name: "held"}
	for i, node := range []string{"a", "b", "c", "lax-a", "lax-b"} {
		p := ofCPUs(fmt.Sprintf("held-%d", i), 4+r.IntN(20))
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
		held.pods = append(held.pods, p)
		if err := workload.Create(ctx, client, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pods.Until(ctx, held.runs); err != nil {
		t.Fatal(err)
	}
	ran, waited := 0, 0
	for i := range 24 {
		g := draw(r, i)
		annotation := []string{pod.TogetherAnnotation, pod.ApartAnnotation}[i%2]
		if annotation == pod.TogetherAnnotation {
			g.pods = g.pods[:2]
		}
		g.need = len(g.pods)
		g.relate(annotation)
		free := settled(ctx, t, s, len(held.pods))
		g.create(ctx, t, client)
		fits := annotation == pod.ApartAnnotation || slices.ContainsFunc(free, g.fitsTogether)
		all, err := pods.Until(ctx, func(all []*v1.Pod) bool {
			return g.runs(all) || !fits && g.pending(all)
		})
		if err != nil {
			describe(t, map[string]group{g.name: g}, all)
			t.Fatal(err)
		}
		if ran++; !fits {
			ran, waited = ran-1, waited+1
		}
		if runs := g.runs(all); runs != fits {
			t.Errorf("gang %s runs %t, and fits %t", g.name, runs, fits)
		}
		if !fits {
			all = nil
		}
		nodes, numas := g.where(ctx, t, s, all)
		for k := range nodes {
			for j := range k {
				same := nodes[k] == nodes[j]
				if annotation == pod.TogetherAnnotation && (!same || numas[k] != numas[j] || numas[k].Len() != 1) {
					t.Errorf("gang %s is on %v, NUMA nodes %b, and has to be together", g.name, nodes, numas)
				}
				if annotation == pod.ApartAnnotation && same && numas[k]&numas[j] != 0 {
					t.Errorf("gang %s is on %v, NUMA nodes %b, and has to be apart", g.name, nodes, numas)
				}
			}
		}
		remove(ctx, t, client, g)
		if _, err := pods.Until(ctx, func(all []*v1.Pod) bool { return len(all) == len(held.pods) }); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d gangs ran, %d waited", ran, waited); ran < 14 || waited == 0 {
		t.Error("too few gangs ran, or none had to wait: the test shows little")
	}
}

// settled waits until the nodes are certain, and hold pods only those that stay, and returns them.
func settled(ctx context.Context, t *testing.T, s *scheduler.Running, stay int) (nodes []*state.Node) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		there, doubt := 0, false
		nodes = nil
		for n := range s.Shared.Book.Snapshot().All() {
			there, doubt, nodes = there+len(n.Entries), doubt || n.Doubtful() != "", append(nodes, n)
		}
		return there == stay && !doubt, nil
	})
	if err != nil {
		t.Fatalf("wait until the nodes are certain: %v", err)
	}
	return nodes
}

// pending reports whether all pods of a gang have the condition that they fit nowhere.
func (g *group) pending(all []*v1.Pod) bool {
	n := 0
	for _, p := range all {
		if f, _ := workload.FateOf(p); strings.HasPrefix(p.Name, g.name+"-") && f == workload.Pending {
			n++
		}
	}
	return n == len(g.pods)
}

// fitsTogether reports whether a kubelet would put the pods of a gang on one NUMA node, one after the other.
func (g *group) fitsTogether(n *state.Node) bool {
	usage, on := n.Usage, topo.Mask(0)
	for _, p := range g.pods {
		cp, err := pod.ToPlace(p)
		if err != nil {
			return false
		}
		v := place.Place(usage, cp)
		if !v.Fits() {
			return false
		}
		on |= place.Exclusive(n.Machine, v.Holdings)
		usage = usage.Hold(v.Holdings...)
	}
	return on.Len() == 1
}

// A pod that has to be together with others waits if their NUMA node has no room, although other nodes have, with the
// reason. Once they have left, it runs on another node, on which nothing has changed: theirs is too full all the same.
func TestAPodWaitsForTheNUMANodeOfOthers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, client, pods := startRunning(ctx, t, scheduler.Tenon, nil)
	hasFree(ctx, t, s, map[string]int{"a": 60, "b": 60, "c": 60})
	on := func(g *group) {
		for _, p := range g.pods {
			p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "c"}
			if err := workload.Create(ctx, client, p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pods.Until(ctx, g.runs); err != nil {
			t.Fatal(err)
		}
	}
	held := group{name: "held", pods: []*v1.Pod{ofCPUs("held-0", 24), ofCPUs("held-1", 24)}}
	on(&held)
	pair := group{name: "pair", pods: []*v1.Pod{ofCPUs("pair-server", 2), ofCPUs("pair-worker", 2)}}
	pair.relate(pod.TogetherAnnotation)
	on(&pair)
	large := group{name: "large", pods: []*v1.Pod{ofCPUs("large-0", 20)}}
	large.pods[0].Annotations = pair.pods[0].Annotations
	if err := workload.Create(ctx, client, large.pods[0]); err != nil {
		t.Fatal(err)
	}
	all, err := pods.Until(ctx, large.pending)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, why := workload.FateOf(p); p.Name == "large-0" && !strings.Contains(why, "together with pods on node c") {
			t.Errorf("the large pod waits for %q", why)
		}
	}
	remove(ctx, t, client, pair)
	if all, err = pods.Until(ctx, large.runs); err != nil {
		describe(t, map[string]group{"large": large}, all)
		t.Fatal(err)
	}
}
