// Real nodes under both schedulers: what the kernel allows every process is compared with what Tenon
// predicted and with what kubectl tenon draws.
package trial_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

const tenon = "tenon-scheduler" // beside the default scheduler, whose pods are refused

// names are the nodes, each named like its machine in testdata.
var names = []string{"four", "two"}

// One cluster serves all its tests: a start takes a minute.
func TestRealNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("boots two machines")
	}
	// Most of it is for a first build, which compiles Kubernetes.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w := start(ctx, t, names...)
	t.Run("what the agent finds is what was built", func(t *testing.T) { found(ctx, t, w) })
	t.Run("claims get devices beside the CPUs", func(t *testing.T) { claims(ctx, t, w) })
	t.Run("the default scheduler sends pods to their death", func(t *testing.T) { deaths(ctx, t, w) })
	t.Run("Tenon does not", func(t *testing.T) { lives(ctx, t, w) })
	t.Run("what a node uses is seen", func(t *testing.T) { used(ctx, t, w) })
	t.Run("a pod gets what another leaves", func(t *testing.T) { next(ctx, t, w) })
	t.Run("a kubelet restarts", func(t *testing.T) { restart(ctx, t, w) })
	t.Run("a storm", func(t *testing.T) { storm(ctx, t, w) })
	w.seen.check(t)
}

// The agent in the guest reads the described machine from /sys, and the kubelet's release, which is modelled.
func found(ctx context.Context, t *testing.T, w *world) {
	for _, name := range names {
		n := w.drawn(ctx, t, name)
		t.Logf("node %s: rules of kubelet %s", name, n.Rules.Release)
		older, _ := place.ReleaseOf(realnode.OlderKubelet)
		if old := n.Rules.Release == older; old != isOlder(name) || len(n.Inexact) > 0 {
			t.Errorf("node %s is predicted by the rules of kubelet %s, inexact %v", name, n.Rules.Release, n.Inexact)
		}
		got, want := n.Machine, w.made[name].Topo
		for _, level := range []topo.Level{topo.NUMAs, topo.Sockets, topo.Cores} {
			if g, w := parts(got, level), parts(want, level); g != w {
				t.Errorf("node %s: level %d is %s, want %s", name, level, g, w)
			}
		}
		for i, n := range want.NUMAs() {
			g := got.NUMAs()[i]
			if !slices.Equal(g.Distances, n.Distances) {
				t.Errorf("node %s: distances of NUMA node %d are %v, want %v", name, n.ID, g.Distances, n.Distances)
			}
			if fmt.Sprint(pages(g)) != fmt.Sprint(pages(n)) {
				t.Errorf("node %s: hugepages of NUMA node %d are %v, want %v", name, n.ID, pages(g), pages(n))
			}
			// The kernel reserves some for itself.
			if g.Bytes > n.Bytes || g.Bytes < n.Bytes*3/4 {
				t.Errorf("node %s: NUMA node %d has %s, was built with %s", name, n.ID, topo.FormatBytes(g.Bytes),
					topo.FormatBytes(n.Bytes))
			}
		}
	}
}

