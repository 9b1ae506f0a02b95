package room

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// A place is kept on the node of the plan, and only if the pod itself may go there.
func TestPlacesAreKeptOnTheNodeOfThePlan(t *testing.T) {
	requires := func(terms ...v1.NodeSelectorTerm) *v1.Affinity {
		return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	pool := func(name string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "pool",
			Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	for name, c := range map[string]struct {
		affinity *v1.Affinity
		want     bool // on node a of pool x
	}{
		"any":           {nil, true},
		"preferences":   {&v1.Affinity{PodAffinity: &v1.PodAffinity{}}, true},
		"its pool":      {requires(pool("x")), true},
		"one of both":   {requires(pool("y"), pool("x")), true},
		"another pool":  {requires(pool("y")), false},
		"no node":       {requires(v1.NodeSelectorTerm{}), false},
		"no node or x":  {requires(v1.NodeSelectorTerm{}, pool("x")), true},
		"another field": {requires(v1.NodeSelectorTerm{MatchFields: pinned("b")}), false},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Affinity: c.affinity}}
		pin(&p.Spec, "a")
		for _, node := range []string{"a", "b"} {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"pool": "x"}}}
			got, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
			if err != nil || got != (c.want && node == "a") {
				t.Errorf("%s: node %s is possible: %t, %v", name, node, got, err)
			}
		}
	}
}

func pinned(node string) []v1.NodeSelectorRequirement {
	return []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn,
		Values: []string{node}}}
}
