package staticapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// manyEvents is how many events are queued for a client; a slower client misses events.
const manyEvents = 4096

// event is one event of a watch. The object is of the type of its resource.
type event struct {
	what   watch.EventType
	object any
}

// Send sends an event (ADDED, MODIFIED, DELETED) to all watches of a resource, such as "pods". The object must have its
// kind and version. Send returns an error if it cannot be encoded.
func (s *Server) Send(resource, what string, object any) error {
	if _, err := json.Marshal(object); err != nil {
		return fmt.Errorf("encode event of %s: %w", resource, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for queue, watched := range s.watchers {
		if watched != resource {
			continue
		}
		select {
		case queue <- event{watch.EventType(what), object}:
		default:
		}
	}
	return nil
}

// watch sends events until the client disconnects. A client that requests initial events first gets all objects, and
// then the bookmark that ends them, as from a kube-apiserver since 1.34 (KEP-3157).
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource schema.GroupVersionResource) {
	kind, ok := s.kindOf(resource)
	if !ok {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource.String()+" is not served")
		return
	}
	send := sender(w, r, kind)
	events, out := make(chan event, manyEvents), http.NewResponseController(w)
	s.mu.Lock()
	s.watchers[events] = resource.Resource
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, events)
	}()
	if r.URL.Query().Get("sendInitialEvents") == "true" && s.sendInitial(send, resource, kind) != nil {
		return // the client has gone
	}
	for out.Flush() == nil {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if send(e) != nil {
				return
			}
		}
	}
}

// sendInitial sends all objects of a resource, and the bookmark that ends them.
func (s *Server) sendInitial(send func(event) error, resource schema.GroupVersionResource,
	kind schema.GroupVersionKind) error {
	count, at := s.objects(resource)
	for i := range count {
		if err := send(event{watch.Added, at(i)}); err != nil {
			return err
		}
	}
	end := metav1.ObjectMeta{ResourceVersion: version,
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	if !scheme.Scheme.Recognizes(kind) {
		return send(event{watch.Bookmark, metav1.PartialObjectMetadata{TypeMeta: typeOf(kind), ObjectMeta: end}})
	}
	o, err := scheme.Scheme.New(kind)
	if err != nil {
		return fmt.Errorf("bookmark of %s: %w", resource.Resource, err)
	}
	named, ok := o.(metav1.ObjectMetaAccessor)
	if !ok {
		return fmt.Errorf("bookmark of %s: %T has no metadata", resource.Resource, o)
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	m := named.GetObjectMeta()
	m.SetResourceVersion(end.ResourceVersion)
	m.SetAnnotations(end.Annotations)
	return send(event{watch.Bookmark, o})
}

// objects returns the number of the cluster's objects of a resource, and a function that returns one of them.
func (s *Server) objects(resource schema.GroupVersionResource) (int, func(i int) any) {
	nodes := len(s.cluster.Nodes)
	switch resource {
	case schema.GroupVersionResource{Version: "v1", Resource: "pods"}:
		return len(s.cluster.Pods), func(i int) any { return s.podAt(i) }
	case schema.GroupVersionResource{Version: "v1", Resource: "nodes"}:
		return nodes, func(i int) any { return s.nodeAt(i) }
	case v1alpha1.NodeLayoutResource():
		return nodes, s.layoutAt
	case v1alpha1.LayoutBaseResource():
		return nodes, s.baseAt
	case v1alpha2.SchemeGroupVersion.WithResource(topologies):
		return nodes, s.topologyAt
	}
	return 0, nil
}

// kindOf returns the kind of a resource, or false if it is not served.
func (s *Server) kindOf(resource schema.GroupVersionResource) (schema.GroupVersionKind, bool) {
	kind := strings.TrimSuffix(s.kinds[resource], "List")
	switch resource {
	case v1alpha1.NodeLayoutResource():
		kind = v1alpha1.Kind
	case v1alpha1.LayoutBaseResource():
		kind = v1alpha1.BaseKind
	case v1alpha2.SchemeGroupVersion.WithResource(topologies):
		kind = "NodeResourceTopology"
	}
	return resource.GroupVersion().WithKind(kind), kind != ""
}

func typeOf(kind schema.GroupVersionKind) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
}

// sender writes the header of a watch, and returns a function that sends events: as protobuf if the client reads it and
// the kind has it, and otherwise as JSON.
func sender(w http.ResponseWriter, r *http.Request, kind schema.GroupVersionKind) func(event) error {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobufs)
	if !ok || !scheme.Scheme.Recognizes(kind) || !strings.Contains(r.Header.Get("Accept"), protobufs) {
		w.Header().Set("Content-Type", texts)
		w.WriteHeader(http.StatusOK)
		out := json.NewEncoder(w)
		return func(e event) error {
			return out.Encode(map[string]any{"type": e.what, "object": e.object})
		}
	}
	w.Header().Set("Content-Type", protobufs+";stream=watch")
	w.WriteHeader(http.StatusOK)
	return binarySender(info.StreamSerializer.Framer.NewFrameWriter(w), info,
		scheme.Codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()))
}

// binarySender sends events as protobuf.
func binarySender(frames io.Writer, info runtime.SerializerInfo, objects runtime.Encoder) func(event) error {
	return func(e event) error {
		o, ok := e.object.(runtime.Object)
		if !ok {
			return errors.New("an event without an object of Kubernetes")
		}
		data, err := runtime.Encode(objects, o)
		if err != nil {
			return fmt.Errorf("encode %T: %w", o, err)
		}
		frame := &metav1.WatchEvent{Type: string(e.what), Object: runtime.RawExtension{Raw: data}}
		if err := info.StreamSerializer.Encode(frame, frames); err != nil {
			return fmt.Errorf("send event: %w", err)
		}
		return nil
	}
}
