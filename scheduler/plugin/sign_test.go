//go:build !upto1.35

package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/report"
)

func sign(t rapid.TB, p *Plugin, pod *v1.Pod) string {
	fragments, status := p.SignPod(context.Background(), pod)
	if !status.IsSuccess() {
		t.Fatalf("pod is not signed: %s", status.Message())
	}
	text, err := json.Marshal(fragments)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// drawnAsk returns a pod that nodes align, with any possible request.
func drawnAsk(t *rapid.T, name string) *v1.Pod {
	amounts := fmt.Sprintf(
		"cpu=%d memory=%dGi",
		rapid.IntRange(1, 2).Draw(t, "cpus"),
		rapid.IntRange(1, 2).Draw(t, "memory"),
	)
	if rapid.Bool().Draw(t, "gpu") {
		amounts += " acme.com/gpu=1"
	}
	pod := podOf(name, amounts)
	pod.Spec.Containers[0].Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "container")
	pod.Annotations = map[string]string{"other": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "other")}
	for annotation, values := range map[string][]string{
		apipod.PolicyAnnotation: {"", "restricted", "single-numa-node"}, booking.StrategyAnnotation: {"", "LeastAllocated"},
		apipod.AlignAnnotation: {"", "cpu"}, apipod.ScopeAnnotation: {"", "pod"},
	} {
		if v := rapid.SampledFrom(values).Draw(t, annotation); v != "" {
			pod.Annotations[annotation] = v
		}
	}
	return pod
}

// Pods of one signature get the same answers and costs from every node, and pods with different requests have different
// signatures.
func TestPodsOfOneSignatureAreAnsweredAlike(t *testing.T) {
	p := newPlugin(t, "unknownNodes: AllowWithoutDemand")
	const machine = two + "device acme.com/gpu g0 numa 0\ndevice acme.com/gpu g1 numa 1\n"
	names := []string{"unknown"}
	for i, policy := range []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA} {
		for k, held := range []string{"0", "0-14", "0-15,17-31"} {
			name := fmt.Sprintf("n%d-%d", i, k)
			names = append(names, name)
			p.Feed.Layout(layout(t, name, machine, policy, 10*i+k+1, holding(cpus("held-"+name, 1), held)))
		}
	}
	answers := func(pod *v1.Pod) (out string) {
		cs := cycle(t, p, pod)
		s, _ := read(cs)
		for _, n := range names {
			status := filter(t, p, cs, n)
			cost, _ := p.Score(t.Context(), cs, pod, nodeInfo(n))
			out += fmt.Sprintf("%s: %s %d\n", n, status.Code(), cost)
		}
		return fmt.Sprintf("%s %+v %v\n", s.pod.Shape(), s.demand, ptr.Deref(s.wish, -1)) + out
	}
	alike, apart := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawnAsk(rt, "a"), drawnAsk(rt, "b")
		// The mix is learned from requests: it is learned before, so that it is the same for both.
		answers(a)
		answers(b)
		if rapid.Bool().Draw(rt, "twins") {
			b.Spec = *a.Spec.DeepCopy()
			b.Annotations = a.DeepCopy().Annotations
			b.Spec.Containers[0].Name, b.Annotations["other"] = "other", "z"
		}
		same, got, other := sign(rt, p, a) == sign(rt, p, b), answers(a), answers(b)
		if same {
			alike++
		} else {
			apart++
		}
		if same != (got == other) {
			rt.Errorf("signatures equal: %v\n%s\n%s", same, got, other)
		}
	})
	if alike == 0 || apart == 0 {
		t.Errorf("%d pairs alike, %d apart", alike, apart)
	}
}

func TestPodsThatDependOnMoreAreNotSigned(t *testing.T) {
	p := newPlugin(t, refuse)
	group := cpus("p", 2)
	group.Spec.SchedulingGroup = &v1.PodSchedulingGroup{}
	for name, pod := range map[string]*v1.Pod{"group": group, "logged": noted(cpus("p", 2), report.LogAnnotation, "6"),
		"not understood": noted(cpus("p", 2), apipod.PolicyAnnotation, "strict")} {
		if _, status := p.SignPod(t.Context(), pod); status.IsSuccess() {
			t.Errorf("%s: signed", name)
		}
	}
}

// In a batch of pods that each fill a node, kube-scheduler places those after the first without scoring again, each
// where it fits.
func TestPodsThatFillNodesAreBatched(t *testing.T) {
	c := newTown(t)
	for i := range 60 {
		c.node(fmt.Sprintf("node-%03d", i), "0-15")
	}
	var pods []*v1.Pod
	for i := range 40 {
		pods = append(pods, cpus(fmt.Sprintf("p-%02d", i), 16))
	}
	at, batched := c.schedulesAll(pods)
	if batched == 0 {
		t.Error("nobody was batched")
	}
	got := map[string]int{}
	for _, p := range pods {
		node := at[p.Name]
		got[node]++
		n := c.shared.Book.Snapshot().Node(node)
		if n == nil {
			t.Fatalf("pod %s went to node %q", p.Name, node)
		}
		e, ok := n.Entry(string(p.UID))
		if !ok || e.Source != state.Predicted || e.Holdings[0].CPUs.String() != "16-31" || got[node] > 1 {
			t.Errorf("pod %s on node %s, with %d, has %+v", p.Name, node, got[node]-1, e.Holdings)
		}
	}
	t.Logf("%d of %d pods were batched", batched, len(pods))
}

// schedulesAll schedules pods that all fit. It returns their nodes, and how many were placed from a batch.
func (c *town) schedulesAll(pods []*v1.Pod) (at map[string]string, batched int64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	client := fake.NewClientset(c.nodes...)
	type bound struct{ pod, node string }
	ends, fails := make(chan bound, len(pods)), make(chan ending, len(pods))
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if b, ok := a.(clienttesting.CreateAction).GetObject().(*v1.Binding); ok {
			ends <- bound{b.Name, b.Target.Name}
			return true, b, nil
		}
		return false, nil, nil
	})
	for _, p := range pods {
		p.Spec.SchedulerName = v1.DefaultSchedulerName
		c.pods = append(c.pods, p)
	}
	for _, p := range c.pods {
		if err := client.Tracker().Add(p); err != nil {
			c.t.Fatal(err)
		}
	}
	sched, done := c.open(ctx, client, fails), make(chan struct{})
	go func() { sched.Run(ctx); close(done) }()
	at = map[string]string{}
	for len(at) < len(pods) {
		select {
		case b := <-ends:
			at[b.pod] = b.node
		case e := <-fails:
			c.t.Fatalf("a pod was not scheduled: %s", e.why)
		case <-ctx.Done():
			c.t.Fatalf("%d of %d pods were scheduled within a minute", len(at), len(pods))
		}
	}
	cancel()
	<-done
	return at, sched.Profiles[v1.DefaultSchedulerName].(interface{ TotalBatchedPods() int64 }).TotalBatchedPods()
}

// kube-scheduler signs no pod by default, whatever the profile has. Without default spread constraints it also signs
// aligned pods.
func TestTheShippedProfileSignsWithoutDefaultConstraints(t *testing.T) {
	y, signed := newYard(t, 3, 50), []bool{}
	for _, args := range []string{"", `
  pluginConfig:
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: []}
`} {
		c := y.open(t, "tenon", profilesOf(t, "- plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}"+args))
		signed = append(signed, c.f.SignPod(t.Context(), cpus("p", 2)) != nil)
	}
	if signed[0] || !signed[1] {
		t.Errorf("signed: %v, want [false true]", signed)
	}
}
