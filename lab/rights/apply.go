package rights

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	strictyaml "sigs.k8s.io/yaml"
)

// Apply writes the objects of manifests (one or more YAML documents each) in their order, like kubectl apply
// --server-side --force-conflicts by an administrator. The server must serve their kinds, and rejects unknown fields.
func Apply(ctx context.Context, administrator *rest.Config, manifests ...[]byte) error {
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		found, err := documents(m)
		if err != nil {
			return err
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil
	}
	known, err := discovery.NewDiscoveryClientForConfig(administrator)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(known)
	if err != nil {
		return fmt.Errorf("find the kinds that the API server knows: %w", err)
	}
	client, err := dynamic.NewForConfig(administrator)
	if err != nil {
		return fmt.Errorf("make client for manifests: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, o := range objects {
		kind := o.GroupVersionKind()
		m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, o.GetName(), err)
		}
		data, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", kind.Kind, o.GetName(), err)
		}
		_, err = client.Resource(m.Resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "tenon-lab", Force: new(true), FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, o.GetName(), err)
		}
	}
	return nil
}

// documents returns the objects of a manifest. It skips documents that have only comments.
func documents(manifest []byte) (out []*unstructured.Unstructured, err error) {
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		fields := map[string]any{}
		if err := strictyaml.UnmarshalStrict(doc, &fields); err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		if len(fields) == 0 {
			continue
		}
		o := &unstructured.Unstructured{Object: fields}
		if o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("read manifest: a document has no kind or no name: %.80q", doc)
		}
		out = append(out, o)
	}
}
