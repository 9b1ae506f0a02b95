package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/defrag"
)

func controlled(kind string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "o", UID: "o",
			Controller: new(true)}}
		p.Labels = map[string]string{"app": p.Name}
	}
}

func budget(name string, allowed int32, selector *metav1.LabelSelector) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
	b.Spec.Selector, b.Status.DisruptionsAllowed = selector, allowed
	return b
}

// Budgets count as the API server's evictions count them.
func TestBudgetsOfMovers(t *testing.T) {
	app := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	stale := budget("stale", 3, app("d"))
	stale.Generation = 2
	elsewhere := budget("elsewhere", 0, app("a"))
	elsewhere.Namespace = "other"
	s := made(t, []v1.Node{node("n", nil)}, running("a", "n", "1", controlled("ReplicaSet")),
		running("b", "n", "1", controlled("ReplicaSet")), running("c", "n", "1", controlled("ReplicaSet")),
		running("d", "n", "1", controlled("ReplicaSet")), running("daemon", "n", "1", controlled("DaemonSet")),
		running("bare", "n", "1", nil))
	s.budgets = []policyv1.PodDisruptionBudget{budget("one", 2, app("b")), budget("c1", 1, app("c")),
		budget("c2", 1, app("c")), stale, elsewhere, budget("none", 1, nil)}
	got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for _, m := range got.Movers {
		allowed[m.Pod.Name] = -1
		for _, b := range m.Budgets {
			allowed[m.Pod.Name] = got.Budgets[b]
		}
	}
	if len(allowed) != 2 || allowed["a"] != -1 || allowed["b"] != 2 || got.Unread {
		t.Errorf("evictions that budgets allow: %v (unread: %t)", allowed, got.Unread)
	}
	why := map[string]string{}
	for _, x := range got.Fixed {
		why[x.Pod.Name] = x.Why
	}
	if len(why) != 3 || why["d"] != "has a PodDisruptionBudget that allows no eviction now" ||
		why["c"] != "has more than one PodDisruptionBudget, so the API server evicts it never" ||
		why["bare"] != "has no controller that would create it again" {
		t.Errorf("pods that may not move: %v", why)
	}
	s.budgets = []policyv1.PodDisruptionBudget{budget("all", 0, &metav1.LabelSelector{})}
	if got, err := s.Movers(t.Context(), defrag.Bounds{Bare: true}, time.Now()); err != nil || len(got.Movers) > 0 {
		t.Errorf("an empty selector selects all pods of the namespace: %+v, %v", got.Movers, err)
	}
	s.budgets = nil
	if got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now()); err != nil || !got.Unread {
		t.Errorf("budgets that were not read are not said (%v)", err)
	}
}

// What pods leave behind is free, and nothing else has changed.
func TestAStageWithoutPodsThatLeave(t *testing.T) {
	s := made(t, []v1.Node{node("m", nil), node("n", nil)}, running("a", "n", "3", nil), running("b", "n", "2", nil))
	after := s.Leaving(map[string]bool{"uid-a": true})
	if left := after.Nodes()[1].Left("cpu"); left != 6000 {
		t.Errorf("%d CPUs are left", left)
	}
	if len(after.Nodes()[1].Pods) != 1 || len(after.Pods()) != 1 || s.Nodes()[1].Left("cpu") != 3000 ||
		len(s.Pods()) != 2 {
		t.Errorf("%d pods are left; before %d", len(after.Pods()), len(s.Pods()))
	}
}

