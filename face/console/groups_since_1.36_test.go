//go:build !upto1.35

package console_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
	"github.com/tenon-numa/tenon/face/cli"
)

// groupPath is where the API server has a PodGroup.
const groupPath = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/trainer"

// A pod of a gang that Tenon's scheduler refuses counts, and the group names it with the reason.
func TestAGangOfPodsThatAreRefused(t *testing.T) {
	s := signedIn(t)
	s.api.Object(groupPath, map[string]any{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ml", "name": "trainer"},
		"spec":     map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": 2}}}})
	addGang(t, s, func(p *v1.Pod) { p.Annotations = map[string]string{"tenon.sh/numa-policy": "wide"} })
	var g cli.PodGroup
	s.get(t, "/api/v1/podgroups/ml/trainer", &g)
	if g.Gang == nil || g.Gang.Pods != 3 || !slices.Equal(g.Gang.Refused, []string{"trainer-1", "trainer-2"}) ||
		!strings.HasPrefix(g.Text, "No node takes trainer-1, trainer-2 without a change: ") || g.Together != nil {
		t.Errorf("the group is %+v, with %+v", g, g.Gang)
	}
	chinese := readPhrases(t, "zh")
	chinese.translated(t, "a sentence about refused pods", "No node takes node-a, node-b without a change: node-x.")
	chinese.translated(t, "a sentence about the others", "What follows leaves these pods out.")
}

// addGang adds the pods of a group, one of them with a node, and waits until the view has them.
func addGang(t *testing.T, s *site, changes ...func(*v1.Pod)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := s.who.View.Follow()
	defer f.Close()
	name := "trainer"
	for pod, node := range map[string]string{"trainer-0": "a", "trainer-1": "", "trainer-2": ""} {
		p := livetest.Pod("ml", pod, node)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		for _, change := range changes {
			change(p)
		}
		s.api.Send(livetest.Pods, "ADDED", p)
	}
	for s.who.View.State().Pods < 6 {
		if _, err := f.Next(ctx); err != nil {
			t.Fatal("the view has no gang: ", err)
		}
	}
}

// The list of pods has their groups, with all pods of each. The group has the sentences of explain.
func TestAGangIsOneGroupOfTheList(t *testing.T) {
	s := signedIn(t)
	s.api.Object(groupPath, map[string]any{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ml", "name": "trainer"},
		"spec":     map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": 4}}}})
	addGang(t, s)
	var list document.PodList
	s.get(t, "/api/v1/pods?waiting=true", &list)
	if want := (document.PodGroupSummary{Namespace: "ml", Name: "trainer", Pods: 3, Placed: 1}); !slices.Equal(list.Groups,
		[]document.PodGroupSummary{want}) {
		t.Errorf("the groups are %+v, want %+v", list.Groups, want)
	}
	of := map[string]string{}
	for _, p := range list.Pods {
		of[p.Name] = p.Group
	}
	if len(of) != 4 || of["trainer-1"] != "trainer" || of["wait"] != "" {
		t.Errorf("the pods have the groups %v", of)
	}
	var g cli.PodGroup
	s.get(t, "/api/v1/podgroups/ml/trainer", &g)
	if g.Gang == nil || g.Gang.Needs != 4 || g.Gang.Pods != 3 || g.Together == nil || g.Together.Waiting != 2 ||
		!strings.HasPrefix(g.Text, "The group needs 4 pods, and has 3.") {
		t.Errorf("the group is %+v", g)
	}
	chinese := readPhrases(t, "zh")
	for _, one := range strings.SplitAfter(g.Text, ". ") {
		chinese.translated(t, "a sentence about a gang", strings.TrimSpace(one))
	}
	if code, _, _ := s.ask(t, "GET", "/api/v1/podgroups/ml/other", ""); code != http.StatusNotFound {
		t.Errorf("a group without pods is answered with %d", code)
	}
}
