package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/gate"
	"github.com/tenon-numa/tenon/node/metrics"
)

// outlets are the flags of what the agent shows beside its layout.
type outlets struct {
	zones                     bool
	address, cert, key, debug string
	authorize                 bool
	pods, containers          int
	cgroups, kubeletRoot      string
}

func (o *outlets) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.zones, "node-resource-topology", true, "publish NodeResourceTopology too, where the API server knows it")
	fs.StringVar(&o.address, "metrics-address", ":9201", "address to serve /metrics and /healthz on; none when empty")
	fs.StringVar(&o.cert, "metrics-tls-cert-file", "", "certificate for metrics; plain HTTP when empty")
	fs.StringVar(&o.key, "metrics-tls-private-key-file", "", "key of the certificate for metrics")
	fs.BoolVar(&o.authorize, "metrics-authorization", false, "serve metrics only to those whom the API server allows to get /metrics; needs TLS")
	fs.IntVar(&o.pods, "metrics-pods", 256, "most pods with metrics of their own; 0 for none")
	fs.IntVar(&o.containers, "metrics-containers", 256, "most containers with metrics of their memory; 0 for none")
	fs.StringVar(&o.cgroups, "cgroup-root", "/sys/fs/cgroup", "where the host's cgroup v2 is mounted; no metrics of containers when empty")
	fs.StringVar(&o.kubeletRoot, "kubelet-cgroup-root", "/", "cgroupRoot of the kubelet's configuration")
	fs.StringVar(&o.debug, "debug-address", "", "loopback address to serve Go's profiles on; none when empty")
}

// open gives the agent its outlets. What listens is open when it returns, and serves until ctx ends.
func (o *outlets) open(ctx context.Context, cfg *agent.Config) error {
	if o.zones {
		p, err := nrt.NewPublisher(cfg.REST, cfg.Labels, cfg.Logger)
		if err != nil {
			return err
		}
		cfg.Publisher = p
	}
	if o.debug != "" {
		s, err := metrics.ListenProfiles(o.debug)
		if err != nil {
			return err
		}
		go serve(ctx, s, cfg)
	}
	if o.address == "" {
		return nil
	}
	guard, err := o.guard(cfg)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	memory, err := o.memory(cfg)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m, err := metrics.New(metrics.Options{Node: cfg.NodeName, Sys: os.DirFS("/sys"), Pods: o.pods, Memory: memory, Containers: o.containers})
	if err != nil {
		return err
	}
	h, err := m.Handler(guard)
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

// guard returns what stands before the metrics, nil for nothing. A token over plain HTTP would be
// everybody's soon.
func (o *outlets) guard(cfg *agent.Config) (func(http.Handler) http.Handler, error) {
	if !o.authorize {
		return nil, nil
	}
	if o.cert == "" || o.key == "" {
		return nil, errors.New("--metrics-authorization needs --metrics-tls-cert-file and --metrics-tls-private-key-file: " +
			"without TLS the tokens of those who ask would be sent in the clear")
	}
	g, err := gate.New(cfg.REST, cfg.Logger)
	if err != nil {
		return nil, err
	}
	return g.Guard, nil
}

func serve(ctx context.Context, s *metrics.Server, cfg *agent.Config) {
	cfg.Logger.Info("serving", "address", s.Address())
	if err := s.Run(ctx); err != nil {
		cfg.Logger.Error(err, "no longer serving")
	}
}
