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

// Resources returns the resources that the API server may serve the objects at, the one to prefer first.
// [Typed] understands the objects of both.
func Resources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		v1alpha2.SchemeGroupVersion.WithResource(nrt.Resource),
		v1alpha1.SchemeGroupVersion.WithResource(nrt.Resource),
	}
}

// annotationMalformed is how Typed tells Read of an object that does not decode.
const annotationMalformed = "tenon.sh/malformed"

// annotationWhole marks, from Typed to Read, an object that only Tenon wrote.
const annotationWhole = "tenon.sh/whole"

// kept are the annotations that Read looks at. Others may be large: a koordlet lists every CPU in one.
var kept = []string{podfingerprint.Annotation, annotationCPUManager}

// Typed turns what a dynamic informer got, of version v1alpha2 or v1alpha1, into a typed object of
// v1alpha2, without its managedFields and the annotations that [Read] does not look at. It has the form
// of an informer's transform, where an error would stop the informer for all nodes; so an object that
// does not decode becomes one that has only its metadata, and for which Read returns that error. What is
// no object at all is an error.
//
// It refuses quantities with large exponents before they are decoded: decoding "1e-1000000000" takes
// more time and memory than there is. Typed clients have no such protection.
func Typed(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1alpha2.NodeResourceTopology:
		return trim(o), nil
	case *v1alpha1.NodeResourceTopology:
		return trim(Upgrade(o)), nil
	case *unstructured.Unstructured:
		out, err := decode(o)
		if err != nil {
			out = &v1alpha2.NodeResourceTopology{}
			out.Name, out.UID = o.GetName(), o.GetUID()
			out.ResourceVersion, out.Generation = o.GetResourceVersion(), o.GetGeneration()
			out.Annotations = map[string]string{annotationMalformed: clipTo(maxMalformed, err.Error())}
			return out, nil
		}
		return trim(out), nil
	}
	return nil, fmt.Errorf("decode NodeResourceTopology: unexpected type %T", obj)
}

func decode(o *unstructured.Unstructured) (*v1alpha2.NodeResourceTopology, error) {
	if err := checkQuantities(o.Object["zones"]); err != nil {
		return nil, err
	}
	out := &v1alpha2.NodeResourceTopology{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
}

// trim drops what is not looked at. What it returns was decoded for this informer alone.
func trim(o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	var annotations map[string]string
	if ours(o) {
		annotations = map[string]string{annotationWhole: "true"}
	}
	if o.Labels[labelManagedBy] == koordinator {
		annotations = map[string]string{annotationHeld: condense(o)}
	}
	o.ManagedFields = nil
	for _, name := range kept {
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

// ours reports whether nrt.Client.Apply wrote all that there is of an object. An exporter that updates it,
// too, has a name of its own.
func ours(o *v1alpha2.NodeResourceTopology) bool {
	return len(o.ManagedFields) > 0 && !slices.ContainsFunc(o.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != client.FieldManager
	})
}

// Upgrade returns an object of v1alpha1, which has the same zones and no attributes, as one of v1alpha2.
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

// checkQuantities refuses quantities that cannot be decoded in good time. What has another form than
// zones with resources is left to the decoder.
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
