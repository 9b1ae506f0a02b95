package view

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatHoldsAPodIsRead(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		pod            v1.Pod
		gated, deleted bool
	}{
		"neither": {},
		"gated":   {v1.Pod{Spec: v1.PodSpec{SchedulingGates: []v1.PodSchedulingGate{{Name: "queue"}}}}, true, false},
		"deleted": {v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, false, true},
	} {
		if p, err := newPod(&c.pod); err != nil || p.Gated != c.gated || p.Deleted != c.deleted {
			t.Errorf("%s: gated %t, deleted %t, %v", name, p.Gated, p.Deleted, err)
		}
	}
}
