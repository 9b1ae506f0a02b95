package room

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
