package live

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// apiServer answers lists from files of JSON and watches with the events that a test sends. Paths without an answer are
// forbidden.
type apiServer struct {
	mu      sync.Mutex
	lists   map[string]any
	events  map[string]chan any
	expired bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	list, ok := s.lists[r.URL.Path]
	events, expired := s.events[r.URL.Path], s.expired
	s.mu.Unlock()
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: "Failure", Code: int32(code), Reason: reason, Message: "no"})
	}
	switch {
	case expired:
		fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case !ok && strings.Contains(r.URL.Path, "noderesourcetopologies"):
		fail(http.StatusNotFound, metav1.StatusReasonNotFound)
	case !ok:
		fail(http.StatusForbidden, metav1.StatusReasonForbidden)
	case q.Get("watch") == "":
		_ = json.NewEncoder(w).Encode(list)
	case q.Get("sendInitialEvents") != "":
		fail(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	default:
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-events:
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

const (
	nodesPath   = "/api/v1/nodes"
	podsPath    = "/api/v1/pods"
	mlPath      = "/api/v1/namespaces/ml/pods"
	layoutsPath = "/apis/tenon.sh/v1alpha1/nodelayouts"
)

func machineOf(t testing.TB) *topo.Machine {
	t.Helper()
	var b strings.Builder
	for i := range 4 {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d memory 64Gi\n", i, i/2, i*16, i*16+15, 64+i*16, 64+i*16+15)
		fmt.Fprintf(&b, "device acme.com/gpu g%02d,g%02d numa %d\n", 2*i, 2*i+1, i)
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rulesOf() place.Rules {
	return place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}
}

func layout(t testing.TB, name string) map[string]any {
	t.Helper()
	l := v1alpha1.FromCore(name, machineOf(t), rulesOf(), nil, nil)
	l.ResourceVersion = "5"
	return plain(t, l, v1alpha1.GroupVersion().String(), v1alpha1.Kind)
}

// plain is an object as an API server writes it.
func plain(t testing.TB, o any, version, kind string) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	out["apiVersion"], out["kind"] = version, kind
	return out
}

func pod(namespace, name, node string) *v1.Pod {
	amounts := v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "." + name),
		ResourceVersion: "7", CreationTimestamp: metav1.Time{Time: time.Unix(1e9, 0)},
		Labels:      map[string]string{"app": name},
		Annotations: map[string]string{"secret.example/token": "s3cret", "tenon.sh/align": "numa"}},
		Spec: v1.PodSpec{NodeName: node, SchedulerName: "tenon", Containers: []v1.Container{{Name: "c", Image: "image",
			Env:       []v1.EnvVar{{Name: "PASSWORD", Value: "s3cret"}},
			Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
		Status: v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSGuaranteed}}
}

func list(version, kind string, items ...any) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "10"},
		"items": append([]any{}, items...)}
}

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "x"}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse("128"),
			"memory": resource.MustParse("256Gi"),
			"pods":   resource.MustParse("110")}, Images: []v1.ContainerImage{{Names: []string{"big"}}}}}
}

