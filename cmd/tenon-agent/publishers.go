package main

import (
	"github.com/tenon-numa/tenon/guests/numatopo"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/nrt"
)

// publisher returns the publisher of the objects that the agent writes in addition to the layout. The flags select
// these objects; publisher returns nil if they select none.
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
	return &agent.Both{Publisher: out, Second: p}, nil
}
