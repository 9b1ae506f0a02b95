package apply

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
)

// A record that a node's kubelet has forged is refused, with the remedy. It counts only for the same plan, whose
// steps this node can make fail anyway.
func TestRecordsThatAreLies(t *testing.T) {
	plan := document.KubeletPlanNode{Name: "n"}
	for record, want := range map[string]string{
		"":                           "is no record of a change (if no change is under way, remove it with",
		"{":                          "is no record of a change",
		`{"plan":"x"}`:               "is no record of a change",
		`{"plan":"x","step":"keep"}`: "or plan without the node",
		`{"plan":"` + identity(plan) + `","step":"nothing"}`: "is no record of a change",
		`{"plan":"` + identity(plan) + `","step":"verify"}`:  "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
				ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{Annotation: record}}}); err != nil {
				t.Error(err)
			}
		}))
		c, err := New(&rest.Config{Host: s.URL}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.readRecord(t.Context(), plan)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("record %s: error %v, want %q", record, err, want)
		}
		s.Close()
	}
}

// drained returns the names of the pods that leave node n, or the error. The API server has one pod, and a DaemonSet
// "proxy" of UID "real" in namespace "ns".
func drained(t *testing.T, pod v1.Pod, o Options) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var body any
		switch r.URL.Path {
		case "/api/v1/pods":
			body = v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{pod}}
		case "/apis/apps/v1/namespaces/ns/daemonsets/proxy":
			body = map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet",
				"metadata": map[string]any{"name": "proxy", "namespace": "ns", "uid": "real"}}
		default:
			w.WriteHeader(http.StatusNotFound)
			body = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
				Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: r.URL.Path}
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	cfg := &rest.Config{Host: s.URL}
	changes, err := NewPods(cfg, PodOptions{Namespace: "tools", Image: "busybox", Stop: "stop", Start: "start",
		KeepWithin: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, changes, nil)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.leaving(t.Context(), "n", o)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return strings.Join(out, " ")
}

// Nothing that the author of a pod writes to it keeps the pod running on a drained node.
func TestPodsThatADrainLeaves(t *testing.T) {
	pod := func(namespace, name string, how func(*v1.Pod)) v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"},
			Spec: v1.PodSpec{NodeName: "n"}}
		if how != nil {
			how(&p)
		}
		return p
	}
	owned := func(kind, name, uid string) func(*v1.Pod) {
		yes := true
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid),
				Controller: &yes}}
		}
	}
	mirror := func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "0ff"} }
	labelled := func(p *v1.Pod) { p.Labels = map[string]string{label: "x"} }
	for what, c := range map[string]struct {
		pod  v1.Pod
		want string
	}{
		"bare":                   {pod("ns", "p", nil), "has no controller"},
		"of a ReplicaSet":        {pod("ns", "p", owned("ReplicaSet", "r", "r")), "ns/p"},
		"of a DaemonSet":         {pod("ns", "p", owned("DaemonSet", "proxy", "real")), ""},
		"this program's":         {pod("tools", podName("n"), labelled), ""},
		"static":                 {pod("ns", "p", mirror), ""},
		"lie: the label":         {pod("ns", "p", labelled), "has no controller"},
		"lie: label in tools":    {pod("tools", "p", labelled), "has no controller"},
		"lie: name elsewhere":    {pod("ns", podName("n"), labelled), "has no controller"},
		"lie: another node's":    {pod("tools", podName("m"), labelled), "has no controller"},
		"lie: no such DaemonSet": {pod("ns", "p", owned("DaemonSet", "invented", "real")), "has no controller"},
		"lie: UID of DaemonSet":  {pod("ns", "p", owned("DaemonSet", "proxy", "invented")), "has no controller"},
		"lie: other namespace":   {pod("other", "p", owned("DaemonSet", "proxy", "real")), "has no controller"},
	} {
		got := drained(t, c.pod, Options{})
		if c.want == "has no controller" {
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %q leaves, want a refusal", what, got)
			}
			forced := fmt.Sprintf("%s/%s", c.pod.Namespace, c.pod.Name)
			if got := drained(t, c.pod, Options{Force: true}); got != forced {
				t.Errorf("%s, with --force: %q leaves, want %s", what, got, forced)
			}
		} else if got != c.want {
			t.Errorf("%s: %q leaves, want %q", what, got, c.want)
		}
	}
}