// What a kind of another API does after an eviction is not known from its name.
func TestKindsOfOtherGroupsDoNotMove(t *testing.T) {
	of := func(api, kind string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, Name: "o", UID: "o",
				Controller: new(true)}}
			p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
		}
	}
	s := made(t, []v1.Node{node("n", nil)}, running("set", "n", "1", of("apps/v1", "StatefulSet")),
		running("rc", "n", "1", of("v1", "ReplicationController")), running("job", "n", "1", of("batch/v1", "Job")),
		running("kruise", "n", "1", of("apps.kruise.io/v1beta1", "StatefulSet")),
		running("volcano", "n", "1", of("batch.volcano.sh/v1alpha1", "Job")))
	got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
	if err != nil || len(got.Movers) != 3 || len(got.Fixed) != 2 {
		t.Fatalf("%d pods may move, these not: %+v, %v", len(got.Movers), got.Fixed, err)
	}
	for i, want := range []string{"StatefulSet of apps.kruise.io", "Job of batch.volcano.sh"} {
		if why := "is controlled by a " + want + ", which may not create it again"; got.Fixed[i].Why != why {
			t.Errorf("%s: %q, want %q", got.Fixed[i].Pod, got.Fixed[i].Why, why)
		}
	}
	if got, err = s.Movers(t.Context(), defrag.Bounds{Bare: true}, time.Now()); err != nil || len(got.Movers) != 5 {
		t.Errorf("with --bare, these may not move: %+v, %v", got.Fixed, err)
	}
}

// A pod that starts only with others does not move, and no others move for it alone. Volcano gives each pod a group,
// also where there is no gang.
func TestMarksOfGangs(t *testing.T) {
	note := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	label := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Labels = map[string]string{key: value} }
	}
	bare := func(p *v1.Pod) {
		p.OwnerReferences = nil
		note("scheduling.k8s.io/group-name", "podgroup-uid-x")(p)
	}
	for name, c := range map[string]struct {
		mark  func(*v1.Pod)
		gang  string
		stays bool
	}{
		"none":                 {nil, "", false},
		"Coscheduling":         {label("scheduling.x-k8s.io/pod-group", "g"), "PodGroup ml/g", true},
		"Koordinator":          {note("gang.scheduling.koordinator.sh/name", "g"), "gang ml/g", true},
		"Koordinator's label":  {label("pod-group.scheduling.sigs.k8s.io", "g"), "gang ml/g", true},
		"Koordinator's older":  {label("pod-group.scheduling.sigs.k8s.io/name", "g"), "gang ml/g", true},
		"YuniKorn":             {note("yunikorn.apache.org/task-group-name", "g"), "task group ml/g", true},
		"Volcano":              {note("scheduling.k8s.io/group-name", "g"), "PodGroup ml/g", true},
		"Volcano's own":        {note("scheduling.k8s.io/group-name", "podgroup-o"), "", false},
		"Volcano's of its pod": {bare, "", false},
		"Volcano's of another": {note("scheduling.k8s.io/group-name", "podgroup-p"), "PodGroup ml/podgroup-p", true},
		"Kueue":                {label("kueue.x-k8s.io/pod-group-name", "g"), "", true},
		"LeaderWorkerSet":      {label("leaderworkerset.sigs.k8s.io/name", "g"), "", true},
		"JobSet":               {label("jobset.sigs.k8s.io/jobset-name", "g"), "", true}, // of no Job
		"no text":              {note("gang.scheduling.koordinator.sh/name", "a\x1b[1mb"), `gang "ml/a\x1b[1mb"`, true},
	} {
		of := func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "o", UID: "o",
				Controller: new(true)}}
			if c.mark != nil {
				c.mark(p)
			}
		}
		s := made(t, []v1.Node{node("n", nil)}, running("x", "n", "1", of), running("x", "", "1", of))
		if got := s.Pending(); len(got) != 1 || got[0].Gang != c.gang {
			t.Errorf("%s: the pod that waits starts with %q, want %q", name, got[0].Gang, c.gang)
		}
		got, err := s.Movers(t.Context(), defrag.Bounds{Bare: true}, time.Now())
		if err != nil || len(got.Fixed) == 1 != c.stays {
			t.Errorf("%s: these may not move: %+v, %v", name, got.Fixed, err)
		}
	}
}

