package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/metrics"
)

// outlets are the flags of what the agent shows beside its layout.
type outlets struct {
	zones                        bool
	address, cert, key, profiles string
	pods                         int
}

func (o *outlets) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.zones, "node-resource-topology", true, "publish NodeResourceTopology too, where the API server knows it")
	fs.StringVar(&o.address, "metrics-address", ":9201", "address to serve /metrics and /healthz on; none when empty")
	fs.StringVar(&o.cert, "metrics-cert-file", "", "certificate for metrics; plain HTTP when empty")
	fs.StringVar(&o.key, "metrics-key-file", "", "key of the certificate for metrics")
	fs.IntVar(&o.pods, "metrics-pods", 256, "most pods with metrics of their own; 0 for none")
	fs.StringVar(&o.profiles, "pprof-address", "", "loopback address to serve Go's profiles on; none when empty")
}

// open gives the agent its outlets. What listens is open when it returns, and serves until ctx ends.
func (o *outlets) open(ctx context.Context, cfg *agent.Config) error {
	if o.zones {
		p, err := nrt.NewPublisher(cfg.REST, cfg.Logger)
		if err != nil {
			return err
		}
		cfg.Publisher = p
	}
	if o.profiles != "" {
		s, err := metrics.ListenProfiles(o.profiles)
		if err != nil {
			return err
		}
		go serve(ctx, s, cfg)
	}
	if o.address == "" {
		return nil
	}
	m, err := metrics.New(metrics.Options{Node: cfg.NodeName, Sys: os.DirFS("/sys"), Pods: o.pods})
	if err != nil {
		return err
	}
	h, err := m.Handler()
	if err != nil {
		return err
	}
	s, err := metrics.Listen(o.address, o.cert, o.key, h)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	cfg.Witness = m
	go serve(ctx, s, cfg)
	return nil
}

func serve(ctx context.Context, s *metrics.Server, cfg *agent.Config) {
	cfg.Logger.Info("serving", "address", s.Address())
	if err := s.Run(ctx); err != nil {
		cfg.Logger.Error(err, "no longer serving")
	}
}
