// Package follow fills the ledger of one scheduler from the API server: with layouts, NodeResourceTopologies, and the
// pods of the scheduler's own informer. It reports faults in what nodes publish as events, conditions and log lines.
//
// Invariant: [Sources.Ready] is closed when all first lists are in the ledger, and not before. NodeResourceTopologies
// and Numatopologies are optional: they are followed once the API server serves them and lets the scheduler read them.
// The package refuses to start if the API server serves no NodeLayouts, since their informer would wait forever.
package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/metrics"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// Options configure the sources of one scheduler. The zero Options is valid.
type Options struct {
	// OnOutcome, if not nil, is called with the outcome of every prediction. It must return quickly.
	OnOutcome func(state.Outcome)
	// Wake, if not nil, is called with the name of a node that may have room after a change that no event announces.
	Wake func(node string)
	// OnRefused, if not nil, is called with each pod that its kubelet refused ([kube.Refused]) while the ledger expected
	// it to hold something exclusively, whichever scheduler bound it. It must return quickly.
	OnRefused func(pod *v1.Pod, reason string)
	// Counters count published objects that cannot be read; nil counts nothing.
	Counters *metrics.Counters
	// Informers, if not nil, makes the informers of NodeLayouts and NodeResourceTopologies; the caller starts it. If it
	// is nil, Start makes informers and starts them.
	Informers dynamicinformer.DynamicSharedInformerFactory
	// Nodes, if not nil, selects the nodes that [Sources.Names] lists.
	Nodes labels.Selector
	// Busy, if not nil, reports whether pods are being scheduled. While they are, conditions of layouts are written
	// slowly.
	Busy func() bool
	// Leads, if not nil, reports whether this scheduler leads. Of several schedulers, only the leader records events.
	Leads func() bool
}

// Sources fill a ledger. New makes them; Start starts to follow the API server. Without an API server, call Report and
// Begin instead of Start.
type Sources struct {
	Book *ledger.Book
	Feed *kube.Feed

	options    Options
	logger     klog.Logger
	conditions *report.Conditions
	events     *report.Events
	rejections *rejections
	misaligned *report.Misaligned
	functions  kube.Functions // of the nodes, for the devices of claims
	// layoutTimes and topologyTimes record when the last object of each node was received.
	layoutTimes, topologyTimes *reportTimes
	ready                      chan struct{} // closed when the feed has begun
	// synced has, by the list's name, a function that reports whether the first list has been received. It is set
	// before the informers start.
	synced    map[string]cache.InformerSynced
	config    *rest.Config
	dynamic   dynamicinformer.DynamicSharedInformerFactory
	topology  *schema.GroupVersionResource // the resource of NodeResourceTopologies, or nil if they are not served
	completer *completer
	// names lists the selected nodes; it lists none before Start.
	names func() []string
}

