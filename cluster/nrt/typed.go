package nrt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// Resources returns the resources under which the API server may serve the objects, the preferred one first. [Typed]
// converts the objects of both.
func Resources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		v1alpha2.SchemeGroupVersion.WithResource(nrt.Resource),
		v1alpha1.SchemeGroupVersion.WithResource(nrt.Resource),
	}
}

// annotationMalformed is where Typed stores the error of an object that does not decode, for Read.
const annotationMalformed = "tenon.sh/malformed"

// annotationWhole marks, for Read, an object that only Tenon's agent wrote; see Reading.Whole. Typed sets it.
const annotationWhole = "tenon.sh/whole"

// annotationLeftOut marks an object whose data TypedOthers left out.
const annotationLeftOut = "tenon.sh/left-out"

// keptAnnotations are the annotations that Read uses. Others may be large: a koordlet lists every CPU in one.
var keptAnnotations = []string{podfingerprint.Annotation, annotationCPUManager}

// Typed converts an object of a dynamic informer, of version v1alpha2 or v1alpha1, to a typed object of v1alpha2. The
// result lacks managedFields and the annotations that [Read] does not use. Typed has the form of an informer's
// transform, where an error would stop the informer for all nodes. So an object that does not decode becomes one with
// only metadata, for which Read returns the error. Typed returns an error only for a value of another type.
//
// It refuses quantities with large exponents before they are decoded: decoding "1e-1000000000" exhausts time and
// memory. Typed clients have no such protection.
func Typed(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1alpha2.NodeResourceTopology:
		return trim(o), nil
	case *v1alpha1.NodeResourceTopology:
		return trim(Upgrade(o)), nil
	case *unstructured.Unstructured:
		out, err := decode(o)
		if err != nil {
			out = bare(o)
			out.Annotations = map[string]string{annotationMalformed: clipTo(maxMalformed, err.Error())}
			return out, nil
		}
		return trim(out), nil
	}
	return nil, fmt.Errorf("decode NodeResourceTopology: unexpected type %T", obj)
}

// TypedOthers is Typed for a reader of the nodes' layouts. It leaves out the data of an object that only Tenon's agent
// wrote, because that agent also wrote the node's layout. [LeftOut] recognizes such an object, and [Get] returns it as
// a whole.
func TypedOthers(obj any) (any, error) {
	in, ok := obj.(*unstructured.Unstructured)
	if !ok || !onlyAgentWrote(in.GetManagedFields()) {
		return Typed(obj)
	}
	out := bare(in)
	out.Annotations = map[string]string{annotationLeftOut: "true"}
	return out, nil
}

// bare returns an object with only the metadata that a reader needs of any object.
func bare(in *unstructured.Unstructured) *v1alpha2.NodeResourceTopology {
	out := &v1alpha2.NodeResourceTopology{}
	out.Name, out.UID = in.GetName(), in.GetUID()
	out.ResourceVersion, out.Generation = in.GetResourceVersion(), in.GetGeneration()
	return out
}

// LeftOut reports whether TypedOthers left out the data of an object.
func LeftOut(o *v1alpha2.NodeResourceTopology) bool { return o.Annotations[annotationLeftOut] != "" }

func decode(o *unstructured.Unstructured) (*v1alpha2.NodeResourceTopology, error) {
	if err := checkQuantities(o.Object["zones"]); err != nil {
		return nil, err
	}
	out := &v1alpha2.NodeResourceTopology{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
}

// trim drops unused fields in place. The object was decoded for this informer only.
func trim(o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	var annotations map[string]string
	if onlyAgentWrote(o.ManagedFields) {
		annotations = map[string]string{annotationWhole: "true"}
	}
	if o.Labels[labelManagedBy] == koordinator {
		annotations = map[string]string{annotationHeld: condense(o)}
	}
	o.ManagedFields = nil
	for _, name := range keptAnnotations {
		if value, ok := o.Annotations[name]; ok {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[name] = value
		}
	}
	o.Annotations = annotations
	return o
}

// onlyAgentWrote reports whether nrt.Client.Apply wrote all fields of the object that has these managedFields. If an
// exporter updates the object, too, managedFields also has the exporter's name.
func onlyAgentWrote(fields []metav1.ManagedFieldsEntry) bool {
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != client.FieldManager
	})
}

// Upgrade converts an object of v1alpha1 to v1alpha2. The old version has the same zones and no attributes.
func Upgrade(in *v1alpha1.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	out := &v1alpha2.NodeResourceTopology{
		TypeMeta:         metav1.TypeMeta{APIVersion: v1alpha2.SchemeGroupVersion.String(), Kind: nrt.Kind},
		ObjectMeta:       *in.ObjectMeta.DeepCopy(),
		TopologyPolicies: in.TopologyPolicies,
	}
	for _, z := range in.Zones {
		to := v1alpha2.Zone{Name: z.Name, Type: z.Type, Parent: z.Parent}
		for _, c := range z.Costs {
			to.Costs = append(to.Costs, v1alpha2.CostInfo(c))
		}
		for _, a := range z.Attributes {
			to.Attributes = append(to.Attributes, v1alpha2.AttributeInfo(a))
		}
		for _, r := range z.Resources {
			to.Resources = append(to.Resources, v1alpha2.ResourceInfo(r))
		}
		out.Zones = append(out.Zones, to)
	}
	return out
}

// checkQuantities refuses quantities that would take too long to decode. It leaves objects of another form to the
// decoder.
func checkQuantities(zones any) error {
	for _, z := range mappings(zones) {
		for _, r := range mappings(z["resources"]) {
			for _, field := range []string{"capacity", "allocatable", "available"} {
				if text, ok := r[field].(string); ok && !decodable(text) {
					return fmt.Errorf("zone %q: resource %q: %s %q is no amount",
						clip(fmt.Sprint(z["name"])), clip(fmt.Sprint(r["name"])), field, clip(text))
				}
			}
		}
	}
	return nil
}

func mappings(list any) (out []map[string]any) {
	items, _ := list.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// decodable reports whether a quantity is short, and its exponent has at most two digits.
func decodable(text string) bool {
	const longest = 40
	if len(text) > longest {
		return false
	}
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	return len(strings.TrimLeft(exponent, "+-0")) <= 2
}
