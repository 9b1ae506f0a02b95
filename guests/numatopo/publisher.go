package numatopo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/core/state"
)

const (
	kind    = "Numatopology"
	manager = "tenon-agent"
)

var resource = schema.GroupVersionResource{
	Group: "nodeinfo.volcano.sh", Version: "v1alpha1", Resource: "numatopologies"}

// Publisher writes the Numatopology of one node if it differs from the one at the API server. If the API server does
// not serve the kind, Publisher logs that once and writes nothing, until Publish is called with read options again.
// It must not be used by several goroutines at once.
type Publisher struct {
	client dynamic.NamespaceableResourceInterface
	gpus   string
	log    logr.Logger

	sent    []byte // the content that was written last; nil if it is not known to be at the API server
	stored  []byte // how the API server has stored it: a definition without gpuDetail drops that field
	missing bool   // the API server does not serve the kind
}

// NewPublisher returns a publisher that has sent no request yet. gpus is the resource whose devices are in gpuDetail;
// "" means no devices.
func NewPublisher(cfg *rest.Config, gpus string, log logr.Logger) (*Publisher, error) {
	// The caller of Publish limits its pace; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg)
	rc.QPS = -1
	c, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", kind, err)
	}
	return &Publisher{client: c.Resource(resource), gpus: gpus, log: log}, nil
}

// Object returns the name of the published kind, for logs and metrics.
func (p *Publisher) Object() string { return kind }

// Resource returns the resource of the objects.
func (p *Publisher) Resource() schema.GroupVersionResource { return resource }

// Publish writes the object of a node, with the name, labels and owners of meta, unless it is unchanged. If read is
// not nil, Publish first reads the object with these options and compares with that; otherwise it compares with what
// it wrote last. It returns the object that it read or wrote, or nil if it did neither; wrote is true if it wrote.
func (p *Publisher) Publish(ctx context.Context, n *state.Node, meta metav1.ObjectMeta, read *metav1.GetOptions) (
	object metav1.Object, wrote bool, err error) {
	if p.missing && read == nil {
		return nil, false, nil
	}
	encoded, err := json.Marshal(content{FromCore(n, p.gpus), meta.OwnerReferences})
	if err != nil {
		return nil, false, fmt.Errorf("encode %s %s: %w", kind, meta.Name, err)
	}
	if read != nil && !p.missing {
		if object, err = p.read(ctx, meta.Name, *read); err != nil {
			return nil, false, err
		}
	}
	if bytes.Equal(encoded, p.sent) {
		return object, false, nil
	}
	p.sent = nil // if the write fails, the API server may have stored it nevertheless
	written, err := p.write(ctx, FromCore(n, p.gpus), meta)
	if apierrors.IsNotFound(err) {
		p.setMissing(true)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	p.setMissing(false)
	p.sent, p.stored = encoded, storedContent(written)
	return written, true, nil
}

// content is the part of an object that the publisher sets.
type content struct {
	Spec   Spec
	Owners []metav1.OwnerReference
}

// storedContent returns the part of an object that the publisher sets, as the API server has it, in a form that can
// be compared.
func storedContent(o *unstructured.Unstructured) []byte {
	data, _ := json.Marshal([]any{o.Object["spec"], o.GetOwnerReferences()}) // decoded JSON can be encoded
	return data
}

// read returns the object at the API server, or nil if there is none. If it is not what was written last, read resets
// p.sent, so that Publish writes it again.
func (p *Publisher) read(ctx context.Context, name string, as metav1.GetOptions) (metav1.Object, error) {
	o, err := p.client.Get(ctx, name, as)
	if apierrors.IsNotFound(err) {
		p.sent = nil // the object is missing, or its kind: write finds out which
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	if !bytes.Equal(storedContent(o), p.stored) {
		p.sent = nil
	}
	return o, nil
}

// write replaces the specification and the owners, or creates the object if it is missing. It does not use
// server-side apply, which refuses fields that the definition does not have.
func (p *Publisher) write(ctx context.Context, s Spec, meta metav1.ObjectMeta) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/spec", "value": s},
		{"op": "add", "path": "/metadata/ownerReferences", "value": meta.OwnerReferences},
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", kind, meta.Name, err)
	}
	o, err := p.client.Patch(ctx, meta.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager})
	if err == nil || !apierrors.IsNotFound(err) {
		return o, wrap("patch", meta.Name, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", kind, meta.Name, err)
	}
	o = &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	o.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	o.SetName(meta.Name)
	o.SetLabels(meta.Labels)
	o.SetOwnerReferences(meta.OwnerReferences)
	o, err = p.client.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	return o, wrap("create", meta.Name, err)
}

func wrap(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", operation, kind, name, err)
}

// setMissing records whether the API server serves the kind, and logs when that changes.
func (p *Publisher) setMissing(missing bool) {
	switch {
	case missing && !p.missing:
		p.log.Info("the API server does not know Numatopology; not publishing it",
			"resource", resource.GroupResource().String())
	case !missing && p.missing:
		p.log.Info("the API server knows Numatopology now")
	}
	p.missing = missing
}
