package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/topo"
)

// stuck is a machine whose reading does not end, like a file on a server that is gone.
type stuck struct {
	described
	on   atomic.Bool
	free chan struct{}
}

func (s *stuck) ReadMachine(ctx context.Context) (*topo.Machine, v1alpha1.Detail, error) {
	if s.on.Load() {
		<-s.free
	}
	return s.described.ReadMachine(ctx)
}

func wantHealth(t *testing.T, h *Health, what, alive, ready string) {
	t.Helper()
	for name, c := range map[string]struct {
		err  error
		want string
	}{"alive": {h.Alive(time.Now()), alive}, "ready": {h.Ready(time.Now()), ready}} {
		if (c.err != nil) != (c.want != "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %s says %v, want %q", what, name, c.err, c.want)
		}
	}
}

// Probes report whether reconciles go on and succeed, not whether the process answers.
func TestHealth(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var h Health
		wantHealth(t, &h, "before anything", "", "no reconcile")
		cfg := w.config(logr.Discard())
		m := &stuck{described: cfg.Machine.(described), free: make(chan struct{})}
		cfg.Machine, cfg.Health = m, &h
		w.start(cfg)
		wantHealth(t, &h, "at work", "", "")
		pass(time.Hour)
		wantHealth(t, &h, "after a quiet hour", "", "")

		w.server.set(true)
		pass(10 * time.Second)
		w.run("p", "5")
		pass(10 * time.Minute)
		wantHealth(t, &h, "without an API server", "", "that succeeded ended")
		w.server.set(false)
		pass(time.Minute)
		wantHealth(t, &h, "with one again", "", "")

		m.on.Store(true)
		pass(DefaultResync + maxReconcile + 10*time.Second)
		wantHealth(t, &h, "in a reconcile that does not end", "in progress", "in progress")
		m.on.Store(false)
		close(m.free)
		pass(time.Minute)
		wantHealth(t, &h, "after it", "", "")
	})
}
