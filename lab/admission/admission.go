// Package admission runs the API server's own code that accepts or refuses pods, without a server: defaults, strategy
// and validation. Tests compare package cluster/manifest with it, which promises the same rules.
//
// Invariant: a pod is decoded, completed and validated by k8s.io/kubernetes alone, with the feature gates that the
// release turns on by default. It is for tests: only the admission plugins that [Create] receives run.
package admission

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/registry/core/pod"
)

// Plugin is an admission plugin that changes or validates pods.
type Plugin interface{ admission.Interface }

// Create treats the JSON text of a pod as the API server does in the namespace "default". It decodes the text
// strictly and sets the defaults. Then the plugins change and validate the pod, and the API server's own validation
// runs. Create returns the pod in the form in which the API server would store it, or the error of the first step
// that fails.
func Create(ctx context.Context, text []byte, plugins ...Plugin) (*v1.Pod, error) {
	strict := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	obj, _, err := strict.UniversalDecoder(core.SchemeGroupVersion).Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	p, ok := obj.(*core.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T is no pod", obj)
	}
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}
	ctx = genericrequest.WithRequestInfo(genericrequest.WithNamespace(ctx, p.Namespace), &genericrequest.RequestInfo{
		IsResourceRequest: true, APIVersion: "v1", Resource: "pods", Verb: "create"})
	if err := admit(ctx, p, plugins); err != nil {
		return nil, err
	}
	rest.FillObjectMetaSystemFields(p)
	if err := rest.BeforeCreate(pod.Strategy, ctx, p); err != nil {
		return nil, err
	}
	out := &v1.Pod{}
	if err := corev1.Convert_core_Pod_To_v1_Pod(p, out, nil); err != nil {
		return nil, fmt.Errorf("convert the pod: %w", err)
	}
	return out, nil
}

// admit lets the plugins change the pod, and after that lets them validate it. It returns the first plugin's error.
func admit(ctx context.Context, p *core.Pod, plugins []Plugin) error {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	a := admission.NewAttributesRecord(p, nil, kind, p.Namespace, p.Name, pods, "", admission.Create,
		&metav1.CreateOptions{}, true, nil)
	objects := admission.NewObjectInterfacesFromScheme(runtime.NewScheme())
	for _, x := range plugins {
		if m, ok := x.(admission.MutationInterface); ok {
			if err := m.Admit(ctx, a, objects); err != nil {
				return err
			}
		}
	}
	for _, x := range plugins {
		if v, ok := x.(admission.ValidationInterface); ok {
			if err := v.Validate(ctx, a, objects); err != nil {
				return err
			}
		}
	}
	return nil
}
