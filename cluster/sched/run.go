package sched

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/configz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Scheduler is a kube-scheduler with the plugin, ready to run.
type Scheduler struct {
	Shared *Shared
	config *schedconfig.CompletedConfig
	sched  *scheduler.Scheduler
}

// Prepare sets a kube-scheduler up as its own command does, with the plugin and its book. onOutcome, if
// not nil, is told how every prediction came out.
//
// The layouts come from the scheduler's own informer: an informer of the plugin's own might be behind
// the queueing hint of the same event, and a pod that wakes too early sleeps for minutes.
func Prepare(ctx context.Context, opts *options.Options, onOutcome func(ledger.Outcome)) (*Scheduler, error) {
	logger := klog.FromContext(ctx).WithName(Name)
	m := newMetrics()
	book := ledger.New()
	verdicts := newConditions(logger)
	feed := kube.NewFeed(book, func(o ledger.Outcome) {
		m.outcome(o)
		if o.Result == ledger.Wrong {
			logger.Info("A node did not do what was predicted", "outcome", kube.Describe(o))
		}
		if onOutcome != nil {
			onOutcome(o)
		}
	}, verdicts.judged(func(node string, err error) {
		m.refused()
		logger.Error(err, "Layout refused", "node", node)
	}))
	ready := make(chan struct{})
	shared := &Shared{Book: book, Feed: feed, Ready: ready}
	cc, s, err := app.Setup(ctx, opts, app.WithPlugin(Name, New(shared)))
	if err != nil {
		return nil, fmt.Errorf("set up scheduler: %w", err)
	}
	if err := served(cc); err != nil {
		return nil, err
	}
	writer, err := client.New(cc.KubeConfig)
	if err != nil {
		return nil, err
	}
	if err := follow(ctx, cc, feed, ready); err != nil {
		return nil, err
	}
	go verdicts.run(ctx, writer)
	return &Scheduler{Shared: shared, config: cc, sched: s}, nil
}

// Run schedules until the context ends.
func (s *Scheduler) Run(ctx context.Context) error {
	configz.Delete("componentconfig") // a process-wide name; a scheduler that ran before leaves it
	return app.Run(ctx, s.config, s.sched)
}

// served checks that the API server knows layouts: without them the informer would wait for ever.
func served(cc *schedconfig.CompletedConfig) error {
	gv := v1alpha1.GroupVersion().String()
	list, err := cc.Client.Discovery().ServerResourcesForGroupVersion(gv)
	if err != nil {
		return fmt.Errorf("find resources of %s (is the NodeLayout definition installed?): %w", gv, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == v1alpha1.NodeLayoutResource().Resource {
			return nil
		}
	}
	return fmt.Errorf("API server has no %s.%s: install the NodeLayout definition", v1alpha1.NodeLayoutResource().Resource, gv)
}

// follow lets the scheduler's informers fill the book, and closes ready when their first lists are in.
func follow(ctx context.Context, cc *schedconfig.CompletedConfig, feed *kube.Feed, ready chan<- struct{}) error {
	layouts := cc.DynInformerFactory.ForResource(v1alpha1.NodeLayoutResource()).Informer()
	if err := layouts.SetTransform(v1alpha1.Typed); err != nil {
		return fmt.Errorf("decode layouts: %w", err)
	}
	l, err := layouts.AddEventHandler(feed.Layouts())
	if err != nil {
		return fmt.Errorf("follow layouts: %w", err)
	}
	p, err := cc.InformerFactory.Core().V1().Pods().Informer().AddEventHandler(feed.Pods())
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), l.HasSynced, p.HasSynced) {
			feed.Begin()
			close(ready)
		}
	}()
	return nil
}
