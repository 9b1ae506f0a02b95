package nrt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/core/state"
)

// Publisher writes the NodeResourceTopology of one node if it differs from the one at the API server. If the API
// server does not serve the kind, Publisher logs that once and writes nothing; it tries again whenever Publish gets
// read options. It is for one goroutine.
type Publisher struct {
	client *nrt.Client
	labels []string
	log    logr.Logger

	published []byte // content at the API server; nil if it is unknown, or there is no object
	missing   bool   // the API server does not serve the kind
}

// NewPublisher returns a publisher; it sends no request itself. labels are the keys of the labels that the publisher
// compares and writes. It leaves other labels of the object as they are.
func NewPublisher(cfg *rest.Config, labels []string, log logr.Logger) (*Publisher, error) {
	// The caller of Publish limits its pace; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg)
	rc.QPS = -1
	c, err := nrt.NewClient(rc)
	if err != nil {
		return nil, err
	}
	return &Publisher{client: c, labels: labels, log: log}, nil
}

// Object returns the name of the published kind, for logs and metrics.
func (p *Publisher) Object() string { return nrt.Kind }

// Resource returns the resource of the objects.
func (p *Publisher) Resource() schema.GroupVersionResource {
	return v1alpha2.SchemeGroupVersion.WithResource(nrt.Resource)
}

// Publish writes the object of a node, with the name, labels and owners of meta, if it differs from the published
// one. If read is not nil, Publish first reads the published object with these options. Otherwise it compares with
// the object that it wrote last. It returns the object that it wrote, else the one that it read, else nil. wrote is
// false without an error if nothing differed or the API server does not serve the kind.
func (p *Publisher) Publish(ctx context.Context, n *state.Node, meta metav1.ObjectMeta, read *metav1.GetOptions) (
	object metav1.Object, wrote bool, err error) {
	if p.missing && read == nil {
		return nil, false, nil
	}
	o := FromCore(n)
	o.ObjectMeta = meta
	now, err := p.content(o)
	if err != nil {
		return nil, false, err
	}
	// If the kind was missing, the write below finds out whether it still is.
	if read != nil && !p.missing {
		if object, err = p.read(ctx, meta.Name, *read); err != nil {
			return nil, false, err
		}
	}
	if bytes.Equal(now, p.published) {
		return object, false, nil
	}
	applied, err := p.client.Apply(ctx, o)
	if apierrors.IsNotFound(err) {
		p.setMissing(true)
		return nil, false, nil
	}
	if err != nil {
		p.published = nil // the API server may have written it nevertheless
		return nil, false, err
	}
	p.setMissing(false)
	p.published = now
	p.log.V(1).Info("published", "kind", nrt.Kind, "zones", len(o.Zones), "bytes", len(now))
	return applied, true, nil
}

// read gets the object from the API server with the given options, and records its content. It returns nil without an
// error if there is none.
func (p *Publisher) read(ctx context.Context, name string, opts metav1.GetOptions) (metav1.Object, error) {
	p.published = nil
	o, err := p.client.Get(ctx, name, opts)
	if apierrors.IsNotFound(err) {
		return nil, nil // the object is missing, or its kind: Apply finds out which
	}
	if err != nil {
		return nil, fmt.Errorf("get NodeResourceTopology %s: %w", name, err)
	}
	p.published, err = p.content(o)
	return o, err
}

// setMissing records whether the API server serves the kind, and logs when that changes.
func (p *Publisher) setMissing(missing bool) {
	switch {
	case missing && !p.missing:
		p.log.Info("the API server does not know NodeResourceTopology; not publishing it",
			"resource", v1alpha2.Resource(nrt.Resource).String())
	case !missing && p.missing:
		p.log.Info("the API server knows NodeResourceTopology now")
	}
	p.missing = missing
}

// content returns the publisher's part of an object in a form that can be compared.
func (p *Publisher) content(o *v1alpha2.NodeResourceTopology) ([]byte, error) {
	labels := maps.Clone(o.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !slices.Contains(p.labels, key) })
	data, err := json.Marshal(v1alpha2.NodeResourceTopology{
		ObjectMeta:       metav1.ObjectMeta{Labels: labels, OwnerReferences: o.OwnerReferences},
		TopologyPolicies: o.TopologyPolicies, Zones: o.Zones, Attributes: o.Attributes,
	})
	if err != nil {
		return nil, fmt.Errorf("encode NodeResourceTopology %s: %w", o.Name, err)
	}
	return data, nil
}
