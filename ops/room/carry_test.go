package room

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
)

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
