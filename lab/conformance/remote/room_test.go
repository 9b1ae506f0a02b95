package remote

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(cpus string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus)}}}
}

func topology(available ...string) *v1alpha2.NodeResourceTopology {
	out := &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, a := range available {
		q := resource.MustParse(a)
		out.Zones = append(out.Zones, v1alpha2.Zone{Type: "Node",
			Resources: v1alpha2.ResourceInfoList{{Name: "cpu", Capacity: resource.MustParse("64"), Available: q,
				Allocatable: q}}})
	}
	return out
}

// The amounts of all cases keep what their names promise on machines of many sizes.
func TestAmountsFitAsTheirNamesSay(t *testing.T) {
	for _, r := range []room{{2, 14, 16, 30}, {2, 62, 64, 123}, {4, 30, 32, 120}, {8, 16, 16, 128}, {2, 127, 128, 250},
		{3, 40, 41, 120}} {
		a, err := r.amounts()
		if err != nil {
			t.Errorf("%v: %v", r, err)
			continue
		}
		for what, holds := range map[string]bool{
			"one whole per NUMA node":               a["whole"] <= r.least && r.numas*a["whole"] <= r.sum,
			"no two halves on a NUMA node":          2*a["half"] > r.most && a["half"] <= r.least,
			"late not beside a half":                a["half"]+a["late"] > r.most,
			"late beside all halves in sum":         r.numas*a["half"]+a["late"] <= r.sum,
			"late on a NUMA node without half":      a["late"] <= r.least,
			"late and the rest of whole":            a["late"] < a["whole"],
			"wide on no NUMA node, and on the node": a["wide"] > r.most && a["wide"] <= r.sum,
		} {
			if !holds {
				t.Errorf("%v, %v: not %s", r, a, what)
			}
		}
	}
}

func TestRoomIsMeasured(t *testing.T) {
	requested := resource.MustParse("1500m")
	published, err := publishedRoom(node("30"), requested, topology("14", "15500m"))
	if want := (room{2, 14, 15, 28}); err != nil || published != want {
		t.Errorf("published: %v (%v), want %v", published, err, want)
	}
	said, err := declaredRoom(node("30"), requested, 2, 16)
	if want := (room{2, 14, 16, 28}); err != nil || said != want {
		t.Errorf("declared: %v (%v), want %v", said, err, want)
	}
	// Of 32 CPUs 2500m are reserved, for which the kubelet keeps three CPUs.
	if said, err := declaredRoom(node("29500m"), requested, 2, 16); err != nil || said.least != 13 {
		t.Errorf("declared: %v (%v), want at least 13 CPUs", said, err)
	}
	if _, err := declaredRoom(node("40"), requested, 2, 16); err == nil {
		t.Error("more CPUs than declared are no error")
	}
	if _, err := publishedRoom(node("30"), requested, topology("30")); err == nil {
		t.Error("one NUMA node is no error")
	}
	if _, err := (room{2, 2, 4, 6}).amounts(); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Errorf("error %v about a small node", err)
	}
	for _, text := range []string{"", "32", "1x32", "2x0", "65x2", "2x99999", "-2x3", "2x3x4"} {
		if _, _, err := declare(text); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

// A pod that was created and not delivered yet has not been evicted: the wait for rest has not begun.
func TestCreatedPodsAreAwaited(t *testing.T) {
	p := &played{cluster: &cluster{Options: Options{Pause: time.Second, Settle: time.Second}},
		created: map[string]time.Time{}, bound: map[string]time.Duration{}, unseen: map[string]bool{"app": true}}
	if _, quiet := p.look(nil); quiet != 4*time.Second {
		t.Errorf("quiet for %v without the pod that was created, want more time for it", quiet)
	}
	app := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: v1.PodSpec{NodeName: "n"},
		Status: v1.PodStatus{Phase: v1.PodRunning}}
	if _, quiet := p.look([]*v1.Pod{app}); quiet != time.Second {
		t.Errorf("quiet for %v with the pod, want a second", quiet)
	}
	if _, quiet := p.look(nil); quiet != time.Second {
		t.Errorf("quiet for %v after somebody deleted the pod, want a second", quiet)
	}
}

// All cases can be made for a node with the smallest room, and name no unknown amounts or nodes.
func TestCasesAreMade(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	r := room{2, 14, 16, 30}
	amounts, err := r.amounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		made, err := c.on(r, amounts, []string{"x", "y"}[:c.Nodes], "image")
		if err != nil {
			t.Error(err)
			continue
		}
		if len(made.Steps) == 0 || len(made.Steps[0].Create)+len(made.Steps[0].Burst) == 0 {
			t.Errorf("case %s creates no pods", c.Name)
		}
	}
	if i := slices.IndexFunc(cases, func(c *Case) bool { return c.Name == "full-halves" }); i < 0 {
		t.Error("no case full-halves")
	}
	for _, text := range []string{"", "most", "half-late-late", "late-whole", "late-x"} {
		if q, err := cpus(text, amounts); err == nil {
			t.Errorf("cpus %q are %s", text, q.String())
		}
	}
}
