package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A right is withdrawn from a rule for several groups and resources, and all others stay.
func TestARightIsWithdrawnAlone(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "delete"}},
	}
	for _, c := range []struct {
		x    right
		want []string
	}{
		{right{resource: "events", verbs: []string{"create", "patch"}}, []string{"events.k8s.io/events create",
			"events.k8s.io/events patch", "/pods get", "/pods delete", "/nodes get", "/nodes delete"}},
		{right{resource: "pods", verbs: []string{"get"}}, []string{"/events create", "/events patch",
			"events.k8s.io/events create", "events.k8s.io/events patch", "/pods delete", "/nodes get", "/nodes delete"}},
	} {
		var got []string
		for _, rule := range c.x.removeFrom(rules) {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						got = append(got, group+"/"+resource+" "+verb)
					}
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("without %v: %q, want %q", c.x, got, c.want)
		}
	}
}

// A node has one ailment of a kind at a time, and one right is withdrawn at a time: each ailment restores what it
// changed.
func TestAilmentsOfOneKindDoNotOverlap(t *testing.T) {
	first := &ailment{kind: silent, nodes: []string{"a"}}
	for _, c := range []struct {
		next ailment
		want bool
	}{
		{ailment{kind: silent, nodes: []string{"a"}}, true},
		{ailment{kind: silent, nodes: []string{"b"}}, false},
		{ailment{kind: changed, nodes: []string{"a"}}, false},
	} {
		if got := conflict(c.next, first); got != c.want {
			t.Errorf("%v beside %v: %t, want %t", c.next, first, got, c.want)
		}
	}
	if !conflict(ailment{kind: withdrawn}, &ailment{kind: withdrawn, nodes: []string{"a"}}) {
		t.Error("two rights are withdrawn at a time, and each gives back the whole role")
	}
}

// A silent node, or one whose agent has never read the kubelet's machine, excuses a refusal only if nothing else
// explains it.
func TestASilentNodeExcusesARefusal(t *testing.T) {
	for _, c := range []struct {
		what           string
		silent, remade bool
		play           func(*stage)
		want           blame
	}{
		{"silent", true, false, func(*stage) {}, unheard},
		{"another machine", false, true, func(*stage) {}, remade},
		{"neither", false, false, func(*stage) {}, knowable},
		{"silent, and a foreign pod came", true, true, func(s *stage) { s.bind(5, foreign(cores("foreign", 8))) }, overtaken},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStage(t)
			s.silent, s.remade = c.silent, c.remade
			c.play(s)
			n := 12
			if len(s.lives) > 0 {
				s.bind(6, cores("other", 4))
				n = 8
			}
			s.want(s.bind(10, cores("refused", n)), c.want)
		})
	}
}

// A node whose machine changed is checked as usual, whichever agent writes, unless no layout had the kubelet's machine
// before.
func TestAnAgentThatStartsLaterForgetsNothing(t *testing.T) {
	first := metav1.NewMicroTime(time.Unix(100, 0))
	next := metav1.NewMicroTime(time.Unix(200, 0))
	for _, c := range []struct {
		what       string
		start, now metav1.MicroTime
		want       bool
	}{
		{"the same start", first, first, false},
		{"another start", first, next, true},
		{"no layout had the machine", metav1.MicroTime{}, first, true},
	} {
		l := &v1alpha1.NodeLayout{Kubelet: v1alpha1.Kubelet{Started: c.now}}
		r := &run{record: &record{layouts: map[string]*v1alpha1.NodeLayout{"a": l}},
			ailing: []*ailment{{kind: changed, nodes: []string{"a"}, start: c.start}}}
		if got := r.lostMachine("a"); got != c.want {
			t.Errorf("%s: forgot %t, want %t", c.what, got, c.want)
		}
	}
}

// An agent that may not write its layout logs that, and the layout lists the node's pods once it may again.
func TestAnAgentSaysThatItMayNotWrite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	r := oneNode(ctx, t)
	r.rand = rand.New(rand.NewPCG(1, 1))
	if err := r.withdrawRight(ctx, rights[0]); err != nil {
		t.Fatal(err)
	}
	p := workload.Pod("p", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
	p.Spec.NodeName = "a"
	if err := r.add(ctx, p); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(r.cluster.Dir, "kubelet-a.log")
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		text, err := os.ReadFile(log)
		return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.Contains(line, "cannot publish; will retry") && strings.Contains(line, "forbidden")
		}), err
	})
	if err != nil {
		t.Fatalf("wait until the agent logs that it may not write: %v", err)
	}
	listed := func([]life) bool {
		l, _ := r.record.layoutOf("a")
		return l != nil && len(l.Holdings) == 1
	}
	if listed(nil) {
		t.Error("the agent may not write, and the layout lists the pod")
	}
	r.ailing[0].roundsLeft = 1
	if err := r.recover(ctx); err != nil || len(r.ailing) != 0 {
		t.Fatalf("the right is not given back: %v", err)
	}
	if err := r.record.wait(ctx, "the layout lists the pod", listed); err != nil {
		t.Error(err)
	}
	hardware, err := kubeletMachines()
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.record.layoutOf("a")
	if c, err := l.Core(); err != nil || !sameHardware(c.Machine, hardware[nodes[0].Name]) {
		t.Errorf("the layout has another machine than the kubelet (error %v)", err)
	}
}