// start follows a stand-in until it was read once.
func start(t *testing.T, s *apiServer, o Options) *View {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if o.Bounds.Nodes == 0 {
		o.Bounds = Standard()
	}
	v, err := Start(ctx, &rest.Config{Host: server.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-v.Ready():
	case <-time.After(20 * time.Second):
		t.Fatal("the view is not ready")
	}
	return v
}

func cluster(t *testing.T) *apiServer {
	return &apiServer{events: map[string]chan any{podsPath: make(chan any, 8), nodesPath: nil},
		lists: map[string]any{
			nodesPath: list("v1", "NodeList", plain(t, node("a"), "v1", "Node"), plain(t, node("b"), "v1", "Node")),
			podsPath: list("v1", "PodList", plain(t, pod("ml", "p", "a"), "v1", "Pod"),
				plain(t, pod("web", "q", ""), "v1", "Pod")),
			layoutsPath: list(v1alpha1.GroupVersion().String(), "NodeLayoutList", layout(t, "a")),
		}}
}

func TestAViewHasTheLedgerAndItsProblems(t *testing.T) {
	v := start(t, cluster(t), Options{}).View()
	if len(v.Nodes) != 2 || len(v.Pods) != 2 || len(v.States) != 1 || len(v.Problems) != 1 || v.Problems[0].Node != "b" {
		t.Fatalf("%d nodes, %d pods, %d states, problems %v", len(v.Nodes), len(v.Pods), len(v.States), v.Problems)
	}
	if free := v.States[0].Usage.FreeCPUs().Len(); free != 124 {
		t.Errorf("node a has %d free CPUs beside a pod with 4 of 128", free)
	}
	text := fmt.Sprint(v.Pods, v.Nodes)
	for _, private := range []string{"s3cret", "PASSWORD", "big", "image"} {
		if strings.Contains(text, private) {
			t.Errorf("the view keeps %q", private)
		}
	}
	if got := v.Pods[0].Annotations["tenon.sh/align"]; got != "numa" {
		t.Errorf("annotation tenon.sh/align is %q", got)
	}
}

// What may not be read is named, and the rest is there.
func TestWhatMayNotBeReadIsALimit(t *testing.T) {
	s := cluster(t)
	s.lists[mlPath] = list("v1", "PodList", plain(t, pod("ml", "p", "a"), "v1", "Pod"))
	delete(s.lists, podsPath)
	delete(s.lists, layoutsPath)
	v := start(t, s, Options{Namespaces: []string{"ml", "other"}})
	want := []Limit{{"nodelayouts", "you may not list nodelayouts"},
		{"pods in all namespaces", "you may not list pods in all namespaces"},
		{"pods in namespace other", "you may not list pods in namespace other"}}
	if got := v.Limits(); !slices.Equal(got, want) {
		t.Errorf("limits are %v, want %v", got, want)
	}
	if all := v.View(); len(all.Nodes) != 2 || len(all.Pods) != 1 || all.Pods[0].Namespace != "ml" {
		t.Errorf("%d nodes and pods %v", len(all.Nodes), all.Pods)
	}
	if v.Rejected() {
		t.Error("the identity counts as rejected")
	}
}

func TestAnExpiredIdentityIsRejected(t *testing.T) {
	s := cluster(t)
	s.expired = true
	if v := start(t, s, Options{}); !v.Rejected() || len(v.Limits()) == 0 {
		t.Errorf("rejected %t, limits %v", v.Rejected(), v.Limits())
	}
}

func TestAFollowerReceivesWhatChanges(t *testing.T) {
	s := cluster(t)
	v := start(t, s, Options{})
	f := v.Follow()
	defer f.Close()
	bound := pod("web", "q", "a")
	bound.ResourceVersion = "11"
	s.events[podsPath] <- map[string]any{"type": "MODIFIED", "object": plain(t, bound, "v1", "Pod")}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var nodes, pods []string
	for len(nodes) == 0 || len(pods) == 0 {
		c, err := f.Next(ctx)
		if err != nil {
			t.Fatalf("after nodes %v and pods %v: %v", nodes, pods, err)
		}
		nodes, pods = append(nodes, c.Nodes...), append(pods, c.Pods...)
	}
	if !slices.Equal(slices.Compact(nodes), []string{"a"}) || !slices.Equal(pods, []string{"web/q"}) {
		t.Errorf("nodes %v and pods %v have changed", nodes, pods)
	}
	if p := v.Pod("web", "q"); p == nil || p.Spec.NodeName != "a" || v.Pod("web", "r") != nil {
		t.Errorf("pod web/q is %v", p)
	}
}

func TestManyChangesAreOne(t *testing.T) {
	var c changes
	f := c.follow()
	for i := range 2 * maxNamed {
		c.pod(fmt.Sprint("p-", i))
	}
	got, err := f.Next(t.Context())
	if err != nil || !got.All || len(got.Pods) > maxNamed || got.Version != 2*maxNamed {
		t.Errorf("%d pods, all %t, version %d, error %v", len(got.Pods), got.All, got.Version, err)
	}
	c.node("a")
	if got, err = f.Next(t.Context()); err != nil || got.All || !slices.Equal(got.Nodes, []string{"a"}) ||
		got.Pods != nil {
		t.Errorf("then %+v, error %v", got, err)
	}
}

func TestBoundsAreKept(t *testing.T) {
	v := start(t, cluster(t), Options{Bounds: Bounds{Nodes: 1, Pods: 1, Bytes: 1 << 20}})
	var names []string
	for _, l := range v.Limits() {
		names = append(names, l.Resource)
	}
	if all := v.View(); len(all.Nodes) != 1 || len(all.Pods) != 1 ||
		!slices.Equal(names, []string{"more nodes", "more pods"}) {
		t.Errorf("%d nodes, %d pods, limits %v", len(all.Nodes), len(all.Pods), names)
	}
}
