// Package staticapi serves a static cluster to programs that list and watch it, like an API server: without a store,
// without writes, and as fast as its objects can be encoded.
//
// Invariant: lists return every node, pod, NodeLayout, LayoutBase and NodeResourceTopology of the cluster, and no
// objects of other kinds. Watches receive the events of [Server.Send], which do not change the lists. The package
// answers writes with an error.
package staticapi

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

const (
	version    = "1" // resource version of all objects, because they never change
	protobufs  = "application/vnd.kubernetes.protobuf"
	texts      = "application/json"
	topologies = "noderesourcetopologies"
)

// Server serves one cluster.
type Server struct {
	cluster   *synthetic.Cluster
	positions map[string]int                         // positions of nodes by name
	kinds     map[schema.GroupVersionResource]string // list kinds of all resources that client-go has types for
	addr      string
	http      http.Server

	pods, nodes func() ([]byte, error) // the complete lists as protobuf, encoded once

	mu       sync.Mutex
	watchers map[chan event]string // for the queue of each watch, the resource that it watches
}

// Serve serves a cluster on a port of this computer until Close. The caller must not change the cluster.
func Serve(c *synthetic.Cluster) (*Server, error) {
	s := &Server{cluster: c, positions: map[string]int{}, kinds: map[schema.GroupVersionResource]string{},
		watchers: map[chan event]string{}}
	for i, n := range c.Nodes {
		s.positions[n.Name] = i
	}
	for kind := range scheme.Scheme.AllKnownTypes() {
		if name, ok := strings.CutSuffix(kind.Kind, "List"); ok {
			plural, _ := meta.UnsafeGuessKindToResource(kind.GroupVersion().WithKind(name))
			s.kinds[plural] = kind.Kind
		}
	}
	s.pods = sync.OnceValues(func() ([]byte, error) { return s.encodePods(0, len(c.Pods), "") })
	s.nodes = sync.OnceValues(func() ([]byte, error) { return s.encodeNodes(0, len(c.Nodes), "") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for schedulers: %w", err)
	}
	s.addr = "http://" + l.Addr().String()
	s.http = http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // it ends with Close
	return s, nil
}

// URL returns the URL of the server.
func (s *Server) URL() string { return s.addr }

// Close ends the server, and all watches.
func (s *Server) Close() error {
	if err := s.http.Close(); err != nil {
		return fmt.Errorf("close server of a cluster at rest: %w", err)
	}
	return nil
}

// ServeHTTP answers discovery, lists and watches of any kind, and the get of one NodeResourceTopology. It does not list
// the pods of one namespace; of other kinds no namespace has objects.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "nothing changes here")
		return
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gv := schema.GroupVersion{Version: "v1"}
	switch {
	case path[0] == "apis" && len(path) >= 3:
		gv = schema.GroupVersion{Group: path[1], Version: path[2]}
		path = path[3:]
	case path[0] == "api" && len(path) >= 2:
		path = path[2:]
	default:
		s.groups(w, path[0])
		return
	}
	switch {
	case len(path) == 0:
		s.resources(w, gv)
	case len(path) == 1 && r.URL.Query().Has("watch"):
		s.watch(w, r, gv.WithResource(path[0]))
	case len(path) == 1:
		s.list(w, r, gv.WithResource(path[0]))
	case len(path) == 3 && path[0] == "namespaces" && path[2] != "pods":
		s.list(w, r, gv.WithResource(path[2]))
	case len(path) == 2 && path[0] == topologies:
		s.topology(w, path[1])
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.URL.Path+" is not here")
	}
}

// page returns the range of objects that a client requests of a list, and the start of the next page, "" after the last
// one. Lists from an API server's cache, which request version 0, have one page.
func page(r *http.Request, count int) (from, to int, next string) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit <= 0 || q.Get("resourceVersion") == "0" {
		return 0, count, ""
	}
	if at, err := strconv.Atoi(q.Get("continue")); err == nil {
		from = max(0, min(at, count))
	}
	if to = min(from+limit, count); to < count {
		next = strconv.Itoa(to)
	}
	return from, to, next
}

// list answers a list. Nodes and pods are served as protobuf only, Tenon's objects and topologies as JSON. A list of
// any other kind that client-go has a type for is empty.
func (s *Server) list(w http.ResponseWriter, r *http.Request, resource schema.GroupVersionResource) {
	binary := strings.Contains(r.Header.Get("Accept"), protobufs)
	switch {
	case resource.Group == "" && resource.Resource == "nodes" && binary:
		writeProtobuf(w, pageEncoder(r, len(s.cluster.Nodes), s.nodes, s.encodeNodes))
	case resource.Group == "" && resource.Resource == "pods" && binary:
		writeProtobuf(w, pageEncoder(r, len(s.cluster.Pods), s.pods, s.encodePods))
	case resource == v1alpha1.NodeLayoutResource():
		s.stream(w, r, v1alpha1.GroupVersion().String(), v1alpha1.Kind, s.layoutAt)
	case resource == v1alpha1.LayoutBaseResource():
		s.stream(w, r, v1alpha1.GroupVersion().String(), v1alpha1.BaseKind, s.baseAt)
	case resource.Group == v1alpha2.SchemeGroupVersion.Group && resource.Resource == topologies:
		s.stream(w, r, v1alpha2.SchemeGroupVersion.String(), "NodeResourceTopology", s.topologyAt)
	case s.kinds[resource] == "":
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource.String()+" is not served")
	case resource.Resource == "nodes" || resource.Resource == "pods":
		refuse(w, http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "nodes and pods are served as "+protobufs)
	default:
		answer(w, http.StatusOK, map[string]any{"kind": s.kinds[resource], "apiVersion": resource.GroupVersion().String(),
			"metadata": map[string]any{"resourceVersion": version}, "items": []any{}})
	}
}

