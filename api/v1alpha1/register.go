package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group, version and kind of the object.
const (
	Group   = "tenon.sh"
	Version = "v1alpha1"
	Kind    = "NodeLayout"
)

// GroupVersion returns the group and version of the package.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// NodeLayoutResource returns the resource of the objects at the API server.
func NodeLayoutResource() schema.GroupVersionResource {
	return GroupVersion().WithResource("nodelayouts")
}

// AddToScheme registers the types of the package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &NodeLayout{}, &NodeLayoutList{}, &NodeAffinity{}, &NodeAffinityList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// Typed converts an object of a dynamic informer to a *NodeLayout, whose managedFields have the time of its last
// write only (see WrittenAt). It is a transform of informers, where an error would stop the informer for all nodes.
// So an object that does not decode becomes a NodeLayout with only name, UID, versions and Malformed. Its Core then
// returns the error. Only objects of other types are an error.
func Typed(obj any) (any, error) {
	switch o := obj.(type) {
	case *NodeLayout:
		o.ManagedFields = lastWrite(o.ManagedFields)
		return o, nil
	case *unstructured.Unstructured:
		out := &NodeLayout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
			text := err.Error()
			out = &NodeLayout{Malformed: text[:min(len(text), maxMalformed)]}
			out.Name, out.UID = o.GetName(), o.GetUID()
			out.ResourceVersion, out.Generation = o.GetResourceVersion(), o.GetGeneration()
		}
		out.ManagedFields = lastWrite(o.GetManagedFields())
		return out, nil
	}
	return nil, fmt.Errorf("decode layout: unexpected type %T", obj)
}

// WrittenAt returns when the layout was last written, apart from its status: that is a time of the API server's clock.
// It is the zero time if the layout's managedFields are missing.
func (l *NodeLayout) WrittenAt() (at time.Time) {
	for _, m := range l.ManagedFields {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// lastWrite returns the managedFields that WrittenAt needs: one entry without fields.
func lastWrite(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	at := (&NodeLayout{ObjectMeta: metav1.ObjectMeta{ManagedFields: fields}}).WrittenAt()
	if at.IsZero() {
		return nil
	}
	return []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: at}}}
}
