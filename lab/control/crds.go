package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	strictyaml "sigs.k8s.io/yaml"
)

// Define creates definitions of kinds while the plane runs, and waits until it serves them.
func (p *Plane) Define(ctx context.Context, manifests ...[]byte) error {
	return p.applyCRDs(ctx, manifests)
}

// applyCRDs creates the definitions and waits until the API server serves them. It leaves a definition that exists
// unchanged.
func (p *Plane) applyCRDs(ctx context.Context, manifests [][]byte) error {
	client, err := clientset.NewForConfig(p.Admin)
	if err != nil {
		return fmt.Errorf("make client for CRDs: %w", err)
	}
	for _, manifest := range manifests {
		docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("read CRD: %w", err)
			}
			if err := p.applyCRD(ctx, client, doc); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Plane) applyCRD(ctx context.Context, client clientset.Interface, doc []byte) error {
	crd := &apiextensions.CustomResourceDefinition{}
	if err := strictyaml.UnmarshalStrict(doc, crd); err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	if crd.Kind == "" && crd.Name == "" {
		return nil // a document of comments only
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CRD %s: %w", crd.Name, err)
	}
	only := fields.OneTermEqualSelector("metadata.name", crd.Name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return crds.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return crds.Watch(ctx, o)
		},
	}
	if _, err := watchtools.UntilWithSync(ctx, lw, crd, nil, established); err != nil {
		return fmt.Errorf("wait until CRD %s is established: %w", crd.Name, err)
	}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		if err := p.waitFor(ctx, "/apis/"+crd.Spec.Group+"/"+v.Name+"/"+crd.Spec.Names.Plural); err != nil {
			return fmt.Errorf("wait until %s of %s are served: %w", crd.Spec.Names.Plural, v.Name, err)
		}
	}
	return nil
}

// established reports whether a definition is in force. It returns an error if the API server rejects the
// definition's names.
func established(e watch.Event) (bool, error) {
	crd, ok := e.Object.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return false, nil
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensions.NamesAccepted && c.Status == apiextensions.ConditionFalse {
			return false, fmt.Errorf("names of CRD %s: %s", crd.Name, c.Message)
		}
		if c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue {
			return true, nil
		}
	}
	return false, nil
}
