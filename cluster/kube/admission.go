package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Admission has the objects by which the API server's admission plugins change or refuse pods when they are created.
type Admission struct {
	// Classes are the runtime classes by name; nil if the identity may not list them, or if the API server does not
	// serve them.
	Classes map[string]*nodev1.RuntimeClass
	// Bounds has, by namespace, the limit ranges and resource quotas, each as kind and name, such as "limitrange
	// small"; nil if the identity may not list one of the two kinds. Seen are the namespaces that were read; nil: all.
	Bounds map[string][]string
	Seen   *Seen
}

// readAdmission reads runtime classes, and the names of limit ranges and quotas. A kind that the identity may not
// list is no error; see [Admission]. pods are the namespaces whose pods were read: limit ranges and quotas that may not
// be listed in all namespaces are read in these.
func (r *Reader) readAdmission(ctx context.Context, pods *Seen) (*Admission, error) {
	var classes nodev1.RuntimeClassList
	out := &Admission{}
	ok, err := r.listAll(ctx, schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"},
		"", &classes)
	if err != nil {
		return nil, err
	}
	if ok {
		out.Classes = map[string]*nodev1.RuntimeClass{}
		for i := range classes.Items {
			out.Classes[classes.Items[i].Name] = &classes.Items[i]
		}
	}
	bounds := map[string][]string{}
	for _, kind := range []string{"limitranges", "resourcequotas"} {
		ok, err := r.addBounds(ctx, kind, "", bounds)
		if err == nil && !ok && pods != nil && len(pods.Namespaces) > 0 {
			out.Seen, ok = pods, true
			for _, namespace := range pods.Namespaces {
				if ok, err = r.addBounds(ctx, kind, namespace, bounds); err != nil || !ok {
					break
				}
			}
		}
		if err != nil || !ok {
			return out, err
		}
	}
	out.Bounds = bounds
	return out, nil
}

// addBounds adds the names of the limit ranges or quotas in a namespace to bounds, or those in all namespaces for "".
// ok is false if the identity may not list them.
func (r *Reader) addBounds(ctx context.Context, kind, namespace string, bounds map[string][]string) (ok bool,
	err error) {
	var list struct {
		Items []v1.ResourceQuota `json:"items"` // only the metadata is used
	}
	ok, err = r.listAll(ctx, schema.GroupVersionResource{Version: "v1", Resource: kind}, namespace, &list)
	for i := range list.Items {
		x := &list.Items[i]
		bounds[x.Namespace] = append(bounds[x.Namespace], strings.TrimSuffix(kind, "s")+" "+x.Name)
	}
	return ok, err
}

// listAll lists all objects of a resource in one request, and decodes the JSON of the list into the last argument. The
// namespace "" means all. ok is false if the identity may not list them, or if the API server does not serve the
// resource.
func (r *Reader) listAll(ctx context.Context, resource schema.GroupVersionResource, namespace string, into any) (
	ok bool, err error) {
	gv := resource.GroupVersion()
	cfg := rest.CopyConfig(r.cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &gv
	if resource.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	server, err := rest.RESTClientFor(cfg)
	if err != nil {
		return false, fmt.Errorf("make client of %s: %w", gv, err)
	}
	data, err := server.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource.Resource).
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("decode %s: %w", resource.Resource, err)
	}
	return true, nil
}
