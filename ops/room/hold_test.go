package room

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// Where successors are held back, all pods are evicted before that ends, however long budgets may refuse.
func TestEvictionsEndBeforeTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			hold, within, want time.Duration // hold is 0 where nothing is held back
			late               bool
		}{
			"nothing is held back": {0, 10 * time.Minute, 10 * time.Minute, false},
			"the hold ends later":  {9 * time.Minute, time.Minute, time.Minute, false},
			"the hold ends before": {6 * time.Minute, 10 * time.Minute, 6*time.Minute - holdAfter, false},
			"the hold ends now":    {holdAfter, 10 * time.Minute, 0, true},
			"the hold has ended":   {-time.Minute, 10 * time.Minute, 0, true},
		} {
			x := &carrying{Options: Options{EvictWithin: c.within}}
			if c.hold != 0 {
				x.heldUntil = time.Now().Add(c.hold)
			}
			if got, err := x.evictWithin(); got != c.want || (err != nil) != c.late {
				t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
			}
		}
	})
}

// Two plans at a time would count on the same room, also where no place is kept yet.
func TestAnotherPlanIsBusy(t *testing.T) {
	now := time.Now()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", UID: "u",
		OwnerReferences: []metav1.OwnerReference{{UID: "set", Controller: new(true)}}}}
	for name, c := range map[string]struct {
		hold       bool
		age        time.Duration
		conditions []string
		want       bool
	}{
		"asks for a place":            {},
		"keeps a place":               {conditions: []string{provisioning.Provisioned}, want: true},
		"kept a place":                {conditions: []string{provisioning.Provisioned, provisioning.BookingExpired}},
		"holds pods back":             {hold: true, want: true},
		"held pods back":              {hold: true, age: 11 * time.Minute},
		"holds pods back, has failed": {hold: true, conditions: []string{provisioning.Failed}},
		"held pods back, keeps places": {hold: true, age: 11 * time.Minute,
			conditions: []string{provisioning.Provisioned}, want: true},
	} {
		r := booking{hold: c.hold}.request(p)
		r.CreationTimestamp = metav1.NewTime(now.Add(-c.age))
		for _, x := range c.conditions {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: x, Status: metav1.ConditionTrue})
		}
		if got := busy(r, now); got != c.want {
			t.Errorf("%s: busy %t", name, got)
		}
	}
}

// Successors that are held back wait for nothing once the pods that wait have no room any more. The plan then ends long
// before its time, and what holds them back is deleted. Reports of nodes may lag, so one bad answer does not end it.
func TestSuccessorsAreNotHeldBackForLostRoom(t *testing.T) {
	gone := errors.New("the plan does not work any more")
	for name, c := range map[string]struct {
		again       func(since time.Duration) error
		least, most time.Duration
		want        string
	}{
		"the room is lost": {func(time.Duration) error { return gone }, lostAfter, lostAfter + 2*lookEvery, gone.Error()},
		"it is lost later": {func(d time.Duration) error {
			if d < 2*time.Minute {
				return nil
			}
			return gone
		}, 2*time.Minute + lostAfter, 2*time.Minute + lostAfter + 2*lookEvery, gone.Error()},
		"a report lags": {func(d time.Duration) error {
			if d < lostAfter {
				return gone
			}
			return nil
		}, 10 * time.Minute, 10 * time.Minute, "not within 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				api := &quiet{}
				cluster, err := New(&rest.Config{Host: "http://server", Transport: inPlace(api.answer)})
				if err != nil {
					t.Fatal(err)
				}
				var asked []time.Time
				m := move{Move: Move{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "p"}, UID: "u"}, owner: "set",
					pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1",
						Kind: "ReplicaSet", Name: "set", UID: "set", Controller: new(true)}}}}}
				x := &carrying{Cluster: cluster, hold: true, held: []move{m}, Options: Options{Keep: true,
					RunWithin: 10 * time.Minute, Say: func(string) {}, Again: func(context.Context, []Move) (Plan, error) {
						asked = append(asked, time.Now())
						return Plan{}, c.again(time.Since(begun))
					}}}
				err = x.back(t.Context(), []move{m}, nil)
				if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), c.want) || took < c.least ||
					took > c.most || strings.Contains(err.Error(), "have lost") { // the cluster may not have been read
					t.Errorf("it ended after %s, want %s to %s: %v", took, c.least, c.most, err)
				}
				for i := 1; i < len(asked); i++ {
					if pause := asked[i].Sub(asked[i-1]); pause < lookEvery {
						t.Errorf("the cluster is read again after %s", pause)
					}
				}
				if err := x.giveUp(t.Context()); err != nil || api.deleted != 1 {
					t.Errorf("%d requests were deleted: %v", api.deleted, err)
				}
			})
		})
	}
}

// quiet is an API server where a ReplicaSet has no pods and a request no place.
type quiet struct{ deleted int }

func (q *quiet) answer(r *http.Request) *http.Response {
	body := `{"kind": "PodList", "apiVersion": "v1"}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/replicasets/set"):
		body = `{"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"uid": "set"}, "spec": {"replicas": 1}}`
	case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/provisioningrequests/"+BookingName("u")):
		q.deleted++
	case strings.Contains(r.URL.Path, "/provisioningrequests/"):
		body = `{"kind": "ProvisioningRequest", "apiVersion": "autoscaling.x-k8s.io/v1"}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// If the scheduler cannot read what a successor asks for, that is no answer: nothing is evicted for it, also where the
// scheduler holds the successor back.
func TestARequestThatCannotBeReadIsNotAnswered(t *testing.T) {
	request := provisioning.Request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(request) // a missing answer fails the test
	}))
	defer server.Close()
	client, err := provisioning.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{requests: client}
	for reason, want := range map[string]bool{provisioning.Unread: false, "CapacityIsNotFound": true,
		provisioning.Behind: true} {
		request.Status.Conditions = []metav1.Condition{{Type: provisioning.Provisioned, Status: metav1.ConditionFalse,
			Reason: reason, Message: "not now; " + provisioning.HeldBack}}
		is, answered, over, why, err := c.kept(t.Context(), Move{NamespacedName: types.NamespacedName{Namespace: "ml",
			Name: "p"}, UID: "u"})
		if err != nil || is || over || why == "" || answered != want {
			t.Errorf("%s: kept %t, answered %t, over %t, %q, %v", reason, is, answered, over, why, err)
		}
	}
}
