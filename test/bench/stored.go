package main

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"
)

// wire has the sizes of one object in its encodings, in bytes.
type wire struct {
	apply   int // what the agent sends
	stored  int // what etcd stores: JSON with managedFields
	managed int // bytes of managedFields in stored
	event   int // what every watcher receives
	meta    int // what a watcher of metadata receives
}

func (w wire) plus(o wire) wire {
	return wire{w.apply + o.apply, w.stored + o.stored, w.managed + o.managed, w.event + o.event, w.meta + o.meta}
}

func (w wire) dividedBy(n int) wire {
	return wire{w.apply / n, w.stored / n, w.managed / n, w.event / n, w.meta / n}
}

// definition applies objects of one custom resource as an API server does, without a server.
type definition struct{ manager *managedfields.FieldManager }

// define reads a CustomResourceDefinition, and uses its stored version.
func define(crd []byte) (*definition, error) {
	var d struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name    string
				Storage bool
				Schema  struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(crd, &d); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	for _, v := range d.Spec.Versions {
		if !v.Storage {
			continue
		}
		kind := schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
		types, err := typesOf(managedfields.NewTypeConverter, kind, v.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("types of %s: %w", kind.Kind, err)
		}
		m, err := managedfields.NewDefaultCRDFieldManager(types, noConversion{}, runtime.NewScheme(),
			unstructuredscheme.NewUnstructuredCreator(),
			kind, kind.GroupVersion(), "", nil)
		return &definition{m}, err
	}
	return nil, fmt.Errorf("definition of %s has no stored version", d.Spec.Names.Kind)
}

// typesOf returns make's converter for one kind, whose OpenAPI schema is text. It adds a schema for the metadata that
// agents write, which a CustomResourceDefinition lacks. S is the Go type of schemas that make accepts; the compiler
// infers it, so this file does not import its package.
func typesOf[S any](make func(map[string]*S, bool) (managedfields.TypeConverter, error), kind schema.GroupVersionKind,
	text map[string]any) (managedfields.TypeConverter, error) {
	text["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": kind.Group, "version": kind.Version,
		"kind": kind.Kind}}
	word := map[string]any{"type": "string"}
	owner := map[string]any{"type": "object", "x-kubernetes-map-type": "atomic",
		"properties": map[string]any{"apiVersion": word, "kind": word, "name": word, "uid": word}}
	text["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object",
		"properties": map[string]any{"name": word,
			"ownerReferences": map[string]any{"type": "array", "items": owner, "x-kubernetes-list-type": "map",
				"x-kubernetes-list-map-keys": []any{"uid"}}}}
	data, err := json.Marshal(map[string]any{kind.Kind: text})
	if err != nil {
		return nil, err
	}
	var all map[string]*S
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	return make(all, false)
}

// apply returns the object that an API server has after an agent created it by server-side apply, with managedFields.
func (d *definition) apply(o any) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": applied.GetAPIVersion(), "kind": applied.GetKind(),
		"metadata": map[string]any{"name": applied.GetName()}}}
	made, err := d.manager.Apply(live, applied, "tenon-agent", true)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", applied.GetKind(), err)
	}
	u, ok := made.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("apply %s: got a %T", applied.GetKind(), made)
	}
	u.SetUID("d2b1c0af-9e8d-4c7b-a6f5-e4d3c2b1a098")
	u.SetGeneration(4711)
	u.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 11, 21, 5, 30, 0, 0, time.UTC)))
	return u, nil
}

// measure returns the sizes of an object in all encodings, and the object as an API server has it.
func (d *definition) measure(o any) (w wire, u *unstructured.Unstructured, err error) {
	sent, err := json.Marshal(o)
	if err != nil {
		return w, nil, err
	}
	if u, err = d.apply(o); err != nil {
		return w, nil, err
	}
	managed, err := json.Marshal(u.GetManagedFields())
	if err != nil {
		return w, nil, err
	}
	stored, err := json.Marshal(u)
	if err != nil {
		return w, nil, err
	}
	u.SetResourceVersion("123456789")
	event, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": u})
	if err != nil {
		return w, nil, err
	}
	var p metav1.PartialObjectMetadata
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		return w, nil, err
	}
	return wire{apply: len(sent), stored: len(stored), managed: len(managed), event: len(event), meta: p.Size()}, u, nil
}

// noConversion converts nothing: the definition has one version.
type noConversion struct{}

func (noConversion) Convert(in, out, context any) error {
	return fmt.Errorf("convert %T to %T: there is one version only", in, out)
}

func (noConversion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (noConversion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
