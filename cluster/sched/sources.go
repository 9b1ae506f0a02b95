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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/metrics"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/cluster/terminations"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Options are what a main program may do for the plugin. The zero Options asks for nothing.
type Options struct {
	// OnOutcome, if not nil, receives how every prediction came out. It must return quickly.
	OnOutcome func(ledger.Outcome)
	// Informers, if not nil, makes the informers of NodeLayouts and NodeResourceTopologies, and is started by the
	// caller. It must be kube-scheduler's own: queueing hints then share the plugin's informers. Otherwise the plugin
	// starts informers of its own and registers no hints for what nodes report.
	Informers dynamicinformer.DynamicSharedInformerFactory
	// Nodes, if not nil, selects the nodes that inspection and metrics show.
	Nodes labels.Selector
	// Preemption are the arguments of preemption, by the names of the profiles that preempt with the plugin instead of
	// with DefaultPreemption.
	Preemption map[string]*schedapi.DefaultPreemptionArgs
	// PercentageOfNodesToScore is that of profiles that do not set it; 0 leaves it to kube-scheduler.
	PercentageOfNodesToScore int32
}

// NewShared returns what the profiles of one scheduler share. The first profile that is made by its Factory begins
// to follow the API server.
func NewShared(logger klog.Logger, o Options) *Shared { return newSources(logger, o).Shared }

// sources fill the book of a scheduler from the API server, and report there what is wrong with what they read.
type sources struct {
	*Shared
	logger     klog.Logger
	conditions *report.Conditions
	events     *report.Events
	misaligned *report.Misaligned
	// layoutTimes and topologyTimes are when the last object of each node was received.
	layoutTimes, topologyTimes *reportTimes
	ready                      chan struct{} // closed when the feed has begun
	// synced says by name which first lists are in. It is set before the informers start.
	synced  map[string]cache.InformerSynced
	config  *rest.Config
	dynamic dynamicinformer.DynamicSharedInformerFactory
	// names lists the nodes that inspection shows; it lists none before start.
	names func() []string
}

func newSources(logger klog.Logger, o Options) *sources {
	logger = report.Quoting(logger)
	said := report.NewEvents(logger)
	ready := make(chan struct{})
	s := &Shared{
		Book:      ledger.New(),
		Ready:     ready,
		Decisions: inspect.NewDecisions(time.Now),
		metrics:   metrics.NewCounters(),
		options:   o,
	}
	written := report.NewConditions(logger, func(node string) []ledger.Inexact {
		if n := s.Book.Snapshot().Node(node); n != nil {
			return n.Inexact
		}
		return nil
	})
	s.Feed = kube.NewFeed(s.Book, func(x ledger.Outcome) {
		s.onOutcome(x)
		if s.rejections != nil {
			s.rejections.onOutcome(x)
		}
		if x.Result == ledger.Wrong {
			said.Wrong(s.machine(x.Node), x)
		}
		if o.OnOutcome != nil {
			o.OnOutcome(x)
		}
	}, written.Judged(func(node string, err error) {
		s.metrics.LayoutRefused()
		said.LayoutRefused(node, err)
	}))
	s.Feed.OnRefusedTopology(func(node string, err error) {
		s.metrics.TopologyRefused()
		said.TopologyRefused(node, err)
	})
	s.Feed.OnTopologyConditions(said.TopologyOdd)
	s.Feed.OnFreed(s.wake)
	notices := report.NewNotices(s.Book.Snapshot, said, written.Later)
	spread := report.NewMisaligned(s.Book.Snapshot, said, time.Now())
	s.Feed.OnReport(func(l *v1alpha1.NodeLayout) {
		notices.Reported(l)
		spread.Reported(l)
	})
	s.sources = &sources{Shared: s, logger: logger, conditions: written, events: said, misaligned: spread, ready: ready,
		layoutTimes: newReportTimes(time.Now), topologyTimes: newReportTimes(time.Now),
		names: func() []string { return nil }}
	return s.sources
}

// serves returns an error if the arguments ask for what only a main program of Tenon's can do.
func (s *sources) serves(args config.Args) error {
	if args.LayoutSelector != "" && s.options.Informers == nil {
		return errors.New("layoutSelector: only tenon-scheduler keeps all pods of a profile to the selected nodes: " +
			"run tenon-scheduler, or remove it")
	}
	return nil
}