func (s *Server) layoutAt(i int) any {
	l := s.cluster.Difference(i, s.cluster.States[i].Entries, 0)
	l.ResourceVersion, l.UID, l.Generation = version, s.cluster.Nodes[i].UID, 1
	return l
}

func (s *Server) baseAt(i int) any {
	b := s.cluster.Base(i)
	b.ResourceVersion, b.UID, b.Generation = version, s.cluster.Nodes[i].UID, 1
	return b
}

func (s *Server) topologyAt(i int) any {
	o := s.cluster.Topology(i)
	o.ResourceVersion, o.UID, o.Generation = version, s.cluster.Nodes[i].UID, 1
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: client.FieldManager, Operation: "Apply"}}
	return o
}

func (s *Server) topology(w http.ResponseWriter, name string) {
	i, ok := s.positions[name]
	if !ok {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no topology of node "+name)
		return
	}
	answer(w, http.StatusOK, s.topologyAt(i))
}

// stream writes a list that has one object for each node. It encodes one object after the other, so that the list is
// never in memory as a whole.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, apiVersion, kind string, at func(i int) any) {
	w.Header().Set("Content-Type", texts)
	from, to, next := page(r, len(s.cluster.Nodes))
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":%q,"continue":%q},"items":[`, kind,
		apiVersion, version, next)
	out := json.NewEncoder(w)
	for i := from; i < to; i++ {
		if i > from {
			_, _ = w.Write([]byte(","))
		}
		if out.Encode(at(i)) != nil {
			return // the client has gone, and receives a truncated list
		}
	}
	_, _ = w.Write([]byte("]}"))
}

func (s *Server) podAt(i int) *v1.Pod {
	p := *s.cluster.Pods[i]
	p.TypeMeta, p.ResourceVersion = typeOf(v1.SchemeGroupVersion.WithKind("Pod")), version
	return &p
}

func (s *Server) nodeAt(i int) *v1.Node {
	n := *s.cluster.Nodes[i]
	n.TypeMeta, n.ResourceVersion = typeOf(v1.SchemeGroupVersion.WithKind("Node")), version
	return &n
}

func (s *Server) encodePods(from, to int, next string) ([]byte, error) {
	list := &v1.PodList{Items: make([]v1.Pod, to-from)}
	list.ResourceVersion, list.Continue = version, next
	for i := range list.Items {
		list.Items[i] = *s.podAt(from + i)
	}
	return binary(list)
}

func (s *Server) encodeNodes(from, to int, next string) ([]byte, error) {
	list := &v1.NodeList{Items: make([]v1.Node, to-from)}
	list.ResourceVersion, list.Continue = version, next
	for i := range list.Items {
		list.Items[i] = *s.nodeAt(from + i)
	}
	return binary(list)
}

// pageEncoder returns a function that encodes the requested part of a list. The whole list is encoded once.
func pageEncoder(r *http.Request, count int, all func() ([]byte, error),
	part func(from, to int, next string) ([]byte, error)) func() ([]byte, error) {
	from, to, next := page(r, count)
	if to-from == count {
		return all
	}
	return func() ([]byte, error) { return part(from, to, next) }
}

func binary(list runtime.Object) ([]byte, error) {
	codec := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), v1.SchemeGroupVersion)
	data, err := runtime.Encode(codec, list)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", list, err)
	}
	return data, nil
}

func writeProtobuf(w http.ResponseWriter, list func() ([]byte, error)) {
	data, err := list()
	if err != nil {
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", protobufs)
	_, _ = w.Write(data) // a client that has gone needs no answer
}

// groups answers /api with the version v1, and every other short path with the list of API groups.
func (s *Server) groups(w http.ResponseWriter, what string) {
	if what == "api" {
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"},
			Versions: []string{"v1"}})
		return
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, gv := range []schema.GroupVersion{v1alpha1.GroupVersion(), v1alpha2.SchemeGroupVersion} {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v},
			PreferredVersion: v})
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) resources(w http.ResponseWriter, gv schema.GroupVersion) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String()}
	verbs := metav1.Verbs{"get", "list", "watch"}
	switch gv {
	case v1alpha1.GroupVersion():
		list.APIResources = []metav1.APIResource{{Name: v1alpha1.NodeLayoutResource().Resource, SingularName: "nodelayout",
			Kind: v1alpha1.Kind, Verbs: verbs}, {Name: v1alpha1.LayoutBaseResource().Resource, SingularName: "layoutbase",
			Kind: v1alpha1.BaseKind, Verbs: verbs}}
	case v1alpha2.SchemeGroupVersion:
		list.APIResources = []metav1.APIResource{{Name: topologies, SingularName: "noderesourcetopology",
			Kind: "NodeResourceTopology", Verbs: verbs}}
	case schema.GroupVersion{Version: "v1"}:
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, gv.String()+" is not served")
		return
	}
	answer(w, http.StatusOK, list)
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	answer(w, int(code), metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message})
}

func answer(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", texts)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // a client that has gone needs no answer
}
