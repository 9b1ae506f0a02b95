//go:build !upto1.35

package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/defrag"
)

// member returns a pod of a ReplicaSet and of the PodGroup g with the annotation that it may be evicted.
func member(name, node string, change func(*v1.Pod)) v1.Pod {
	return running(name, node, "1", func(p *v1.Pod) {
		controlled("ReplicaSet")(p)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
		p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
		if change != nil {
			change(p)
		}
	})
}

// in returns a node with a rack, or without one if it is "".
func in(name, rack string) v1.Node {
	return node(name, func(n *v1.Node) {
		if rack != "" {
			n.Labels["rack"] = rack
		}
	})
}

// A pod of a gang moves if it agrees, and if its successor starts as a late member of the gang.
func TestWhichPodsOfPodGroupsMove(t *testing.T) {
	silent := func(p *v1.Pod) { p.Annotations = nil }
	ended := func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }
	ending := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	for name, c := range map[string]struct {
		group  *kube.PodGroup
		change func(*v1.Pod) // of the pod y, beside the pod x
		pinned bool
		stays  string // why the pod x stays
	}{
		"a gang":                 {group: &kube.PodGroup{Least: 2}},
		"more than it needs":     {group: &kube.PodGroup{Least: 1}, change: ended},
		"one has ended":          {group: &kube.PodGroup{Least: 2}, change: ended, stays: "fewer pods are left than"},
		"one ends":               {group: &kube.PodGroup{Least: 2}, change: ending, stays: "fewer pods are left than"},
		"not read":               {stays: "PodGroup that was not read"},
		"of a composite":         {group: &kube.PodGroup{Least: 2, Part: true}, stays: "CompositePodGroup"},
		"all together":           {group: &kube.PodGroup{Least: 2, Whole: true}},
		"basic, all together":    {group: &kube.PodGroup{Whole: true}},
		"together in one rack":   {group: &kube.PodGroup{Whole: true, Label: "rack"}, stays: "none of its pods would stay"},
		"shared devices":         {group: &kube.PodGroup{Shares: true}, stays: "share claims"},
		"one rack":               {group: &kube.PodGroup{Least: 2, Label: "rack"}},
		"one rack, one pod":      {group: &kube.PodGroup{Label: "rack"}, change: ended, stays: "none of its pods would stay"},
		"no rack":                {group: &kube.PodGroup{Least: 2, Label: "row"}, stays: "one value of the label"},
		"nodes of the plan":      {group: &kube.PodGroup{Least: 2}, pinned: true, stays: "keep to the nodes of a plan"},
		"the other says nothing": {group: &kube.PodGroup{Least: 2}, change: silent},
	} {
		s := made(t, []v1.Node{in("n", "one"), in("m", "one")}, member("x", "n", nil), member("y", "m", c.change))
		if s.groups = map[string]*kube.PodGroup{}; c.group != nil {
			s.groups["ml/g"] = c.group
		}
		got, err := s.Movers(t.Context(), defrag.Bounds{Pinned: c.pinned}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		why := ""
		for _, x := range got.Fixed {
			if x.Pod.Name == "x" {
				why = x.Why
			}
		}
		if !strings.Contains(why, c.stays) || (why == "") != (c.stays == "") {
			t.Errorf("%s: the pod stays, since it %q, want %q", name, why, c.stays)
		}
	}
}

// Pods of groups whose pods start alone need no annotation, and pods of gangs do.
func TestWhichPodsOfPodGroupsHaveToAgree(t *testing.T) {
	silent := func(p *v1.Pod) { p.Annotations = nil }
	for least, moves := range []bool{true, true, false} {
		s := made(t, []v1.Node{node("n", nil)}, member("x", "n", silent), member("y", "n", silent))
		s.groups = map[string]*kube.PodGroup{"ml/g": {Least: least}}
		got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
		if err != nil || len(got.Movers) == 2 != moves {
			t.Errorf("%d pods may move of a group that needs %d, these not: %+v, %v", len(got.Movers), least, got.Fixed, err)
		}
	}
}