// A pod of a JobSet moves if its Job just creates it again. Otherwise the JobSet would fail, or begin anew with all its
// pods.
func TestPodsOfJobSets(t *testing.T) {
	evicted := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget,
			Status: v1.ConditionTrue}}}
	failed := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn,
			Values: []int32{0}}}
	misconfigured, counted, unknown := failed, evicted, evicted
	misconfigured.OnExitCodes = nil
	misconfigured.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "ConfigIssue",
		Status: v1.ConditionTrue}}
	counted.Action = batchv1.PodFailurePolicyActionCount
	unknown.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget,
		Status: v1.ConditionUnknown}}
	none := func(*v1.Pod) {}
	for name, c := range map[string]struct {
		rules  []batchv1.PodFailurePolicyRule
		change func(*v1.Pod)
		moves  bool
	}{
		"evictions are no failures":       {[]batchv1.PodFailurePolicyRule{evicted}, none, true},
		"other failures after that":       {[]batchv1.PodFailurePolicyRule{evicted, failed}, none, true},
		"a condition of no evicted pod":   {[]batchv1.PodFailurePolicyRule{misconfigured, evicted}, none, true},
		"no rules":                        {nil, none, false},
		"its exit code fails the Job":     {[]batchv1.PodFailurePolicyRule{failed, evicted}, none, false},
		"evictions count":                 {[]batchv1.PodFailurePolicyRule{counted, evicted}, none, false},
		"another status of the condition": {[]batchv1.PodFailurePolicyRule{unknown}, none, false},
		"its Job was not read":            {nil, func(p *v1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		"it has not agreed": {[]batchv1.PodFailurePolicyRule{evicted}, func(p *v1.Pod) {
			p.Annotations = nil
		}, false},
		"exclusive placement": {[]batchv1.PodFailurePolicyRule{evicted}, func(p *v1.Pod) {
			p.Annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "rack"
		}, false},
		"a gang, too": {[]batchv1.PodFailurePolicyRule{evicted}, func(p *v1.Pod) {
			p.Labels["scheduling.x-k8s.io/pod-group"] = "g"
		}, false},
	} {
		p := running("x", "n", "1", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j",
				Controller: new(true)}}
			p.Labels = map[string]string{"jobset.sigs.k8s.io/jobset-name": "s"}
			p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
			c.change(p)
		})
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "j"}}
		if c.rules != nil {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: c.rules}
		}
		s := made(t, []v1.Node{node("n", nil)}, p)
		s.addJobs([]batchv1.Job{j})
		for _, bare := range []bool{false, true} {
			got, err := s.Movers(t.Context(), defrag.Bounds{Bare: bare}, time.Now())
			if err != nil || len(got.Movers) == 1 != c.moves {
				t.Errorf("%s: %d pods may move, these not: %+v, %v", name, len(got.Movers), got.Fixed, err)
			}
		}
	}
}

// Jobs are read only where a pod of a JobSet may move if its Job lets it. Where they cannot be read, these pods stay,
// and others move.
func TestWhichJobsAreRead(t *testing.T) {
	of := func(namespace, set, agrees string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Namespace = namespace
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j",
				Controller: new(true)}}
			p.Labels = map[string]string{"jobset.sigs.k8s.io/jobset-name": set}
			p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": agrees}
		}
	}
	s := made(t, []v1.Node{node("n", nil)}, running("a", "n", "1", of("ml", "s", "true")),
		running("b", "n", "1", of("ml", "s", "true")), running("c", "n", "1", of("other", "s", "false")),
		running("d", "n", "1", of("jobs", "", "true")), running("e", "", "1", of("waits", "s", "true")))
	var asked []string
	s.readJobs(t.Context(), func(_ context.Context, namespace string) ([]batchv1.Job, bool, error) {
		asked = append(asked, namespace)
		return nil, false, errors.New("the API server is busy")
	})
	got, err := s.Movers(t.Context(), defrag.Bounds{}, time.Now())
	if err != nil || !slices.Equal(asked, []string{"ml"}) || len(got.Movers) != 1 || got.Movers[0].Pod.Name != "d" {
		t.Errorf("Jobs were read in %v; %+v may move, %v", asked, got.Movers, err)
	}
	if !strings.Contains(fmt.Sprint(got.Fixed), "whose Jobs could not be read") {
		t.Errorf("the pods of the JobSet stay, since %v", got.Fixed)
	}
}
