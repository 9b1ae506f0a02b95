package nri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/go-logr/logr"
)

// The plugin's identity at the runtime. Runtimes call plugins in ascending order of their indexes. If a later plugin
// changes the CPUs that this one has set, the runtime reports a conflict.
const (
	pluginName  = "tenon-agent"
	pluginIndex = "90"
)

// The pauses between attempts to connect; they double from the first to the longest.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Run connects to the runtime's socket, and again when the connection ends, until ctx ends. It calls connected with
// the error of each failed attempt or ended connection, and with nil when all containers are pinned. connected may be
// nil.
func (p *Plugin) Run(ctx context.Context, socket string, connected func(error)) {
	if connected == nil {
		connected = func(error) {}
	}
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := p.serve(ctx, socket, connected)
		if ctx.Err() != nil {
			return
		}
		connected(err)
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// serve handles one connection until it ends, and returns why; nil if ctx has ended.
func (p *Plugin) serve(ctx context.Context, socket string, connected func(error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("container runtime at %s: %w", socket, err)
		}
	}()
	ended := make(chan struct{})
	s, err := stub.New(p, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(socket),
		stub.WithLogger(quiet{p.cfg.Logger}), stub.WithOnClose(func() { close(ended) }))
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer s.Stop()
	p.mu.Lock()
	p.send = s.UpdateContainers
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.send = nil
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return errors.New("the connection has ended")
		case <-p.pinned:
			connected(nil)
		}
	}
}

// Configure is called when the plugin has connected. It subscribes to all events for which Plugin has a method.
func (p *Plugin) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	p.cfg.Logger.Info("connected to the container runtime", "runtime", runtime, "version", version)
	return 0, nil // no mask: all events with a method
}

// quiet logs the stub's lines at a verbosity that is off by default.
type quiet struct{ logr.Logger }

func (q quiet) Debugf(_ context.Context, format string, args ...any) {
	q.V(4).Info(fmt.Sprintf(format, args...))
}
func (q quiet) Infof(_ context.Context, format string, args ...any) {
	q.V(3).Info(fmt.Sprintf(format, args...))
}
func (q quiet) Warnf(_ context.Context, format string, args ...any) {
	q.V(1).Info(fmt.Sprintf(format, args...))
}
func (q quiet) Errorf(_ context.Context, format string, args ...any) {
	q.V(1).Info(fmt.Sprintf(format, args...))
}
