package doctor_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/ops/doctor"
)

// A running agent that cannot publish is not reported as a missing agent. Where an old layout exists, the finding gives
// its age.
func TestAnAgentThatCannotPublish(t *testing.T) {
	agent := func(ready v1.ConditionStatus) v1.Pod {
		return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenon-agents", Name: "a",
			Labels: map[string]string{"app.kubernetes.io/name": "tenon-agent"}},
			Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "agent", Image: "x:v1"}}},
			Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready,
				Reason: "ContainersNotReady", LastTransitionTime: metav1.Time{Time: noon.Add(-time.Hour)}}},
				ContainerStatuses: []v1.ContainerStatus{{Name: "agent", State: v1.ContainerState{
					Running: &v1.ContainerStateRunning{}}}}}}
	}
	written := func(l *v1alpha1.NodeLayout) {
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: noon.Add(-2 * time.Hour)}}}
	}
	const runs = "an agent runs, and cannot read its node or cannot publish: what is known of the node is old"
	for what, c := range map[string]struct {
		ready              v1.ConditionStatus
		noLayout           bool
		id, text, evidence string
	}{
		"with an old layout": {v1.ConditionFalse, false, "agent-not-ready", runs, "the layout of node node was last " +
			"written at 2026-11-23 10:00:00Z, the agent is not ready since 2026-11-23 11:00:00Z"},
		"without a layout": {v1.ConditionFalse, true, "agent-not-ready", runs,
			"node node has no layout, the agent is not ready since 2026-11-23 11:00:00Z"},
		"ready, and the layout is gone": {v1.ConditionTrue, true, "agent-missing",
			"an agent runs on the node, and nothing that it published is there", "pod tenon-agents/a is ready"},
	} {
		w := healthy()
		w.pods, w.layout, w.noLayout = append(w.pods, agent(c.ready)), written, c.noLayout
		d := w.examine(t, doctor.Options{Node: "node"})
		if got := ids(d); !slices.Equal(got, []string{c.id}) {
			t.Errorf("%s: found %v, want %s", what, got, c.id)
			continue
		}
		if f := d.Findings[0]; f.Text != c.text || f.Objects[0].Evidence[0] != c.evidence {
			t.Errorf("%s: %s: %q, want %s: %q", what, f.Text, f.Objects[0].Evidence, c.text, c.evidence)
		}
	}
}
