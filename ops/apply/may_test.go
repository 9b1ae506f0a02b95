package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// asks records the requests to an API server that forbids one of them, by "VERB path". Its node has a DaemonSet's pod
// and a pod that leaves.
type asks struct {
	t         *testing.T
	forbidden string
	all       []string
	wrote     []string // requests that change something
}

func (a *asks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	yes := true
	owned := func(name, kind, owner string) v1.Pod {
		return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: kind, Name: owner, UID: "u", Controller: &yes}}},
			Spec: v1.PodSpec{NodeName: "n"}}
	}
	key := r.Method + " " + r.URL.Path
	a.all = append(a.all, key)
	if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != metav1.DryRunAll {
		a.wrote = append(a.wrote, key)
	}
	status := func(code int, reason metav1.StatusReason) any {
		w.WriteHeader(code)
		return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: int32(code), Reason: reason, Message: key}
	}
	var body any
	switch {
	case key == a.forbidden:
		body = status(http.StatusForbidden, metav1.StatusReasonForbidden)
	case key == "GET /api/v1/pods":
		body = v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			Items: []v1.Pod{owned("proxy-1", "DaemonSet", "proxy"), owned("web", "ReplicaSet", "web")}}
	case strings.HasSuffix(r.URL.Path, "/proxy/configz"):
		body = map[string]any{"kubeletconfig": map[string]any{}}
	case strings.HasSuffix(r.URL.Path, "/daemonsets/proxy"):
		body = map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet",
			"metadata": map[string]any{"name": "proxy", "namespace": "ns", "uid": "u"}}
	case strings.HasSuffix(r.URL.Path, "/nodelayouts/n"):
		body = v1alpha1.NodeLayout{TypeMeta: metav1.TypeMeta{APIVersion: "tenon.sh/v1alpha1", Kind: "NodeLayout"},
			ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	case strings.HasSuffix(r.URL.Path, "/nodes/n"):
		body = v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	case r.Method == http.MethodPost:
		body = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}}
	default:
		body = status(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	if err := json.NewEncoder(w).Encode(body); err != nil {
		a.t.Error(err)
	}
}

// The test forbids each right that a change needs, and expects an error before anything changes.
func TestMissingRightsAreFoundBeforeAnythingIsChanged(t *testing.T) {
	plan := document.KubeletPlan{Kind: "KubeletPlan", Nodes: []document.KubeletPlanNode{{Name: "n",
		After: v1alpha1.Rules{CPUManagerPolicy: "static"}}}}
	own := "/api/v1/namespaces/tools/pods/" + podName("n")
	rights := []string{"GET /api/v1/pods", "GET /apis/apps/v1/namespaces/ns/daemonsets/proxy", "PATCH /api/v1/nodes/n",
		"POST /api/v1/namespaces/ns/pods/web/eviction", "GET /api/v1/nodes/n/proxy/configz",
		"POST /api/v1/namespaces/tools/pods", "GET " + own, "GET " + own + "/log", "PATCH " + own, "DELETE " + own}
	for _, forbidden := range append([]string{""}, rights...) {
		a := &asks{t: t, forbidden: forbidden}
		s := httptest.NewServer(a)
		cfg := &rest.Config{Host: s.URL}
		changes, err := NewPods(cfg, PodOptions{Namespace: "tools", Image: "busybox", Stop: "stop", Start: "start",
			KeepWithin: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(cfg, changes, changes.Configz)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := c.Pending(context.Background(), plan, Options{})
		switch {
		case forbidden == "" && (err != nil || len(nodes) != 1):
			t.Errorf("with all rights: %d nodes, error %v", len(nodes), err)
		case forbidden != "" && (err == nil || !strings.HasPrefix(err.Error(), "nothing was changed, since ")):
			t.Errorf("without %s: error %v", forbidden, err)
		}
		if len(a.wrote) > 0 {
			t.Errorf("without %q, there were writes: %v", forbidden, a.wrote)
		}
		if forbidden == "" {
			for _, r := range rights {
				if !slices.Contains(a.all, r) {
					t.Errorf("%s is not asked, only %s", r, fmt.Sprint(a.all))
				}
			}
		}
		s.Close()
	}
}

// Nodes that have the new configuration are done. Whether their pods could leave is not asked: a plan that goes on
// after an interruption must not fail because of a new pod on such a node.
func TestNodesThatAreDoneAreNotAsked(t *testing.T) {
	plan := document.KubeletPlan{Kind: "KubeletPlan", Nodes: []document.KubeletPlanNode{{Name: "n",
		Before: v1alpha1.Rules{CPUManagerPolicy: "static"}}}}
	a := &asks{t: t, forbidden: "GET /api/v1/pods"}
	s := httptest.NewServer(a)
	defer s.Close()
	cfg := &rest.Config{Host: s.URL}
	changes, err := NewPods(cfg, PodOptions{Namespace: "tools", Image: "busybox", Stop: "stop", Start: "start",
		KeepWithin: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, changes, changes.Configz)
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := c.Pending(context.Background(), plan, Options{}); err != nil || len(nodes) != 0 {
		t.Errorf("%d nodes are pending, error %v", len(nodes), err)
	}
}
