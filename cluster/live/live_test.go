package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/core/state"
)

// start follows a stand-in API server and waits until it was read once.
func start(t *testing.T, s *livetest.Server, o Options) *View {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if o.Bounds.Nodes == 0 {
		o.Bounds = Standard()
	}
	v, err := Start(ctx, &rest.Config{Host: s.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-v.Ready():
	case <-time.After(20 * time.Second):
		t.Fatal("the view is not ready")
	}
	return v
}

func cluster(t *testing.T) *livetest.Server {
	s := livetest.New(t)
	s.List(livetest.Nodes, livetest.Node("a"), livetest.Node("b"))
	s.List(livetest.Pods, livetest.Pod("ml", "p", "a"), livetest.Pod("web", "q", ""))
	s.List(livetest.Layouts, livetest.Layout(t, "a"))
	return s
}

func TestAViewHasTheLedgerAndItsProblems(t *testing.T) {
	v := start(t, cluster(t), Options{}).View()
	if len(v.Nodes) != 2 || len(v.Pods) != 2 || len(v.States) != 1 || len(v.Problems) != 1 || v.Problems[0].Node != "b" {
		t.Fatalf("%d nodes, %d pods, %d states, problems %v", len(v.Nodes), len(v.Pods), len(v.States), v.Problems)
	}
	if free := v.States[0].Usage.FreeCPUs().Len(); free != 124 {
		t.Errorf("node a has %d free CPUs beside a pod with 4 of 128", free)
	}
	text := fmt.Sprint(v.Pods[0].Pod(), v.Pods[1].Pod(), v.Nodes)
	for _, private := range []string{"s3cret", "PASSWORD", "big", "image"} {
		if strings.Contains(text, private) {
			t.Errorf("the view keeps %q", private)
		}
	}
	if got := v.Pods[0].Pod().Annotations["tenon.sh/align"]; got != "cpu" {
		t.Errorf("annotation tenon.sh/align is %q", got)
	}
}

// Resources that may not be read are named, and the rest is available.
func TestWhatMayNotBeReadIsALimit(t *testing.T) {
	s := cluster(t)
	s.List(livetest.PodsOf("ml"), livetest.Pod("ml", "p", "a"))
	s.Forbid(livetest.Pods)
	s.Forbid(livetest.Layouts)
	s.Forbid(livetest.Bases)
	v := start(t, s, Options{Namespaces: []string{"ml", "other"}})
	want := []document.Limit{{Resource: "layoutbases", Reason: "you may not list layoutbases"},
		{Resource: "nodelayouts", Reason: "you may not list nodelayouts"},
		{Resource: "pods in all namespaces", Reason: (&kube.Seen{Namespaces: []string{"ml"}}).Text()},
		{Resource: "pods in namespace other", Reason: "you may not list pods in namespace other"}}
	if got := v.Limits(); !slices.Equal(got, want) {
		t.Errorf("limits are %v, want %v", got, want)
	}
	if all := v.View(); len(all.Nodes) != 2 || len(all.Pods) != 1 || all.Pods[0].Pod().Namespace != "ml" {
		t.Errorf("%d nodes and pods %v", len(all.Nodes), all.Pods)
	}
	if v.Rejected() {
		t.Error("the identity counts as rejected")
	}
}

func TestAnExpiredIdentityIsRejected(t *testing.T) {
	s := cluster(t)
	s.Accept()
	if v := start(t, s, Options{}); !v.Rejected() || len(v.Limits()) == 0 {
		t.Errorf("rejected %t, limits %v", v.Rejected(), v.Limits())
	}
}

func TestAFollowerReceivesWhatChanges(t *testing.T) {
	s := cluster(t)
	v := start(t, s, Options{})
	f := v.Follow()
	defer f.Close()
	bound := livetest.Pod("web", "q", "a")
	bound.ResourceVersion = "11"
	s.Send(livetest.Pods, "MODIFIED", bound)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var nodes, pods []string
	for len(nodes) == 0 || len(pods) == 0 {
		c, err := f.Next(ctx)
		if err != nil {
			t.Fatalf("after nodes %v and pods %v: %v", nodes, pods, err)
		}
		nodes, pods = append(nodes, c.Nodes...), append(pods, c.Pods...)
	}
	if !slices.Equal(slices.Compact(nodes), []string{"a"}) || !slices.Equal(pods, []string{"web/q"}) {
		t.Errorf("nodes %v and pods %v have changed", nodes, pods)
	}
	if p := v.Pod("web", "q"); p == nil || p.Spec.NodeName != "a" || v.Pod("web", "r") != nil {
		t.Errorf("pod web/q is %v", p)
	}
}

// A layout that continues a base is complete once both have arrived, whichever comes first.
func TestALayoutAndItsBaseArriveApart(t *testing.T) {
	s := cluster(t)
	whole := livetest.Layout(t, "a", holding("old"))
	whole.Sequence, whole.Agent.ID = 20, "agent"
	base := v1alpha1.BaseOf(whole)
	base.ResourceVersion = "11"
	next := livetest.Layout(t, "a", holding("old"), holding("new"))
	next.Sequence, next.Agent.ID, next.ResourceVersion = 21, "agent", "12"
	d, ok := next.Since(base)
	if !ok {
		t.Fatal("no difference")
	}
	v := start(t, s, Options{})
	f := v.Follow()
	defer f.Close()
	s.Send(livetest.Layouts, "MODIFIED", d)
	s.Send(livetest.Bases, "ADDED", base)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(v.Snapshot().Node("a").Entries) != 3 { // and the pod that is bound there
		if _, err := f.Next(ctx); err != nil {
			t.Fatalf("node a has %v: %v", v.Snapshot().Node("a").Entries, err)
		}
	}
}

func holding(name string) state.Entry {
	return state.Entry{Pod: state.PodID{Namespace: "ml", Name: name, UID: name}, Source: state.Observed}
}

func TestManyChangesAreOne(t *testing.T) {
	var c changes
	f := c.follow()
	for i := range 2 * maxNamed {
		c.pod(fmt.Sprint("p-", i))
	}
	got, err := f.Next(t.Context())
	if err != nil || !got.All || len(got.Pods) > maxNamed || got.Version != 2*maxNamed {
		t.Errorf("%d pods, all %t, version %d, error %v", len(got.Pods), got.All, got.Version, err)
	}
	c.node("a")
	if got, err = f.Next(t.Context()); err != nil || got.All || !slices.Equal(got.Nodes, []string{"a"}) ||
		got.Pods != nil {
		t.Errorf("then %+v, error %v", got, err)
	}
}

func TestBoundsAreKept(t *testing.T) {
	v := start(t, cluster(t), Options{Bounds: Bounds{Nodes: 1, Pods: 1, Bytes: 1 << 20}})
	var names []string
	for _, l := range v.Limits() {
		names = append(names, l.Resource)
	}
	if all := v.View(); len(all.Nodes) != 1 || len(all.Pods) != 1 ||
		!slices.Equal(names, []string{"more nodes", "more pods"}) {
		t.Errorf("%d nodes, %d pods, limits %v", len(all.Nodes), len(all.Pods), names)
	}
}

// Resources that may no longer be read are dropped.
func TestRightsThatAreTakenAwayCount(t *testing.T) {
	s := cluster(t)
	v := start(t, s, Options{})
	f := v.Follow()
	defer f.Close()
	s.Forbid(livetest.Pods)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for all, _ := v.count(); all > 0; all, _ = v.count() {
		if _, err := f.Next(ctx); err != nil {
			t.Fatalf("%d pods are still there: %v", all, v.Limits())
		}
	}
	if l := v.Limits(); len(l) != 1 || !strings.HasPrefix(l[0].Resource, "pods") {
		t.Errorf("limits %v", l)
	}
}

// Pods that may not be read any more have not ended: their node is not in doubt, and has what its layout lists. Once
// they may be read again, all is as before.
func TestPodsThatMayNotBeReadAnyMoreHoldWhatTheyHeld(t *testing.T) {
	s := cluster(t)
	p := livetest.Pod("ml", "p", "a")
	s.List(livetest.Layouts, livetest.Layout(t, "a", kubetest.Holding(p, "8-11")))
	v := start(t, s, Options{})
	f := v.Follow()
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i, may := range []bool{true, false, true} {
		switch {
		case !may:
			s.Forbid(livetest.Pods)
		case i > 0: // the server has them at first
			s.List(livetest.Pods, p)
		}
		for n, _ := v.count(); n > 0 != may || (v.Seen() == nil) != may; n, _ = v.count() {
			if _, err := f.Next(ctx); err != nil {
				t.Fatalf("%d pods, seen %v, limits %v", n, v.Seen(), v.Limits())
			}
		}
		n := v.Snapshot().Node("a")
		if n.Doubtful() != "" || n.Silent || len(n.Others) > 0 || len(n.Gone) > 0 || n.Usage.FreeCPUs().Len() != 124 {
			t.Errorf("pods may be read: %t: node a is doubtful (%q), silent (%t), in %d more states, lists %v as gone, and has "+
				"%d free CPUs; want 124", may, n.Doubtful(), n.Silent, len(n.Others), n.Gone, n.Usage.FreeCPUs().Len())
		}
	}
}

// Who may read the pods of one namespace only sees the holdings of all others in the layouts. These pods exist, though
// they cannot be read: the node is not in doubt, and a pod that fits beside them fits.
func TestPodsThatMayNotBeReadCount(t *testing.T) {
	for name, forbid := range map[string][]string{"one namespace": {livetest.Pods},
		"none of the namespaces": {livetest.Pods, livetest.PodsOf("web")}} {
		s := cluster(t)
		held := kubetest.Holding(livetest.Pod("ml", "p", "a"), "8-11")
		s.List(livetest.Layouts, livetest.Layout(t, "a", held))
		s.List(livetest.PodsOf("web"))
		for _, resource := range forbid {
			s.Forbid(resource)
		}
		v := start(t, s, Options{Namespaces: []string{"web"}}).View()
		if len(v.States) != 1 || len(v.Pods) != 0 {
			t.Fatalf("%s: %d states, %d pods", name, len(v.States), len(v.Pods))
		}
		if n := v.States[0]; n.Doubtful() != "" || len(n.Others) > 0 || n.Usage.FreeCPUs().Len() != 124 {
			t.Errorf("%s: node a is doubtful (%q), in %d more states, with %d free CPUs; want 124 in one state", name,
				n.Doubtful(), len(n.Others), n.Usage.FreeCPUs().Len())
		}
		if v.Seen == nil || v.Seen.Has("ml") || v.Seen.Has("web") != (len(forbid) == 1) {
			t.Errorf("%s: seen is %v", name, v.Seen)
		}
	}
}
