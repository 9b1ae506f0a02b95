package room

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A controller whose pod was evicted has one pod less, also while a list shows the pod as it was.
func TestEvictedPodsDoNotLast(t *testing.T) {
	pods := map[types.UID]*v1.Pod{}
	for _, x := range []struct {
		uid     types.UID
		phase   v1.PodPhase
		deleted bool
	}{{"evicted", v1.PodRunning, false}, {"leaving", v1.PodRunning, true}, {"failed", v1.PodFailed, false},
		{"old", v1.PodRunning, false}, {"waits", v1.PodPending, false}, {"runs", v1.PodRunning, false}} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: x.uid, OwnerReferences: []metav1.OwnerReference{{UID: "set",
			Controller: new(true)}}}, Status: v1.PodStatus{Phase: x.phase}}
		if x.deleted {
			p.DeletionTimestamp = &metav1.Time{}
		}
		pods[x.uid] = p
	}
	before := map[types.UID]*v1.Pod{}
	for _, uid := range []types.UID{"evicted", "leaving", "failed", "old"} {
		before[uid] = pods[uid]
	}
	gone := []move{{Move: Move{UID: "evicted"}, owner: "set"}}
	if runs, fresh, alive := tally(pods, before, gone); runs["set"] != 1 || fresh["set"] != 2 || alive["set"] != 3 {
		t.Errorf("%d run, %d are new, %d last; want 1, 2 and 3", runs["set"], fresh["set"], alive["set"])
	}
}
