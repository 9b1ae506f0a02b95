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

	BaseKind = "LayoutBase"
)

// GroupVersion returns the group and version of the package.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// NodeLayoutResource returns the resource of the objects at the API server.
func NodeLayoutResource() schema.GroupVersionResource {
	return GroupVersion().WithResource("nodelayouts")
}

// LayoutBaseResource returns the resource of the bases.
func LayoutBaseResource() schema.GroupVersionResource {
	return GroupVersion().WithResource("layoutbases")
}

// AddToScheme registers the types of the package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &NodeLayout{}, &NodeLayoutList{}, &LayoutBase{}, &LayoutBaseList{},
		&NodeAffinity{}, &NodeAffinityList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// Typed converts an object of a dynamic informer to a *NodeLayout. Of managedFields, only the time of the last write
// stays (see WrittenAt). Typed is a transform of informers, where an error would stop the informer for all nodes. So
// an object that does not decode becomes a NodeLayout with only name, UID, versions and Malformed. Its Core then
// returns the error. Only a value of another Go type is an error.
func Typed(obj any) (any, error) {
	switch o := obj.(type) {
	case *NodeLayout:
		o.ManagedFields = lastWrite(o.ManagedFields)
		return o, nil
	case *unstructured.Unstructured:
		out := &NodeLayout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
			out = &NodeLayout{Malformed: undecoded(err)}
			out.Name, out.UID = o.GetName(), o.GetUID()
			out.ResourceVersion, out.Generation = o.GetResourceVersion(), o.GetGeneration()
		}
		out.ManagedFields = lastWrite(o.GetManagedFields())
		return out, nil
	}
	return nil, fmt.Errorf("decode layout: unexpected type %T", obj)
}

// undecoded returns the text of a decoding error for Malformed, at most maxMalformed bytes.
func undecoded(err error) string {
	text := "object does not decode: " + err.Error()
	return text[:min(len(text), maxMalformed)]
}

// WrittenAt returns when the layout was last written, by the API server's clock. Writes of its status do not count.
// It returns the zero time if managedFields are missing.
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

// TypedBase converts an object of a dynamic informer to a *Base, as Typed does for layouts.
func TypedBase(obj any) (any, error) {
	switch o := obj.(type) {
	case *Base:
		return o, nil
	case *LayoutBase:
		return NewBase(o), nil
	case *unstructured.Unstructured:
		out := &LayoutBase{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
			out = &LayoutBase{Malformed: undecoded(err)}
			out.Name, out.UID = o.GetName(), o.GetUID()
			out.ResourceVersion = o.GetResourceVersion()
			out.Sequence, _, _ = unstructured.NestedInt64(o.Object, "sequence")
			out.Agent.ID, _, _ = unstructured.NestedString(o.Object, "agent", "id")
		}
		return NewBase(out), nil
	}
	return nil, fmt.Errorf("decode base of a layout: unexpected type %T", obj)
}
