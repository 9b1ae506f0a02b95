package sched

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/configz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Scheduler is a kube-scheduler with the plugin, ready to run.
type Scheduler struct {
	Shared *Shared
	config *schedconfig.CompletedConfig
	sched  *scheduler.Scheduler
	source inspect.Source
}

// Prepare sets a kube-scheduler up as its own command does, with the plugin and its book. onOutcome, if
// not nil, is told how every prediction came out.
//
// The layouts come from the scheduler's own informer: an informer of the plugin's own might be behind
// the queueing hint of the same event, and a pod that wakes too early sleeps for minutes.
func Prepare(ctx context.Context, opts *options.Options, onOutcome func(ledger.Outcome)) (*Scheduler, error) {
	logger := loggerOf(ctx)
	s := newShared(logger, onOutcome)
	cc, sched, selector, err := setUp(ctx, opts, s)
	if err != nil {
		return nil, fmt.Errorf("set up scheduler: %w", err)
	}
	writer, err := client.New(cc.KubeConfig)
	if err != nil {
		return nil, err
	}
	recorder := quotedEvents{cc.EventBroadcaster.NewRecorder("tenon-scheduler")}
	s.reports.recorder = recorder
	s.rejections = &rejections{recorder: recorder, pardon: s.pardon, machine: s.machine,
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }, logger: logger}
	s.rest(sched)
	if err := s.begin(ctx, cc); err != nil {
		return nil, err
	}
	go s.sleepers.run(ctx, s.try)
	go s.verdicts.run(ctx, writer)
	source := inspect.Source{Book: s.Book, Problem: s.problem, Names: nodeNames(cc, selector), Reported: s.reported,
		Decisions: s.Decisions, Mix: s.usual.mix, Now: time.Now, Healthy: s.healthy}
	s.metrics.measure(source, s.Feed.Paced)
	return &Scheduler{Shared: s.Shared, config: cc, sched: sched, source: source}, nil
}

// parts are what the plugins share, with those that fill it.
type parts struct {
	*Shared
	verdicts *conditions
	reports  *reports
	// heard is of layouts, heardCoarse of NodeResourceTopologies.
	heard, heardCoarse *heard
	ready              chan struct{} // closed when the feed has begun
	// synced says by name which first lists are in; it is set before anybody asks.
	synced map[string]cache.InformerSynced
}

// newShared makes what the plugins share; onOutcome may be nil.
func newShared(logger klog.Logger, onOutcome func(ledger.Outcome)) *parts {
	logger = quoting(logger)
	ready := make(chan struct{})
	s := &Shared{Book: ledger.New(), Ready: ready, Decisions: inspect.NewDecisions(time.Now), metrics: newMetrics()}
	verdicts := newConditions(logger, func(node string) []ledger.Inexact {
		if n := s.Book.Snapshot().Node(node); n != nil {
			return n.Inexact
		}
		return nil
	})
	s.Feed = kube.NewFeed(s.Book, func(o ledger.Outcome) {
		s.came(o)
		if s.rejections != nil {
			s.rejections.came(o)
		}
		if o.Result == ledger.Wrong {
			logger.Info("A node did not do what was predicted", "pod", klog.KRef(o.Pod.Namespace, o.Pod.Name),
				"node", o.Node, "outcome", kube.Describe(s.machine(o.Node), o))
		}
		if onOutcome != nil {
			onOutcome(o)
		}
	}, verdicts.judged(func(node string, err error) {
		s.metrics.refused()
		logger.Error(err, "Layout refused", "node", node)
	}))
	told := &reports{metrics: s.metrics, logger: logger}
	s.Feed.OnRefusedTopology(told.refused)
	s.Feed.OnOddTopology(told.odd)
	s.Feed.OnFreed(s.wake)
	seen := &notices{snapshot: s.Book.Snapshot, event: told.event, last: map[string]notice{},
		judge: func(node string) { verdicts.queue.AddAfter(node, time.Second) }}
	s.Feed.OnReport(seen.reported)
	return &parts{Shared: s, verdicts: verdicts, reports: told, heard: newHeard(time.Now), heardCoarse: newHeard(time.Now), ready: ready}
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

// begin has the book filled, if a profile has the plugin. Nobody would read it elsewhere, and following every pod
// of a cluster costs memory and work.
func (s *parts) begin(ctx context.Context, cc *schedconfig.CompletedConfig) error {
	if len(s.plugins) == 0 {
		loggerOf(ctx).Info("No profile enables the plugin: layouts and pods are not followed")
		return nil
	}
	if err := served(cc); err != nil {
		return err
	}
	return follow(ctx, cc, s)
}

// healthy returns what keeps the book from being filled, or nil.
func (s *parts) healthy() error {
	if len(s.plugins) == 0 {
		return errors.New("no profile enables the plugin: layouts and pods are not followed")
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(s.synced)) {
		if !s.synced[name]() {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("first list is not in: %s", strings.Join(missing, ", "))
	}
	select {
	case <-s.ready:
		return nil
	default:
		return errors.New("what was read at the start is not in the ledger yet")
	}
}

// follow lets the scheduler's informers fill the book, and closes ready when their first lists are in.
func follow(ctx context.Context, cc *schedconfig.CompletedConfig, s *parts) error {
	logger := loggerOf(ctx)
	layouts := cc.DynInformerFactory.ForResource(v1alpha1.NodeLayoutResource()).Informer()
	if err := layouts.SetTransform(v1alpha1.Typed); err != nil {
		return fmt.Errorf("decode layouts: %w", err)
	}
	l, err := layouts.AddEventHandler(s.Feed.Layouts())
	if err != nil {
		return fmt.Errorf("follow layouts: %w", err)
	}
	ends := newFates(s.Feed, s.Book.Booked, s.Book.Doubted, func(ctx context.Context, namespace, name string) (*v1.Pod, error) {
		return cc.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}, logger)
	ends.wake, ends.left = s.wake, podAt(cc.Client)
	p, err := cc.InformerFactory.Core().V1().Pods().Informer().AddEventHandler(ends)
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	go ends.run(ctx)
	if _, err := cc.InformerFactory.Core().V1().Pods().Informer().AddEventHandler(s.sleepers.ends()); err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	if _, err := layouts.AddEventHandler(s.heard); err != nil {
		return fmt.Errorf("follow layouts: %w", err)
	}
	s.synced = map[string]cache.InformerSynced{"layouts": l.HasSynced, "pods": p.HasSynced}
	t, err := followTopologies(ctx, cc, s)
	if err != nil {
		return err
	}
	if t != nil {
		s.synced["NodeResourceTopologies"] = t
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), slices.Collect(maps.Values(s.synced))...) {
			s.Feed.Begin()
			pods, err := own(cc)
			if err != nil {
				logger.Error(err, "Mix is of pods to come only")
			}
			s.usual.learn(pods)
			close(s.ready)
		}
	}()
	return nil
}

// Parts returns the kube-scheduler and its configuration, for who drives it by hand instead of by Run.
func (s *Scheduler) Parts() (*schedconfig.CompletedConfig, *scheduler.Scheduler) {
	return s.config, s.sched
}
