package kube

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
)

func TestHowFarAPodHasCome(t *testing.T) {
	waits := func(change func(*v1.Pod)) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "x", UID: "x"}}
		p.Spec.SchedulerName = "tenon-sheduler"
		if change != nil {
			change(p)
		}
		return p
	}
	bound := waits(func(p *v1.Pod) { p.Spec.SchedulerName, p.Spec.NodeName = "default-scheduler", "a" })
	mirror := waits(func(p *v1.Pod) {
		p.Spec.NodeName, p.Annotations = "a", map[string]string{v1.MirrorPodAnnotationKey: "x"}
	})
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	refused := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse,
			Reason: v1.PodReasonUnschedulable, Message: "0/1 nodes are available", LastTransitionTime: metav1.NewTime(noon)}}
	}
	failure := []v1.Event{{LastTimestamp: metav1.NewTime(noon.Add(time.Minute))}}
	yes, no := true, false
	for _, c := range []struct {
		name   string
		pod    *v1.Pod
		events []v1.Event
		speaks *bool
		state  document.SchedulingState
		text   string
	}{
		{"a name with a slip", waits(nil), nil, &no, document.Unseen, `No scheduler named "tenon-sheduler" has been seen`},
		{"events of the scheduler", waits(nil), nil, &yes, document.Untried, "has not tried it yet"},
		{"events may not be read", waits(nil), nil, nil, document.NotKnown, "Its scheduler is tenon-sheduler."},
		{"refused", waits(refused), failure, &yes, document.Refused,
			"since 2026-01-02T12:00:00Z, and tried it last at 2026-01-02T12:01:00Z"},
		{"waits for its turn", waits(func(p *v1.Pod) { p.Status.NominatedNodeName = "a" }), nil, &yes,
			document.Chosen, "has chosen node a"},
		{"is being deleted", waits(func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), nil, &yes,
			document.Deleted, "It is being deleted"},
		{"gated", waits(func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "queue"}} }), nil, &no,
			document.Gated, "It waits for gate queue: no scheduler tries it"},
	} {
		got := scheduling(c.pod, StoreAll([]v1.Pod{*c.pod, *bound, *mirror}), c.events, c.speaks)
		if got.State != c.state || !strings.Contains(got.Text(), c.text) {
			t.Errorf("%s: %s: %s; want %s: %s", c.name, got.State, got.Text(), c.state, c.text)
		}
		if c.state == document.Unseen && !strings.HasSuffix(got.Remedy(), ": default-scheduler") {
			t.Errorf("%s: the remedy is %q", c.name, got.Remedy())
		}
	}
}