// start follows what a scheduler needs. It is called before kube-scheduler's informers start.
func (s *sources) start(ctx context.Context, h fwk.Handle) error {
	s.config, s.dynamic = h.KubeConfig(), s.options.Informers
	if err := servesLayouts(s.config); err != nil {
		return err
	}
	if s.dynamic == nil {
		c, err := dynamic.NewForConfig(s.config)
		if err != nil {
			return fmt.Errorf("make client for node layouts: %w", err)
		}
		s.dynamic = dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	}
	if err := s.findTopologies(ctx); err != nil {
		return err
	}
	writer, err := client.New(s.config)
	if err != nil {
		return err
	}
	s.events.To(h.EventRecorder())
	s.misaligned.Of(s.amounts.On)
	s.rejections = &rejections{events: s.events, pardon: s.pardon, machine: s.machine,
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
	s.synced = map[string]cache.InformerSynced{}
	if err := s.followLayouts(); err != nil {
		return fmt.Errorf("follow layouts: %w", err)
	}
	if err := s.followPods(ctx, h); err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	if err := s.followTopologies(ctx); err != nil {
		return fmt.Errorf("follow NodeResourceTopologies: %w", err)
	}
	if s.options.Informers == nil {
		s.retries = newRetries(s.Book.Snapshot)
		s.Book.OnChange(s.retries.change)
		go s.retries.run(ctx)
		s.dynamic.Start(ctx.Done())
	}
	go s.conditions.Run(ctx, writer)
	go s.begin(ctx)
	s.names = nodeNames(h, s.options.Nodes)
	metrics.Measure(s.Inspection(), s.Feed.Paced, s.misaligned.Count)
	return nil
}

// servesLayouts returns an error if the API server does not serve layouts: their informer would wait for ever.
func servesLayouts(config *rest.Config) error {
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	gv := v1alpha1.GroupVersion().String()
	list, err := known.ServerResourcesForGroupVersion(gv)
	if err != nil {
		return fmt.Errorf("find resources of %s (is the NodeLayout definition installed?): %w", gv, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == v1alpha1.NodeLayoutResource().Resource {
			return nil
		}
	}
	return fmt.Errorf(
		"API server has no %s.%s: install the NodeLayout definition",
		v1alpha1.NodeLayoutResource().Resource,
		gv,
	)
}

func (s *sources) followLayouts() error {
	layouts := s.dynamic.ForResource(v1alpha1.NodeLayoutResource()).Informer()
	if err := layouts.SetTransform(v1alpha1.Typed); err != nil {
		return fmt.Errorf("set decoder: %w", err)
	}
	into, err := layouts.AddEventHandler(s.Feed.Layouts())
	if err != nil {
		return err
	}
	s.synced["layouts"] = into.HasSynced
	_, err = layouts.AddEventHandler(s.layoutTimes)
	return err
}

func (s *sources) followPods(ctx context.Context, h fwk.Handle) error {
	pods, api := h.SharedInformerFactory().Core().V1().Pods().Informer(), h.ClientSet()
	ends := terminations.New(s.Feed, s.Book, api, s.wake, s.logger)
	into, err := pods.AddEventHandler(ends)
	if err != nil {
		return err
	}
	s.synced["pods"] = into.HasSynced
	go ends.Run(ctx)
	_, err = pods.AddEventHandler(s.waitingPods())
	return err
}

// waitingPods returns the handler of pod events that concern pods which wait for room.
func (s *sources) waitingPods() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if s.waiting != nil {
				s.waiting.ends().OnUpdate(before, after)
				return
			}
			if p, ok := after.(*v1.Pod); ok && p.Spec.NodeName != "" {
				s.retries.forget(string(p.UID))
			}
			if node, _, ok := freedNomination(before, after); ok {
				s.wake(node)
			}
		},
		DeleteFunc: func(o any) {
			if s.waiting != nil {
				s.waiting.ends().OnDelete(o)
				return
			}
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			if p, ok := o.(*v1.Pod); ok {
				s.retries.forget(string(p.UID))
			}
		},
	}
}

// begin begins the feed when all first lists are in.
func (s *sources) begin(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), slices.Collect(maps.Values(s.synced))...) {
		return
	}
	s.Feed.Begin()
	s.workload.Learn(s.ownPods())
	close(s.ready)
}

// ownPods returns the pods that the profiles with the plugin schedule or have scheduled.
func (s *sources) ownPods() (out []*v1.Pod) {
	profiles := map[string]bool{}
	for _, p := range s.plugins {
		profiles[profileOf(p.handle)] = true
	}
	for _, p := range s.amounts.Pods() {
		if profiles[p.Spec.SchedulerName] {
			out = append(out, p)
		}
	}
	return out
}

// nodeNames returns a function that lists the names of selected nodes, from kube-scheduler's own informer.
func nodeNames(h fwk.Handle, selector labels.Selector) func() []string {
	nodes := h.SharedInformerFactory().Core().V1().Nodes().Lister()
	if selector == nil {
		selector = labels.Everything()
	}
	return func() []string {
		list, err := nodes.List(selector)
		if err != nil {
			return nil // a list of what is in memory does not fail
		}
		out := make([]string, 0, len(list))
		for _, n := range list {
			out = append(out, n.Name)
		}
		return out
	}
}

// Inspection returns what inspection and metrics show of the scheduler.
func (s *Shared) Inspection() inspect.Source {
	from := s.sources
	return inspect.Source{Book: s.Book, Decisions: s.Decisions, Mix: s.workload.Mix, Now: time.Now,
		Problem: from.problem, Names: from.names, Reported: from.reported, Healthy: from.healthy}
}

// healthy returns what keeps the book from being filled, or nil.
func (s *sources) healthy() error {
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
