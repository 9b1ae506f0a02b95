package sched

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/amounts"
	"github.com/tenon-numa/tenon/cluster/candidates"
	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/metrics"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/cluster/workload"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Shared is what the plugins of all profiles of one scheduler have in common.
type Shared struct {
	Book *ledger.Book
	Feed *kube.Feed
	// Ready is closed when the feed has begun.
	Ready <-chan struct{}
	// Decisions records what was decided, for inspection; nil records nothing.
	Decisions *inspect.Decisions

	metrics *metrics.Counters // nil counts nothing
	// rejections receives pods that nodes refused; nil until there is a client.
	rejections *rejections
	answers    answers.Table
	amounts    *amounts.Amounts // nil until there is a client
	lines      *report.Lines    // nil before the first factory
	backoff    nodeBackoff
	// waiting wakes pods in schedulers of Tenon's own, retries in others; at most one of them is not nil.
	waiting  *waiting
	retries  *retries
	workload workload.Profile
	plugins  []*Plugin // of all profiles, once the scheduler is set up

	// sources fill the book from the API server, begun by the first profile that starts them; nil in tests.
	sources  *sources
	started  sync.Once
	startErr error
	// topology is where NodeResourceTopologies are served, or nil; see topologies.go.
	topology *schema.GroupVersionResource
	options  Options
}

// Factory makes the plugin of one profile. It is kube-scheduler's frameworkruntime.PluginFactory.
type Factory = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)

// Factory returns the factory of the plugin under one of its names, over s.
func (s *Shared) Factory(name string) Factory {
	if s.lines == nil {
		s.lines = report.NewLines(s.metrics.Suppressed)
	}
	return func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		args, err := config.Decode(name, obj)
		if err != nil {
			return nil, err
		}
		if err := s.start(ctx, args, h); err != nil {
			return nil, err
		}
		p := &Plugin{Shared: s, name: name, args: args, strategy: args.Strategy.Scoring(), logger: Logger(ctx), handle: h,
			profile: fmt.Sprintf("%d %s", len(s.plugins), profileOf(h))}
		if args := s.options.Preemption[profileOf(h)]; args != nil {
			if p.preemption, err = newPreemption(ctx, p, args); err != nil {
				return nil, err
			}
			p.candidates = candidates.New(h, s.options.PercentageOfNodesToScore)
		}
		s.plugins = append(s.plugins, p)
		for _, note := range args.Notes {
			p.logger.Info("Argument for "+name+" means something else here", "profile", h.ProfileName(), "argument", note)
		}
		return p, nil
	}
}

// start begins to fill the book, once for all profiles. In tests there is no handle, or there are no sources.
func (s *Shared) start(ctx context.Context, args config.Args, h fwk.Handle) (err error) {
	if h == nil {
		return nil
	}
	if s.amounts == nil {
		if s.amounts, err = amounts.New(h.SharedInformerFactory()); err != nil {
			return err
		}
	}
	if s.sources == nil {
		return nil
	}
	if err := s.sources.serves(args); err != nil {
		return err
	}
	s.started.Do(func() { s.startErr = s.sources.start(ctx, h) })
	return s.startErr
}

func profileOf(h fwk.Handle) string {
	if h == nil {
		return ""
	}
	return h.ProfileName()
}

// wake retries pods that may fit a node after a change of the ledger that no event announces. It returns at once.
func (s *Shared) wake(node string) {
	switch {
	case s.waiting != nil:
		s.waiting.observed(node)
	case s.retries != nil:
		s.retries.change(node)
	}
}

// pardon lets shapes that a node has refused try again.
func (s *Shared) pardon(node string) {
	s.Book.Pardon(node)
	s.wake(node)
}
