package main

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/nrt"
	"github.com/tenon-numa/tenon/node/numatopo"
)

// publisher returns the publisher of what the flags ask for beside the layout, nil for nothing.
func (o *outlets) publisher(cfg *agent.Config) (agent.Publisher, error) {
	var out agent.Publisher
	if o.zones {
		p, err := nrt.NewPublisher(cfg.REST, cfg.Labels, cfg.Logger)
		if err != nil {
			return nil, err
		}
		out = p
	}
	if !o.numatopology {
		return out, nil
	}
	p, err := numatopo.NewPublisher(cfg.REST, o.gpus, cfg.Logger)
	switch {
	case err != nil:
		return nil, err
	case out == nil:
		return p, nil
	}
	return &two{Publisher: out, second: p}, nil
}

// two publishes a second object after the first. The agent watches the first one only: a change of the second by
// others is found when the objects are read again.
type two struct {
	agent.Publisher
	second agent.Publisher
}

// Publish publishes both, the second one also if the first fails.
func (t *two) Publish(ctx context.Context, n *ledger.Node, meta metav1.ObjectMeta, read *metav1.GetOptions) (
	object metav1.Object, wrote bool, err error) {
	object, wrote, err = t.Publisher.Publish(ctx, n, meta, read)
	_, also, second := t.second.Publish(ctx, n, meta, read)
	return object, wrote || also, errors.Join(err, second)
}
