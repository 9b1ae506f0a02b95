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

	"github.com/tenon-numa/tenon/core/ledger"
)

// Publisher keeps the NodeResourceTopology of one node true. It writes only what differs from what the
// API server has. Where the server does not know the kind, it says so once and writes nothing; it asks
// again whenever it is told to read. It is for one goroutine.
type Publisher struct {
	client *Client
	labels []string
	log    logr.Logger

	published []byte // content, nil where nothing is known to be there
	missing   bool   // the server does not know the kind
}

// NewPublisher returns a publisher that has not asked the server anything yet. Labels are the keys of those that
// it is given to write; what others are on the object is left as it is.
func NewPublisher(cfg *rest.Config, labels []string, log logr.Logger) (*Publisher, error) {
	// Whoever calls Publish keeps a pace; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg)
	rc.QPS = -1
	c, err := NewClient(rc)
	if err != nil {
		return nil, err
	}
	return &Publisher{client: c, labels: labels, log: log}, nil
}

// Object names what is published, for logs and metrics.
func (p *Publisher) Object() string { return Kind }

// Resource is where the objects are.
func (p *Publisher) Resource() schema.GroupVersionResource {
	return v1alpha2.SchemeGroupVersion.WithResource(Resource)
}

// Publish writes the state of a node, as an object with the name, the labels and the owners of as. With
// read, it compares with what the server answers to these options, otherwise with what it wrote last. It
// returns the object as it was read or written, nil where it was neither.
func (p *Publisher) Publish(ctx context.Context, n *ledger.Node, as metav1.ObjectMeta, read *metav1.GetOptions) (is metav1.Object, wrote bool, err error) {
	if p.missing && read == nil {
		return nil, false, nil
	}
	o := FromCore(n)
	o.ObjectMeta = as
	now, err := p.content(o)
	if err != nil {
		return nil, false, err
	}
	// Where the kind is missing, to write tells whether it still is.
	if read != nil && !p.missing {
		if is, err = p.read(ctx, as.Name, *read); err != nil {
			return nil, false, err
		}
	}
	if bytes.Equal(now, p.published) {
		return is, false, nil
	}
	made, err := p.client.Apply(ctx, o)
	if apierrors.IsNotFound(err) {
		p.note(true)
		return nil, false, nil
	}
	if err != nil {
		p.published = nil // it may have been written nevertheless
		return nil, false, err
	}
	p.note(false)
	p.published = now
	p.log.V(1).Info("published", "kind", Kind, "zones", len(o.Zones), "bytes", len(now))
	return made, true, nil
}

// read returns the object that the server has, nil where there is none.
func (p *Publisher) read(ctx context.Context, name string, as metav1.GetOptions) (metav1.Object, error) {
	p.published = nil
	o, err := p.client.Get(ctx, name, as)
	if apierrors.IsNotFound(err) {
		return nil, nil // the object, or its kind: Apply tells which
	}
	if err != nil {
		return nil, fmt.Errorf("get NodeResourceTopology %s: %w", name, err)
	}
	p.published, err = p.content(o)
	return o, err
}

// note says once that the kind is missing, and once that it is there.
func (p *Publisher) note(missing bool) {
	switch {
	case missing && !p.missing:
		p.log.Info("the API server does not know NodeResourceTopology; publishing without it", "resource", v1alpha2.Resource(Resource).String())
	case !missing && p.missing:
		p.log.Info("the API server knows NodeResourceTopology now")
	}
	p.missing = missing
}

// content is the part of an object that the publisher decides, in a form that can be compared.
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
