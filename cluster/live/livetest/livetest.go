// Package livetest is an API server for tests of programs that read a cluster. It answers lists with the objects that a
// test sets, and watches with the events that the test sends.
//
// Invariant: it has no other behaviour. It forbids paths that a test has not set (403). NodeResourceTopologies and
// Numatopologies are not found (404) until a test sets or forbids them.
package livetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Paths of the API server.
const (
	Nodes   = "/api/v1/nodes"
	Pods    = "/api/v1/pods"
	Layouts = "/apis/tenon.sh/v1alpha1/nodelayouts"
	Bases   = "/apis/tenon.sh/v1alpha1/layoutbases"
	Events  = "/api/v1/events"
)

// PodsOf returns the path of the pods of a namespace.
func PodsOf(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

// EventsOf returns the path of the events of a namespace.
func EventsOf(namespace string) string { return "/api/v1/namespaces/" + namespace + "/events" }

// Server is the API server. Its methods may be called from any goroutine.
type Server struct {
	URL string

	t       testing.TB
	mu      sync.Mutex
	lists   map[string]any
	events  map[string]chan any
	allowed map[string]bool // tokens; nil accepts all
	asked   map[string]int
	refused map[string]bool // paths that a call of Forbid has named
}

// New starts a server with no path set, except that it has no bases of layouts.
func New(t testing.TB) *Server {
	s := &Server{t: t, lists: map[string]any{}, events: map[string]chan any{}, asked: map[string]int{},
		refused: map[string]bool{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	s.List(Bases)
	return s
}

// List sets the objects with which the server answers lists of a path. A watch of the path that has begun before
// receives no further events.
func (s *Server) List(path string, items ...any) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []any{}
	kind, version := "List", "v1"
	for _, o := range items {
		x := plain(s.t, o)
		kind, version = fmt.Sprint(x["kind"], "List"), fmt.Sprint(x["apiVersion"])
		all = append(all, x)
	}
	switch path {
	case Layouts:
		kind, version = "NodeLayoutList", v1alpha1.GroupVersion().String()
	case Bases:
		kind, version = "LayoutBaseList", v1alpha1.GroupVersion().String()
	}
	s.lists[path] = map[string]any{"apiVersion": version, "kind": kind, "items": all,
		"metadata": map[string]any{"resourceVersion": "10"}}
	s.events[path] = make(chan any, 64)
}

// Object makes the server answer every request to a path with one object, whatever the method is.
func (s *Server) Object(path string, o any) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[path] = plain(s.t, o)
}

// Forbid makes a path forbidden, and ends its watch.
func (s *Server) Forbid(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lists, path)
	s.refused[path] = true
	if e := s.events[path]; e != nil {
		delete(s.events, path)
		close(e)
	}
}

// Send sends an event (ADDED, MODIFIED, DELETED) to the watch of a path.
func (s *Server) Send(path, what string, o any) {
	s.t.Helper()
	s.mu.Lock()
	to := s.events[path]
	s.mu.Unlock()
	to <- map[string]any{"type": what, "object": plain(s.t, o)}
}

// Accept makes the server reject all bearer tokens but these.
func (s *Server) Accept(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = map[string]bool{}
	for _, t := range tokens {
		s.allowed["Bearer "+t] = true
	}
}

// Asked returns how often each path was requested since the last call of Asked. Watches do not count.
func (s *Server) Asked() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = map[string]int{}
	return out
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	list, ok := s.lists[r.URL.Path]
	events := s.events[r.URL.Path]
	refused := s.refused[r.URL.Path]
	if r.URL.Query().Get("watch") == "" {
		s.asked[r.URL.Path]++
	}
	expired := s.allowed != nil && !s.allowed[r.Header.Get("Authorization")]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case expired:
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case !ok && !refused && strings.HasSuffix(r.URL.Path, "topologies"):
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case !ok:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case q.Get("watch") == "":
		_ = json.NewEncoder(w).Encode(list)
	// The server does not stream lists. A client that asks for a streamed list then sends an ordinary one.
	case q.Get("sendInitialEvents") != "":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	default:
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case e, ok := <-events:
				if !ok {
					return
				}
				_ = json.NewEncoder(w).Encode(e)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: "Failure", Code: int32(code), Reason: reason, Message: "refused"})
}

// plain returns an object in the form that an API server writes.
func plain(t testing.TB, o any) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	out["apiVersion"] = "v1"
	switch o.(type) {
	case *v1.Pod:
		out["kind"] = "Pod"
	case *v1.Node:
		out["kind"] = "Node"
	case *v1.Event:
		out["kind"] = "Event"
	case *v1.ConfigMap:
		out["kind"] = "ConfigMap"
	case *v1alpha1.NodeAffinity:
		out["apiVersion"], out["kind"] = v1alpha1.GroupVersion().String(), v1alpha1.AffinityKind
	case *v1alpha1.NodeLayout:
		out["kind"], out["apiVersion"] = v1alpha1.Kind, v1alpha1.GroupVersion().String()
	case *v1alpha1.LayoutBase:
		out["kind"], out["apiVersion"] = v1alpha1.BaseKind, v1alpha1.GroupVersion().String()
	}
	return out
}

// Machine returns a machine with 2 sockets and 4 NUMA nodes. Each NUMA node has 32 CPUs, 64 GiB and 2 devices
// acme.com/gpu.
func Machine(t testing.TB) *topo.Machine {
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

// Rules returns the rules of a kubelet with the single-numa-node policy and static managers.
func Rules() place.Rules {
	return place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true},
		Memory: place.MemoryRules{Static: true}}
}

// Layout returns the layout of a node with the Machine.
func Layout(t testing.TB, name string, entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	l := v1alpha1.FromCore(name, Machine(t), Rules(), entries, nil)
	l.ResourceVersion = "5"
	return l
}

// Node returns the Node object of a node with the Machine.
func Node(name string) *v1.Node {
	all := v1.ResourceList{"cpu": resource.MustParse("128"), "memory": resource.MustParse("256Gi"),
		"pods": resource.MustParse("110"), "acme.com/gpu": resource.MustParse("8")}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "x",
		"kubernetes.io/hostname": name}},
		Status: v1.NodeStatus{Allocatable: all, Images: []v1.ContainerImage{{Names: []string{"big"}}}}}
}

// Pod returns a Guaranteed pod of 4 CPUs and 8 GiB. It waits if node is empty. It also has fields that no view needs.
func Pod(namespace, name, node string) *v1.Pod {
	amounts := v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID(namespace + "." + name), ResourceVersion: "7",
		CreationTimestamp: metav1.Time{Time: time.Unix(1e9, 0)}, Labels: map[string]string{"app": name},
		Annotations: map[string]string{"secret.example/token": "s3cret", "tenon.sh/align": "cpu"}},
		Spec: v1.PodSpec{NodeName: node, SchedulerName: "tenon", Containers: []v1.Container{{Name: "c", Image: "image",
			Env:       []v1.EnvVar{{Name: "PASSWORD", Value: "s3cret"}},
			Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
		Status: v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSGuaranteed}}
}
