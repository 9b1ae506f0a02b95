package room

import (
	"context"
	"encoding/json"
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

	"github.com/tenon-numa/tenon/api/objects"
)

// inPlace answers requests in place of an API server, without a network.
type inPlace func(*http.Request) *http.Response

func (f inPlace) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// The names of nodes are written again at every moment while pods leave. No client puts that off.
func TestNamesOfNodesAreNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var named []time.Time
		c, err := New(&rest.Config{Host: "http://server", Transport: inPlace(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPatch {
				named = append(named, time.Now())
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(`{"kind": "Pod", "apiVersion": "v1"}`)), Request: r}
		})})
		if err != nil {
			t.Fatal(err)
		}
		x := &carrying{Cluster: c, goals: []Goal{{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "goal"},
			Node: "a"}}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		stop := x.naming(ctx)
		<-ctx.Done()
		stop()
		for i := 1; i < len(named); i++ {
			if pause := named[i].Sub(named[i-1]); pause > namingEvery {
				t.Fatalf("the node is named for the %d. time after %s", i+1, pause)
			}
		}
		if len(named) < 2 {
			t.Errorf("the node is named %d times", len(named))
		}
	})
}

// A place may become free on a node where an evicted pod of the plan still ends.
func TestPodsThatStillEnd(t *testing.T) {
	deleted := metav1.NewTime(time.Now())
	pods := map[string]*v1.Pod{"ends": {ObjectMeta: metav1.ObjectMeta{UID: "ends", DeletionTimestamp: &deleted}},
		"stays":    {ObjectMeta: metav1.ObjectMeta{UID: "stays"}},
		"replaced": {ObjectMeta: metav1.ObjectMeta{UID: "another", DeletionTimestamp: &deleted}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for name, p := range pods {
			if r.URL.Path == "/api/v1/namespaces/ml/pods/"+name {
				p.TypeMeta, p.Spec.NodeName = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, "a"
				_ = json.NewEncoder(w).Encode(p) // a missing answer fails the test
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	}))
	defer server.Close()
	core, err := objects.NewCore(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pod, to string // the evicted pod, and the node of the place
		has     bool   // the successor has a place
		want    bool
	}{
		"it ends":             {"ends", "a", false, true},
		"of another node":     {"ends", "b", false, false},
		"a place is kept":     {"ends", "a", true, false},
		"it has ended":        {"gone", "a", false, false},
		"another of its name": {"replaced", "a", false, false},
		"it was not evicted":  {"stays", "a", false, false},
	} {
		x := &carrying{Cluster: &Cluster{core: core}, left: []move{{Move: Move{UID: "next", To: c.to}}}, leaving: []Move{{
			NamespacedName: types.NamespacedName{Namespace: "ml", Name: c.pod}, UID: types.UID(c.pod), From: "a"}}}
		none := map[types.UID]string{"next": "no room"}
		if c.has {
			delete(none, "next")
		}
		if got, err := x.ends(t.Context(), none); err != nil || got != c.want {
			t.Errorf("%s: a pod ends: %t, %v", name, got, err)
		}
	}
}
