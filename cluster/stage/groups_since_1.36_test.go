//go:build !upto1.35

package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/cluster/kube"
)

// An API server without the feature gate drops the group of a pod. The pod still belongs to it in the file.
func TestAnAPIServerMayDropTheGroup(t *testing.T) {
	s, api := made(t, []v1.Node{node("a", nil)}), &server{}
	file := pod(`, "schedulingGroup": {"podGroupName": "g"}`)
	api.stored.Spec.Containers = []v1.Container{{Name: "c"}}
	if w := read(t, s.Asking(t.Context(), api), file); !w.Asked || w.Group != "g" || !w.Ungrouped {
		t.Errorf("asked %t, group %q, dropped %t", w.Asked, w.Group, w.Ungrouped)
	}
	if w := read(t, s, file); w.Group != "g" || w.Ungrouped {
		t.Errorf("without an API server: group %q, dropped %t", w.Group, w.Ungrouped)
	}
}

// classes is an API server with priority classes.
type classes map[string]int32

func (c classes) Create(_ context.Context, p *v1.Pod) (*v1.Pod, error, error) {
	out := p.DeepCopy()
	value := c[p.Spec.PriorityClassName]
	out.Spec.Priority = &value
	return out, nil, nil
}

// The API server is asked for the priority of a group whose pods name another class.
func TestTheAPIServerIsAskedForPrioritiesOfGroups(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)}).Asking(t.Context(), classes{"": 5, "gold": 7, "same": 5})
	const group = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n" +
		"spec: {priorityClassName: CLASS, schedulingPolicy: {gang: {minCount: 1}}}\n---\n"
	const member = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {schedulingGroup: {podGroupName: g}, " +
		"containers: [{name: c, image: i}]}\n"
	for class, want := range map[string]struct{ equal, known bool }{`""`: {true, true}, "gold": {false, true},
		"same": {true, true}} {
		all, left, err := s.Workloads([]byte(strings.Replace(group, "CLASS", class, 1)+member), "default")
		if err != nil {
			t.Fatal(err)
		}
		if equal, known := all[0].Rank.Equals(left.Groups[0].Rank); equal != want.equal || known != want.known {
			t.Errorf("class %s: equal %t, known %t: %+v and %+v", class, equal, known, all[0].Rank, left.Groups[0].Rank)
		}
	}
}

// policies is an API server whose priority classes are equal but for their preemption policies.
type policies map[string]v1.PreemptionPolicy

func (c policies) Create(_ context.Context, p *v1.Pod) (*v1.Pod, error, error) {
	out := p.DeepCopy()
	value, policy := int32(5), c[p.Spec.PriorityClassName]
	out.Spec.Priority, out.Spec.PreemptionPolicy = &value, &policy
	return out, nil, nil
}

// A pod's preemption policy is that of its class, which only the API server knows, or stands in the file.
func TestPreemptionPoliciesAreThoseOfTheAPIServer(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)})
	const member = `, "schedulingGroup": {"podGroupName": "g"}`
	if w := read(t, s, pod(member)); w.Preempts != "" {
		t.Errorf("without an API server: %q", w.Preempts)
	}
	if w := read(t, s, pod(member+`, "preemptionPolicy": "Never"`)); w.Preempts != "Never" {
		t.Errorf("in the file: %q", w.Preempts)
	}
	s = s.Asking(t.Context(), policies{"": v1.PreemptLowerPriority, "meek": v1.PreemptNever})
	for class, want := range map[string]string{"": "PreemptLowerPriority", "meek": "Never"} {
		if w := read(t, s, pod(member+`, "priorityClassName": "`+class+`"`)); w.Preempts != want {
			t.Errorf("class %q: %q, want %s", class, w.Preempts, want)
		}
	}
	_, left, err := s.Workloads([]byte("apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"+
		"spec: {preemptionPolicy: Never, schedulingPolicy: {basic: {}}}\n---\n"+pod(member)), "default")
	if err != nil || left.Groups[0].Preempts != "Never" {
		t.Errorf("the group's: %+v, %v", left.Groups, err)
	}
}

// A pod that waits and names a PodGroup starts with others of it, unless the group is known to ask for one pod.
func TestGroupsThatAskForOnePod(t *testing.T) {
	in := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name} }
	}
	s := made(t, []v1.Node{node("a", nil)}, running("a", "", "1", in("basic")), running("b", "", "1", in("basic")),
		running("c", "", "1", in("gang")), running("d", "", "1", in("one")), running("e", "", "1", in("gone")),
		running("f", "", "1", nil), running("g", "a", "1", in("there")))
	want := []string{"PodGroup ml/basic", "PodGroup ml/basic", "PodGroup ml/gang", "PodGroup ml/one", "PodGroup ml/gone",
		""}
	check := func(when string, want []string) {
		t.Helper()
		for i, w := range s.Pending() {
			if w.Gang != want[i] {
				t.Errorf("%s: pod %s starts with %q, want %q", when, w.Name, w.Gang, want[i])
			}
		}
	}
	check("no group was read", want)
	var asked []string
	s.readGroups(t.Context(), func(_ context.Context, _, name string) (kube.PodGroup, error) {
		asked = append(asked, name)
		least, there := map[string]int{"basic": 0, "one": 1, "gang": 2}[name]
		if !there {
			return kube.PodGroup{}, apierrors.NewNotFound(schema.GroupResource{Resource: "podgroups"}, name)
		}
		return kube.PodGroup{Least: least}, nil
	})
	check("all were read", []string{"", "", "PodGroup ml/gang", "", "PodGroup ml/gone", ""})
	if slices.Sort(asked); !slices.Equal(asked, []string{"basic", "gang", "gone", "one",
		"there"}) {
		t.Errorf("these groups were read: %v", asked)
	}
	asked = nil
	s.readGroups(t.Context(), func(_ context.Context, _, name string) (kube.PodGroup, error) {
		asked = append(asked, name)
		return kube.PodGroup{}, forbidden(name)
	})
	if check("none may be read", want); len(asked) != 1 {
		t.Errorf("without the right to read groups, these were asked for: %v", asked)
	}
}

func forbidden(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, name, nil)
}

// The groups of important pods are read first, and a namespace where none may be read keeps no others from being read.
func TestWhichGroupsAreRead(t *testing.T) {
	waits := func(namespace, name string, priority int32) v1.Pod {
		return running(name, "", "1", func(p *v1.Pod) {
			p.Namespace, p.Spec.Priority = namespace, &priority
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		})
	}
	gated := waits("ml", "gated", 6) // no plan is made for it
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/later"}}
	pods := []v1.Pod{waits("ml", "top", 7), waits("closed", "x", 9), waits("closed", "y", 8), gated}
	for i := range maxGroups {
		pods = append(pods, waits("ml", fmt.Sprintf("a%d", i), 0))
	}
	s := made(t, []v1.Node{node("a", nil)}, pods...)
	var asked []string
	s.readGroups(t.Context(), func(_ context.Context, namespace, name string) (kube.PodGroup, error) {
		if asked = append(asked, name); namespace == "closed" {
			return kube.PodGroup{}, forbidden(name)
		}
		return kube.PodGroup{}, nil
	})
	if len(asked) != maxGroups || asked[0] != "x" || asked[1] != "top" || asked[2] != "a0" {
		t.Errorf("these groups were read: %v", asked)
	}
	if all := s.Pending(); all[0].Gang == "" || all[2].Gang != "" {
		t.Errorf("the pod of a group that may not be read starts with %q, that of another one with %q", all[0].Gang,
			all[2].Gang)
	}
}
