package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/guests/affinity/mover"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/authfilter"
	"github.com/tenon-numa/tenon/node/metrics"
)

// outlets are the flags for what the agent publishes and serves in addition to its layout.
type outlets struct {
	zones, numatopology       bool
	gpus                      string
	address, cert, key, debug string
	local                     string
	health                    string
	authorize                 bool
	pods, containers          int
	cgroups, kubeletRoot      string
	// affinity has the metrics of the traffic between pods; they are empty if --affinity is off.
	affinity mover.Metrics
}

func (o *outlets) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.zones, "node-resource-topology", true, "publish NodeResourceTopology too, where the API server knows it")
	fs.BoolVar(&o.numatopology, "numatopology", false,
		"publish Volcano's Numatopology too, where the API server knows it")
	fs.StringVar(&o.gpus, "numatopology-gpus", "nvidia.com/gpu",
		"resource whose devices are in the Numatopology; none when empty")
	fs.StringVar(&o.address, "metrics-address", ":9201", "address to serve /metrics on; none when empty")
	fs.StringVar(&o.health, "health-address", ":9202",
		"address to serve /livez, /readyz and /healthz on, in plain HTTP; none when empty")
	fs.StringVar(&o.cert, "metrics-tls-cert-file", "",
		"certificate for metrics; when empty, a self-signed one, or plain HTTP with --metrics-authorization=false")
	fs.StringVar(&o.key, "metrics-tls-private-key-file", "", "key of the certificate for metrics")
	fs.StringVar(&o.local, "metrics-local-address", "",
		"loopback address to serve /metrics on to everybody, for kubectl port-forward to the agent's pod; none when empty")
	fs.BoolVar(&o.authorize, "metrics-authorization", true,
		"serve metrics only to users that the API server allows to get /metrics")
	fs.IntVar(&o.pods, "metrics-pods", 256, "largest number of pods with metrics of their own; 0 for none")
	fs.IntVar(&o.containers, "metrics-containers", 256,
		"largest number of containers with metrics of their memory; 0 for none")
	fs.StringVar(&o.cgroups, "cgroup-root", "/sys/fs/cgroup",
		"where the host's cgroup v2 is mounted; no metrics of containers when empty")
	fs.StringVar(&o.kubeletRoot, "kubelet-cgroup-root", "/", "cgroupRoot of the kubelet's configuration")
	fs.StringVar(&o.debug, "debug-address", "", "loopback address to serve Go's profiles on; none when empty")
}

// open adds the outlets to cfg. When it returns, the servers listen; they serve until ctx ends.
func (o *outlets) open(ctx context.Context, cfg *agent.Config) error {
	p, err := o.publisher(cfg)
	if err != nil {
		return err
	}
	cfg.Publisher = p
	if o.debug != "" {
		s, err := metrics.ListenProfiles(o.debug)
		if err != nil {
			return err
		}
		go serve(ctx, s, cfg)
	}
	if err := o.openHealth(ctx, cfg); err != nil {
		return err
	}
	if o.address == "" && o.local == "" {
		return nil
	}
	return o.openMetrics(ctx, cfg)
}

// openMetrics serves metrics at o.address and at o.local, if they are not empty.
func (o *outlets) openMetrics(ctx context.Context, cfg *agent.Config) error {
	memory, err := o.memory(cfg)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m, err := metrics.New(metrics.Options{Node: cfg.NodeName, Sys: os.DirFS("/sys"), Proc: os.DirFS("/proc"),
		Pods: o.pods, Memory: memory, Containers: o.containers, More: []prometheus.Collector{&o.affinity}})
	if err != nil {
		return err
	}
	if o.address != "" {
		filter, err := o.authFilter(cfg)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		listen := func(h http.Handler) (*metrics.Server, error) { return o.listen(cfg.NodeName, h) }
		if err := open(ctx, cfg, m, filter, listen); err != nil {
			return err
		}
	}
	if o.local != "" {
		listen := func(h http.Handler) (*metrics.Server, error) { return metrics.ListenLocal(o.local, h) }
		if err := open(ctx, cfg, m, nil, listen); err != nil {
			return err
		}
	}
	cfg.Recorder = m
	return nil
}

// open serves metrics at the address that listen opens. filter checks the requests; if it is nil, none is refused.
func open(ctx context.Context, cfg *agent.Config, m *metrics.Metrics, filter func(http.Handler) http.Handler,
	listen func(http.Handler) (*metrics.Server, error)) error {
	h, err := m.Handler(filter)
	if err != nil {
		return err
	}
	s, err := listen(h)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	go serve(ctx, s, cfg)
	return nil
}

// openHealth serves probes.
func (o *outlets) openHealth(ctx context.Context, cfg *agent.Config) error {
	if o.health == "" {
		return nil
	}
	h := &agent.Health{}
	now := func(check func(time.Time) error) func() error { return func() error { return check(time.Now()) } }
	s, err := metrics.ListenHealth(o.health, metrics.Health(now(h.Alive), now(h.Ready)))
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	cfg.Health = h
	go serve(ctx, s, cfg)
	return nil
}

// listen opens the address of the metrics. If clients send tokens, it uses TLS, with a self-signed certificate if the
// flags name none: over plain HTTP, others on the network could read the tokens.
func (o *outlets) listen(node string, h http.Handler) (*metrics.Server, error) {
	if o.authorize && o.cert == "" && o.key == "" {
		return metrics.ListenSelfSigned(o.address, node, h)
	}
	return metrics.Listen(o.address, o.cert, o.key, h)
}

// authFilter returns the filter of requests for metrics; nil if all may pass.
func (o *outlets) authFilter(cfg *agent.Config) (func(http.Handler) http.Handler, error) {
	if !o.authorize {
		return nil, nil
	}
	if (o.cert == "") != (o.key == "") {
		return nil, errors.New("--metrics-tls-cert-file needs --metrics-tls-private-key-file, and the other way round")
	}
	f, err := authfilter.New(cfg.REST, cfg.Logger)
	if err != nil {
		return nil, err
	}
	return f.Wrap, nil
}

// serve serves until ctx ends, and logs an error.
func serve(ctx context.Context, s *metrics.Server, cfg *agent.Config) {
	cfg.Logger.Info("serving", "address", s.Address())
	if err := s.Run(ctx); err != nil {
		cfg.Logger.Error(err, "no longer serving")
	}
}
