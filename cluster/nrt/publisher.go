package nrt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Publisher keeps the NodeResourceTopology of one node true. It writes only what differs from what the
// API server has. Where the server does not know the kind, it says so once and writes nothing; it asks
// again whenever it is told to read. It is for one goroutine.
type Publisher struct {
	client *Client
	log    logr.Logger

	published []byte // content, nil where nothing is known to be there
	missing   bool   // the server does not know the kind
}

// NewPublisher returns a publisher that has not asked the server anything yet.
func NewPublisher(cfg *rest.Config, log logr.Logger) (*Publisher, error) {
	// Whoever calls Publish keeps a pace; a second limit in the client would only add delay.
	rc := rest.CopyConfig(cfg)
	rc.QPS = -1
	c, err := NewClient(rc)
	if err != nil {
		return nil, err
	}
	return &Publisher{client: c, log: log}, nil
}

// Object names what is published, for logs and metrics.
func (p *Publisher) Object() string { return Kind }

// Publish writes the state of a node, as an object that the Node with this UID owns. With read, it
// compares with what the server has, otherwise with what it wrote last.
func (p *Publisher) Publish(ctx context.Context, n *ledger.Node, owner types.UID, read bool) (wrote bool, err error) {
	if p.missing && !read {
		return false, nil
	}
	o := FromCore(n)
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: owner}}
	now, err := content(o)
	if err != nil {
		return false, err
	}
	if read {
		if err := p.read(ctx, n.Name); err != nil {
			return false, err
		}
	}
	if bytes.Equal(now, p.published) {
		return false, nil
	}
	err = p.client.Apply(ctx, o)
	if apierrors.IsNotFound(err) {
		p.note(true)
		return false, nil
	}
	if err != nil {
		p.published = nil // it may have been written nevertheless
		return false, err
	}
	p.note(false)
	p.published = now
	p.log.V(1).Info("published", "kind", Kind, "zones", len(o.Zones), "bytes", len(now))
	return true, nil
}

func (p *Publisher) read(ctx context.Context, name string) error {
	p.published = nil
	o, err := p.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the object, or its kind: Apply tells which
	}
	if err != nil {
		return fmt.Errorf("get NodeResourceTopology %s: %w", name, err)
	}
	p.published, err = content(o)
	return err
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
func content(o *v1alpha2.NodeResourceTopology) ([]byte, error) {
	data, err := json.Marshal(v1alpha2.NodeResourceTopology{
		ObjectMeta:       metav1.ObjectMeta{OwnerReferences: o.OwnerReferences},
		TopologyPolicies: o.TopologyPolicies, Zones: o.Zones, Attributes: o.Attributes,
	})
	if err != nil {
		return nil, fmt.Errorf("encode NodeResourceTopology %s: %w", o.Name, err)
	}
	return data, nil
}
