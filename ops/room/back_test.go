package room

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// A Job pauses longer the more of its pods leave at the same time. Other controllers create pods at once.
func TestHowLongJobsPause(t *testing.T) {
	of := func(kind, uid string) move {
		api := map[string]string{"Job": "batch/v1", "ReplicaSet": "apps/v1"}[kind]
		p := &v1.Pod{}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, UID: types.UID(uid), Controller: new(true)}}
		return move{owner: types.UID(uid), pod: p}
	}
	for _, c := range []struct {
		gone []move
		want time.Duration
	}{
		{nil, 0},
		{[]move{of("ReplicaSet", "a"), of("ReplicaSet", "a")}, 0},
		{[]move{of("Job", "a"), of("Job", "b"), of("ReplicaSet", "c")}, 10 * time.Second},
		{slices.Repeat([]move{of("Job", "a")}, 4), 80 * time.Second},
		{slices.Repeat([]move{of("Job", "a")}, 100), 10 * time.Minute},
	} {
		if got := pause(c.gone); got != c.want {
			t.Errorf("after %d pods have left: %s, want %s", len(c.gone), got, c.want)
		}
	}
}

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

func TestHowManyPodsAControllerWants(t *testing.T) {
	for text, want := range map[string]int64{
		`{"kind":"ReplicaSet","spec":{"replicas":3}}`: 3,
		`{"kind":"ReplicaSet"}`:                       1,
		`{"kind":"Job","spec":{}}`:                    1,
		`{"kind":"Job","spec":{"parallelism":3,"completions":9},"status":{"succeeded":7}}`:       2,
		`{"kind":"Job","spec":{"parallelism":3}}`:                                                3,
		`{"kind":"Job","spec":{"parallelism":3},"status":{"succeeded":1}}`:                       2, // as many as live
		`{"kind":"Job","spec":{"parallelism":3,"suspend":true}}`:                                 0,
		`{"kind":"Job","status":{"conditions":[{"type":"Failed","status":"True"}]}}`:             0,
		`{"kind":"Job","status":{"conditions":[{"type":"Suspended","status":"False"}, null]}}`:   1,
		`{"kind":"Job","status":{"conditions":[{"type":"FailureTarget","status":"True"}]}}`:      0,
		`{"kind":"Job","spec":{"parallelism":"three"},"status":{"conditions":"none of a list"}}`: 1,
	} {
		o := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if got := wanted(o, 2); got != want {
			t.Errorf("%s: %d pods, want %d", text, got, want)
		}
	}
}

// A controller that is gone creates no more pods. It is not gone because another API has none of its name.
func TestAControllerOfAnotherGroupIsNotGone(t *testing.T) {
	c, err := New(&rest.Config{Host: "http://server", Transport: inPlace(func(r *http.Request) *http.Response {
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
				"reason": "NotFound"}`)), Request: r}
	})})
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[metav1.OwnerReference]bool{
		{APIVersion: "apps/v1", Kind: "StatefulSet"}:                true,
		{APIVersion: "apps/v1beta2", Kind: "StatefulSet"}:           true, // an old pod names the API of its time
		{APIVersion: "v1", Kind: "ReplicationController"}:           true,
		{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"}: false,
		{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job"}:      false,
		{APIVersion: "v1", Kind: "StatefulSet"}:                     false,
		{APIVersion: "a/b/c", Kind: "StatefulSet"}:                  false,
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}:   false,
	} {
		owner := of
		owner.Name, owner.UID, owner.Controller = "set", "set", new(true)
		m := move{Move: Move{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "set-0"}},
			pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner}}}, owner: "set"}
		if got := (&carrying{Cluster: c}).complete(t.Context(), m, 0); got != want {
			t.Errorf("%s of %s creates no more pods: %t", of.Kind, of.APIVersion, got)
		}
	}
}