// parts writes the parts of a level, in order.
func parts(m *topo.Machine, level topo.Level) string {
	var out []string
	for _, g := range m.Groups(level) {
		out = append(out, g.CPUs.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// pages returns the sizes of existing hugepages.
func pages(n topo.NUMA) (out []topo.Hugepages) {
	return slices.DeleteFunc(slices.Clone(n.Hugepages), func(h topo.Hugepages) bool { return h.Count == 0 })
}

// on returns a pod for one node and one scheduler, with containers that run.
func on(node, scheduler, name string, containers ...v1.Container) *v1.Pod {
	p := workload.Pod(name, containers...)
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	p.Spec.SchedulerName = scheduler
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image, c.ImagePullPolicy, c.Args = realnode.Image, v1.PullNever, []string{"16"}
	}
	return p
}

// first returns an init container, which ends by itself.
func first(cpu, memory string) v1.Container {
	c := guaranteed("first", cpu, memory)
	c.Image, c.ImagePullPolicy, c.Args = realnode.Image, v1.PullNever, []string{"8", "end"}
	return c
}

func guaranteed(name, cpu, memory string) v1.Container {
	return workload.Guaranteed(name, workload.Amounts{"cpu": cpu, "memory": memory})
}

// fatal are pods that fit by the sums of what is free, with the error of the kubelet that gets them, and Tenon's
// reason.
var fatal = []struct {
	node, name  string
	first       string // CPUs of an init container
	wants       workload.Amounts
	why, reason string
}{
	{"two", "wide", "", workload.Amounts{"cpu": "6", "memory": "128Mi"},
		"TopologyAffinityError", "wants 6 cpu on one NUMA node; the largest has 4"},
	{"two", "odd", "", workload.Amounts{"cpu": "3", "memory": "128Mi"},
		"SMTAlignmentError", "wants 3 cpu, which are not whole cores"},
	// The container would get the CPUs of its init container, but the kubelet first checks whether as many whole cores
	// are free beside them (cpumanager/policy_static.go, Allocate).
	{"two", "again", "4", workload.Amounts{"cpu": "4", "memory": "128Mi"},
		"SMTAlignmentError", "wants 4 cpu as whole cores; has 2"},
	// The pages are on one NUMA node, the network function on the other.
	{"two", "torn", "", workload.Amounts{"cpu": "2", "memory": "128Mi", "hugepages-2Mi": "96Mi", "example.com/vf": "1"},
		"TopologyAffinityError", "example.com/vf"},
	// Eight CPUs need two NUMA nodes, and the memory one.
	{"four", "lean", "", workload.Amounts{"cpu": "8", "memory": "64Mi"},
		"TopologyAffinityError", "needs one NUMA node for memory but 2 for cpu"},
}

// The nodes are empty, so by the sums of what is free each of these pods fits.
func deaths(ctx context.Context, t *testing.T, w *world) {
	create := func(scheduler, prefix string) {
		for _, f := range fatal {
			p := on(f.node, scheduler, prefix+f.name, workload.Guaranteed("c", f.wants))
			if f.first != "" {
				p.Spec.InitContainers = []v1.Container{first(f.first, "64Mi")}
			}
			w.create(ctx, t, p)
		}
	}
	create("default-scheduler", "default-")
	for _, f := range fatal {
		p := w.await(ctx, t, "default-"+f.name, workload.Refused)
		if _, why := workload.FateOf(p); why != f.why {
			t.Errorf("pod %s was refused with %q, want %q: %s", p.Name, why, f.why, p.Status.Message)
		}
		t.Logf("%s: %s: %s", p.Name, p.Status.Reason, p.Status.Message)
	}
	create(tenon, "")
	for _, f := range fatal {
		_, why := workload.FateOf(w.await(ctx, t, f.name, workload.Pending))
		if !strings.Contains(why, f.reason) {
			t.Errorf("pod %s waits because %q, want %q in it", f.name, why, f.reason)
		}
		t.Logf("%s: %s", f.name, why)
		w.remove(ctx, t, f.name, "default-"+f.name)
	}
}

// lives runs pods of many shapes, and checks in the kernel what their processes may use.
func lives(ctx context.Context, t *testing.T, w *world) {
	// The CPUs follow the devices; those on no NUMA node bind nothing.
	solo := on("two", tenon, "solo", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "128Mi",
		"example.com/vf": "2", "example.com/seat": "1"}))
	solo.Spec.InitContainers = []v1.Container{first("2", "128Mi")}
	pods := []*v1.Pod{
		// The other NUMA node has too few pages.
		on("two", tenon, "huge", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "128Mi",
			"hugepages-2Mi": "96Mi"})),
		solo,
		on("two", tenon, "web-two", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)),
		// Too much for one NUMA node; with two, those on one socket.
		on("four", tenon, "broad", guaranteed("c", "8", "900Mi")),
		on("four", tenon, "pair", guaranteed("a", "2", "128Mi"), guaranteed("b", "500m", "64Mi")),
		on("four", tenon, "small", guaranteed("c", "2", "64Mi")),
		on("four", tenon, "web-four", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)),
	}
	var created []string
	for _, p := range pods {
		w.create(ctx, t, p)
		created = append(created, p.Name)
	}
	for _, name := range created {
		w.await(ctx, t, name, workload.Running)
	}
	w.seen.await(ctx, t, "huge", "solo", "broad", "pair", "small")
	for _, name := range names {
		t.Logf("\n%s", w.picture(ctx, t, name))
		w.compare(ctx, t, name)
	}
	if got := w.numas(ctx, t, "two", "huge"); got != "0" {
		t.Errorf("pod huge is on NUMA nodes %s, want 0: the other has 64Mi of hugepages", got)
	}
	if got := w.numas(ctx, t, "two", "solo"); got != "1" {
		t.Errorf("pod solo is on NUMA nodes %s, want 1: the devices are there", got)
	}
	if got := w.numas(ctx, t, "four", "broad"); got != "2-3" {
		t.Errorf("pod broad is on NUMA nodes %s, want 2-3: the only two on one socket that have 8 CPUs", got)
	}
}

// next gives a pod the place of one that ends.
func next(ctx context.Context, t *testing.T, w *world) {
	w.create(ctx, t, on("four", tenon, "heir", guaranteed("c", "8", "900Mi")))
	_, why := workload.FateOf(w.await(ctx, t, "heir", workload.Pending))
	t.Log(why)
	w.remove(ctx, t, "broad")
	w.await(ctx, t, "heir", workload.Running)
	w.seen.await(ctx, t, "heir")
	w.compare(ctx, t, "four")
}

// restart ends a kubelet and starts it again. Right after that the kubelet lists no holdings of its containers; a
// scheduler that believed this would predict CPUs for the next pod that another one has.
func restart(ctx context.Context, t *testing.T, w *world) {
	w.remove(ctx, t, "heir")
	w.create(ctx, t, on("four", tenon, "left", guaranteed("c", "4", "64Mi")))
	w.await(ctx, t, "left", workload.Running)
	w.seen.await(ctx, t, "left")
	before := w.kernel(ctx, t, "four")
	if err := w.nodes["four"].RestartKubelet(ctx); err != nil {
		t.Fatal(err)
	}
	w.create(ctx, t, on("four", tenon, "late", guaranteed("c", "4", "64Mi")),
		on("four", tenon, "later", guaranteed("c", "300m", "64Mi")))
	w.await(ctx, t, "late", workload.Running)
	w.await(ctx, t, "later", workload.Running)
	w.seen.await(ctx, t, "late", "later")
	w.compare(ctx, t, "four")
	after := w.kernel(ctx, t, "four")
	for c, p := range before {
		if q := after[c]; p.PID != q.PID || !p.Mems.Equal(q.Mems) {
			t.Errorf("%s was process %d on NUMA nodes %s, and is %d on %s", c, p.PID, p.Mems, q.PID, q.Mems)
		}
	}
}