// Pods that may be disrupted only together move together, or none of them does.
func TestGangsThatMoveAsAWhole(t *testing.T) {
	all := func(allowed int32) []policyv1.PodDisruptionBudget {
		return []policyv1.PodDisruptionBudget{budget("all", allowed, &metav1.LabelSelector{})}
	}
	for name, c := range map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		node    string // of the pod y, beside the pod x
		change  func(*v1.Pod)
		moves   int
		stays   string // why the pod x stays
	}{
		"both":                 {node: "m", moves: 2},
		"one has ended":        {node: "m", change: func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, moves: 1},
		"budgets allow both":   {all(2), "m", nil, 2, ""},
		"a budget allows one":  {all(1), "m", nil, 0, "only together, and a PodDisruptionBudget allows fewer"},
		"one does not agree":   {nil, "m", func(p *v1.Pod) { p.Annotations = nil }, 0, "may not move: ml/y belongs to"},
		"one is nowhere known": {nil, "gone", nil, 0, "may not move: its node is not known"},
		"one is another's": {nil, "m", func(p *v1.Pod) { p.OwnerReferences = nil }, 0,
			"only together, and one of them may not move: ml/y has no controller"},
	} {
		s := made(t, []v1.Node{node("m", nil), node("n", nil)}, member("x", "n", nil), member("y", c.node, c.change),
			running("z", "n", "1", controlled("ReplicaSet")))
		s.budgets, s.groups = c.budgets, map[string]*kube.PodGroup{"ml/g": {Least: 1, Whole: true}}
		got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		why, moves := "", 0
		for _, x := range got.Fixed {
			if x.Pod.Name == "x" {
				why = x.Why
			}
		}
		for _, m := range got.Movers {
			if m.Gang == 0 {
				continue
			}
			if moves++; got.Gangs[m.Gang-1] != (defrag.Gang{Name: "ml/g", Most: c.moves, Whole: true}) {
				t.Errorf("%s: pod %s is of gang %+v", name, m.Pod.Name, got.Gangs[m.Gang-1])
			}
		}
		if moves != c.moves || !strings.Contains(why, c.stays) || (why == "") != (c.stays == "") {
			t.Errorf("%s: %d pods move, and the pod x stays, since it %q", name, moves, why)
		}
	}
}

// A successor gets only nodes with the value of the label that the nodes of the others have, and one pod stays.
func TestARackOfAGangIsKept(t *testing.T) {
	nodes := []v1.Node{in("a", "one"), in("b", "one"), in("c", "two"), in("d", "")}
	s := made(t, nodes, member("x", "a", nil), member("y", "b", nil), member("z", "b", nil))
	s.groups = map[string]*kube.PodGroup{"ml/g": {Least: 3, Label: "rack"}}
	got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
	if err != nil || len(got.Movers) != 3 || len(got.Gangs) != 1 || got.Gangs[0].Most != 2 {
		t.Fatalf("%d pods may move, these not: %+v, gangs %+v, %v", len(got.Movers), got.Fixed, got.Gangs, err)
	}
	for _, m := range got.Movers {
		barred := m.Want.Barred(s.Nodes())
		var open []string
		for i, n := range s.Nodes() {
			if len(barred[i]) == 0 {
				open = append(open, n.Name)
			}
		}
		if m.Gang != 1 || !slices.Equal(open, []string{"a", "b"}) {
			t.Errorf("the successor of %s gets nodes %v, and its gang is %d", m.Pod.Name, open, m.Gang)
		}
	}
	after, err := s.Leaving(map[string]bool{"uid-x": true}).Successor(s.on["a"][0].Pod())
	if err != nil || len(after.Want.Barred(s.Nodes())[2]) == 0 {
		t.Errorf("once the pod has left, its successor may go to another rack: %v", err)
	}
	s.nodes, s.objects = s.nodes[:1], s.objects[:1]
	if _, err := s.Successor(s.on["b"][0].Pod()); err == nil {
		t.Error("the rack of a node that is not there is known")
	}
	s.objects = nil // as of an export without nodes
	if got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now()); err != nil || len(got.Movers) > 0 {
		t.Errorf("without labels of nodes, %d pods may move, %v", len(got.Movers), err)
	}
}

// The groups of pods that may move are read last, and among them first the groups whose pods agree.
func TestWhichGroupsOfMoversAreRead(t *testing.T) {
	of := func(i int, on, agrees string) v1.Pod {
		return member(fmt.Sprintf("p%03d", i), on, func(p *v1.Pod) {
			name := fmt.Sprintf("g%03d", i)
			p.Spec.SchedulingGroup.PodGroupName = &name
			p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": agrees}
		})
	}
	pods := []v1.Pod{of(500, "", "true"), of(501, "n", "false"), of(502, "n", "true")}
	for i := range maxMoving {
		pods = append(pods, of(i, "n", ""))
	}
	daemon := of(503, "n", "true")
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	s := made(t, []v1.Node{node("n", nil)}, append(pods, daemon)...)
	var asked []string
	s.readGroups(t.Context(), func(_ context.Context, _, name string) (kube.PodGroup, error) {
		asked = append(asked, name)
		return kube.PodGroup{}, nil
	})
	if len(asked) != 1+maxMoving || !slices.Equal(asked[:3], []string{"g500", "g502", "g000"}) {
		t.Errorf("these groups were read: %v", asked)
	}
}
