package room

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tenon-numa/tenon/api/provisioning"
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

// A request of an interrupted command keeps a place only if it asks for what would be asked for now, and holds pods
// back for long enough.
func TestRequestsOfAnInterruptedCommand(t *testing.T) {
	now := time.Now()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", UID: "u",
		OwnerReferences: []metav1.OwnerReference{{UID: "set", Controller: new(true)}}}}
	goal := map[string]string{provisioning.After + "0": "ml/goal/uid"}
	for name, c := range map[string]struct {
		old, how booking
		age      time.Duration
		over     bool
		want     bool
	}{
		"the same":                {age: time.Hour, want: true},
		"over":                    {over: true},
		"the same node":           {old: booking{on: "a"}, how: booking{on: "a"}, want: true},
		"another node":            {old: booking{on: "a"}, how: booking{on: "b"}},
		"any node now":            {old: booking{on: "a"}},
		"one node now":            {how: booking{on: "a"}},
		"holds back now":          {old: booking{on: "a"}, how: booking{on: "a", hold: true}},
		"holds back no more":      {old: booking{on: "a", hold: true}, how: booking{on: "a"}},
		"holds back":              {old: booking{hold: true}, how: booking{hold: true}, age: 4 * time.Minute, want: true},
		"behind the same pod":     {old: booking{hold: true, first: goal}, how: booking{hold: true, first: goal}, want: true},
		"behind a pod now":        {old: booking{hold: true}, how: booking{hold: true, first: goal}},
		"does not hold back long": {old: booking{hold: true}, how: booking{hold: true}, age: 6 * time.Minute},
		"the hold has ended":      {old: booking{hold: true}, how: booking{hold: true}, age: 11 * time.Minute},
	} {
		old := c.old.request(p)
		old.CreationTimestamp = metav1.NewTime(now.Add(-c.age))
		if c.over {
			old.Status.Conditions = []metav1.Condition{{Type: provisioning.BookingExpired, Status: metav1.ConditionTrue}}
		}
		if got := usable(old, c.how.request(p), now); got != c.want {
			t.Errorf("%s: the request is used: %t", name, got)
		}
	}
}