// New returns sources with an empty ledger.
func New(logger klog.Logger, o Options) *Sources {
	logger = report.Quoting(logger)
	if o.Wake == nil {
		o.Wake = func(string) {}
	}
	s := &Sources{Book: ledger.New(), options: o, logger: logger, events: report.NewEvents(logger),
		layoutTimes: newReportTimes(time.Now), topologyTimes: newReportTimes(time.Now), ready: make(chan struct{}),
		completer: newCompleter(), names: func() []string { return nil }}
	s.rejections = &rejections{events: s.events, pardon: s.pardon, machine: s.machine,
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
	s.conditions = report.NewConditions(logger, func(node string) []state.Inexact {
		if n := s.Book.Snapshot().Node(node); n != nil {
			return n.Inexact
		}
		return nil
	}, o.Busy)
	s.misaligned = report.NewMisaligned(s.Book.Snapshot, s.events, time.Now())
	notices := report.NewNotices(s.Book.Snapshot, s.events, s.conditions.Later)
	s.Feed = kube.NewFeed(s.Book, s.onOutcome, s.conditions.Judged(func(node string, err error) {
		o.Counters.LayoutRefused()
		s.events.LayoutRefused(node, err)
	}))
	s.Feed.OnRefusedTopology(func(node string, err error) {
		o.Counters.TopologyRefused()
		s.events.TopologyRefused(node, err)
	})
	s.Feed.OnTopologyConditions(s.events.TopologyFaults)
	s.Feed.OnLeftOut(s.completer.need)
	s.Feed.OnFreed(o.Wake)
	s.Feed.OnReport(func(l *v1alpha1.NodeLayout) {
		notices.Reported(l)
		s.misaligned.Reported(l)
		s.functions.Report(l)
		if snap := s.Book.Snapshot(); s.functions.Len() > 2*snap.Len()+1 {
			s.functions.Forget(func(node string) bool { return snap.Node(node) == nil && node != l.Name })
		}
	})
	return s
}

// Functions returns where PCI functions are by the nodes' reports.
func (s *Sources) Functions() *kube.Functions { return &s.functions }

// onOutcome reports the outcome of a prediction to the log, to events, and to the caller of New.
func (s *Sources) onOutcome(o state.Outcome) {
	s.logger.V(report.LevelData).Info("Prediction settled", "pod", klog.KRef(o.Pod.Namespace, o.Pod.Name), "node", o.Node,
		"result", o.Result)
	s.rejections.onOutcome(o)
	if o.Result == state.Wrong {
		s.events.Wrong(s.machine(o.Node), o)
	}
	if s.options.OnOutcome != nil {
		s.options.OnOutcome(o)
	}
}

// machine returns the machine of a node, or nil.
func (s *Sources) machine(node string) *topo.Machine {
	if n := s.Book.Snapshot().Node(node); n != nil {
		return n.Machine
	}
	return nil
}

// pardon lets pods of shapes that a node has refused try the node again.
func (s *Sources) pardon(node string) {
	s.Book.Pardon(node)
	s.options.Wake(node)
}

// Report sets the recorder of events. Call it before the first object is received.
func (s *Sources) Report(to events.EventRecorder) { s.events.To(to) }

// Begin records that the first lists have been received, and closes Ready.
func (s *Sources) Begin() {
	s.Feed.Begin()
	close(s.ready)
}

// Ready returns a channel that is closed when the first lists are in the ledger.
func (s *Sources) Ready() <-chan struct{} { return s.ready }

// Topologies returns the resource of NodeResourceTopologies, or nil if it was not served at the start.
func (s *Sources) Topologies() *schema.GroupVersionResource { return s.topology }

// Misaligned returns the number of misaligned pods on the ledger's nodes.
func (s *Sources) Misaligned() int { return s.misaligned.Count() }

// Names returns the names of the selected nodes.
func (s *Sources) Names() []string { return s.names() }

// API is the API server of a scheduler. The informers must not have started.
type API struct {
	Config    *rest.Config
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  events.EventRecorder
}

// errNoConfig is returned where a main program makes the framework without a kubeconfig: no plugin can then read custom
// resources.
var errNoConfig = errors.New("follow node layouts: this scheduler gives its plugins no kubeconfig " +
	"(option WithKubeConfig of the framework)")

// Start follows the resources that a scheduler needs, until the context ends. Call it before the scheduler's
// informers start. When all first lists have been received, it calls listed and then closes Ready. pods must read the
// pods of the same informers.
func (s *Sources) Start(ctx context.Context, api API, pods *Amounts, listed func()) error {
	if api.Config == nil {
		return errNoConfig
	}
	s.config, s.dynamic = api.Config, s.options.Informers
	if err := servesLayouts(s.config); err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("make client for node layouts: %w", err)
	}
	if s.dynamic == nil {
		s.dynamic = dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	}
	if err := s.findTopologies(ctx); err != nil {
		return err
	}
	writer, err := client.New(s.config)
	if err != nil {
		return err
	}
	recorder := api.Recorder
	if s.options.Leads != nil {
		recorder = report.While(s.options.Leads, recorder)
	}
	s.Report(recorder)
	s.misaligned.Of(pods.On)
	s.synced = map[string]cache.InformerSynced{}
	if err := s.followLayouts(); err != nil {
		return fmt.Errorf("follow layouts: %w", err)
	}
	if err := s.followPods(ctx, api); err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	if err := s.followTopologies(ctx); err != nil {
		return fmt.Errorf("follow NodeResourceTopologies: %w", err)
	}
	if err := s.followNumatopologies(ctx); err != nil {
		return fmt.Errorf("follow Numatopologies: %w", err)
	}
	if s.options.Informers == nil {
		s.dynamic.Start(ctx.Done())
	}
	go s.conditions.Run(ctx, writer)
	s.completer.topos, s.completer.onRead, s.completer.onUnread = c, s.topologyRead, s.topologyUnread
	go s.completer.run(ctx)
	go s.begin(ctx, listed)
	s.names = nodeNames(api.Informers, s.options.Nodes)
	return nil
}

