package room

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

// serving returns a cluster whose API server has these requests, and a function that returns what was deleted.
func serving(t *testing.T, requests ...provisioning.Request) (*Cluster, func() []string) {
	t.Helper()
	var deleted []string
	c, err := New(&rest.Config{Host: "http://server", Transport: inPlace(func(r *http.Request) *http.Response {
		var body any = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusSuccess}
		if r.Method == http.MethodDelete {
			deleted = append(deleted, r.URL.Path)
		} else {
			list := provisioning.RequestList{TypeMeta: metav1.TypeMeta{APIVersion: provisioning.GroupVersion().String(),
				Kind: "ProvisioningRequestList"}, Items: []provisioning.Request{}}
			for _, x := range requests {
				if !strings.Contains(r.URL.Path, "/namespaces/") || strings.Contains(r.URL.Path, "/"+x.Namespace+"/") {
					list.Items = append(list.Items, x)
				}
			}
			body = list
		}
		data, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(string(data))), Request: r}
	})})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []string { return deleted }
}

// holding returns a request that holds pods back.
func holding(namespace, name, class string) provisioning.Request {
	return provisioning.Request{TypeMeta: metav1.TypeMeta{APIVersion: provisioning.GroupVersion().String(),
		Kind: "ProvisioningRequest"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{managedBy: manager}, CreationTimestamp: metav1.Now()},
		Spec: provisioning.Spec{ProvisioningClassName: class,
			Parameters: map[string]string{provisioning.PodsOf: "x", provisioning.HoldSeconds: "600"}}}
}

// Requests stop a plan only where its pods are, and only those that plans make.
func TestWhoStopsPlans(t *testing.T) {
	plan := Plan{Moves: []Move{{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "p"}, UID: "own"}}}
	gone := Plan{Gone: plan.Moves}
	own, ended := holding("ml", BookingName("own"), apipod.Class), holding("ml", BookingName("other"), apipod.Class)
	ended.Status.Conditions = []metav1.Condition{{Type: provisioning.Failed, Status: metav1.ConditionTrue}}
	placed := holding("ml", BookingName("other"), apipod.Class)
	placed.Spec.Parameters = nil
	placed.Status.Conditions = []metav1.Condition{{Type: provisioning.Provisioned, Status: metav1.ConditionTrue}}
	for name, c := range map[string]struct {
		plan    Plan
		request provisioning.Request
		stops   bool
	}{
		"the plan's own":                   {plan, own, false},
		"of another plan":                  {plan, holding("ml", BookingName("other"), apipod.Class), true},
		"with a place":                     {plan, placed, true},
		"that is over":                     {plan, ended, false},
		"of another plan, after an end":    {gone, holding("ml", BookingName("other"), apipod.Class), true},
		"of a plan for other namespaces":   {plan, holding("web", BookingName("other"), apipod.Class), false},
		"of a user, with another name":     {plan, holding("ml", "mine", apipod.Class), false},
		"of a user, with another class":    {plan, holding("ml", BookingName("other"), "mine"), false},
		"of a user in another namespace":   {plan, holding("web", "mine", apipod.Class), false},
		"a plan without pods needs no one": {Plan{}, holding("web", BookingName("x"), apipod.Class), false},
	} {
		cluster, _ := serving(t, c.request)
		if err := cluster.alone(t.Context(), c.plan, Options{Keep: true}); (err != nil) != c.stops {
			t.Errorf("request %s: %v", name, err)
		}
	}
}

// What killed programs have left is deleted once, and thousands of requests do not hold up a plan.
func TestWhatIsSwept(t *testing.T) {
	old := func(name string) provisioning.Request {
		r := holding("ml", name, apipod.Class)
		r.CreationTimestamp = metav1.NewTime(time.Now().Add(-3 * time.Hour))
		return r
	}
	leaving := old(BookingName("leaving"))
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Now()}, []string{"a.com/stays"}
	cluster, deleted := serving(t, old(BookingName("left")), leaving, old("mine"),
		holding("ml", BookingName("new"), apipod.Class))
	if err := cluster.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range deleted() {
		if !strings.HasSuffix(path, "/"+BookingName("left")) {
			t.Errorf("deleted: %s", path)
		}
	}
	if !slices.ContainsFunc(deleted(), func(path string) bool { return strings.Contains(path, "provisioningrequests") }) {
		t.Error("an abandoned request is not deleted")
	}
	var many []provisioning.Request
	for i := range 2 * maxSwept {
		many = append(many, old(BookingName(types.UID(fmt.Sprint(i)))))
	}
	cluster, deleted = serving(t, many...)
	if err := cluster.Sweep(t.Context()); err != nil || len(deleted()) != 2*maxSwept { // each with its template
		t.Errorf("%d objects are deleted at once: %v", len(deleted()), err)
	}
}