// followLayouts fills the ledger from informers of NodeLayouts and LayoutBases.
func (s *Sources) followLayouts() error {
	layouts := s.dynamic.ForResource(v1alpha1.NodeLayoutResource()).Informer()
	if err := layouts.SetTransform(v1alpha1.Typed); err != nil {
		return fmt.Errorf("set decoder: %w", err)
	}
	registration, err := layouts.AddEventHandler(s.Feed.Layouts())
	if err != nil {
		return err
	}
	s.synced["layouts"] = registration.HasSynced
	if _, err := layouts.AddEventHandler(s.layoutTimes); err != nil {
		return err
	}
	bases := s.dynamic.ForResource(v1alpha1.LayoutBaseResource()).Informer()
	if err := bases.SetTransform(v1alpha1.TypedBase); err != nil {
		return fmt.Errorf("set decoder of bases: %w", err)
	}
	if registration, err = bases.AddEventHandler(s.Feed.Bases()); err != nil {
		return err
	}
	s.synced["bases of layouts"] = registration.HasSynced
	return nil
}

// followPods fills the ledger from the scheduler's own pod informer; see Terminations.
func (s *Sources) followPods(ctx context.Context, api API) error {
	pods := api.Informers.Core().V1().Pods().Informer()
	ends := NewTerminations(s.Feed, s.Book, api.Client, s.options.Wake, s.logger)
	ends.release = s.podGone
	registration, err := pods.AddEventHandler(ends)
	if err != nil {
		return err
	}
	s.synced["pods"] = registration.HasSynced
	go ends.Run(ctx)
	return nil
}

// podGone releases a pod in the ledger, and passes it on if its kubelet refused it.
func (s *Sources) podGone(pod *v1.Pod) {
	s.Feed.PodGone(pod)
	if reason, ok := kube.Refused(pod); ok && s.options.OnRefused != nil {
		s.options.OnRefused(pod, reason)
	}
}

// Crowded records an event on a pod that OnRefused was called with, unless the outcome of its prediction has led to
// one; see [report.Events.Crowded].
func (s *Sources) Crowded(pod *v1.Pod, reason string) {
	if s.rejections.last.Load() != string(pod.UID) {
		s.events.Crowded(pod, reason)
	}
}

// MemberRefused records an event on a group; see [report.Events.MemberRefused].
func (s *Sources) MemberRefused(m report.Member) { s.events.MemberRefused(m) }

// begin starts the feed when all first lists have been received.
func (s *Sources) begin(ctx context.Context, listed func()) {
	defer collectOften()()
	if !cache.WaitForCacheSync(ctx.Done(), slices.Collect(maps.Values(s.synced))...) {
		return
	}
	use := func(o *v1alpha2.NodeResourceTopology) { s.Feed.Complete(o) }
	if err := s.completer.readFirst(ctx, s.Feed.LeftOut(), use); err != nil {
		s.logger.Info("NodeResourceTopologies of nodes without a layout cannot be read, will try again", "error", err.Error())
	}
	listed()
	s.Begin()
}

// nodeNames returns a function that lists the names of the nodes that the selector matches, from the scheduler's own
// informer. A nil selector matches all nodes.
func nodeNames(f informers.SharedInformerFactory, selector labels.Selector) func() []string {
	nodes := f.Core().V1().Nodes().Lister()
	if selector == nil {
		selector = labels.Everything()
	}
	return func() []string {
		list, err := nodes.List(selector)
		if err != nil {
			return nil // a list from memory does not fail
		}
		out := make([]string, 0, len(list))
		for _, n := range list {
			out = append(out, n.Name)
		}
		return out
	}
}

// Healthy returns an error that names what the ledger still lacks, or nil once it is filled.
func (s *Sources) Healthy() error {
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
