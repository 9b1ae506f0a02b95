package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/candidates"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/failures"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/gangs"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/metrics"
	"github.com/tenon-numa/tenon/scheduler/promise"
	"github.com/tenon-numa/tenon/scheduler/report"
	"github.com/tenon-numa/tenon/scheduler/steer"
	"github.com/tenon-numa/tenon/scheduler/waiting"
)

// Shared is the state that the plugins of all profiles of one scheduler share.
type Shared struct {
	Book *ledger.Book
	Feed *kube.Feed
	// Ready is closed when the feed has begun.
	Ready <-chan struct{}
	// Decisions records decisions for inspection; nil records nothing.
	Decisions *inspect.Decisions

	metrics *metrics.Counters // nil counts nothing
	answers answers.Table
	amounts *follow.Amounts // nil until there is a client
	lines   *report.Lines   // nil before the first factory
	turns   booking.Line
	gangs   gangs.Gangs
	// promises has the room that is kept for pods that have not come; see promised.go.
	promises *promise.Keeper
	flights  promise.Flights
	// planner allocates devices for pods that have not come; nil if no profile has TenonClaims.
	planner *steer.Planner
	// claiming are the profiles that have TenonClaims.
	claiming []string
	// anywhere are pods that found none of the nodes that keep room for them good, keptOut are pods that may have found no
	// node because of such room, and waitRoom are pods that are held back until a request has its room.
	anywhere, keptOut, waitRoom promise.Pods
	// capacity answers ProvisioningRequests; nil if they are not followed. restored, if not nil, is closed when the room
	// that was promised before this scheduler began is kept again.
	capacity atomic.Pointer[capacity.Controller]
	restored <-chan struct{}
	// unrestored is set if that took too long.
	unrestored atomic.Bool
	waiting    *waiting.Queue // nil in tests that retry no pod
	// failures has failed attempts to handle beside the scheduling loop; nil if the loop handles all.
	failures  *failures.Line
	sentences sentences
	// alone is true if the scheduler is not tenon-scheduler: Options.Informers is nil, and Extend was not called; see
	// reportFailure.
	alone    bool
	workload booking.Workload
	plugins  []*Plugin // of all profiles, once the scheduler is set up
	// attempted is when the last attempt to schedule a pod began, in nanoseconds of Unix time.
	attempted atomic.Int64

	// sources fill the ledger from the API server; the first profile starts them. Nil in tests.
	sources  *follow.Sources
	started  sync.Once
	startErr error
	// topology is the resource of NodeResourceTopologies if the API server serves them, or nil.
	topology *schema.GroupVersionResource
	any      fwk.Handle // of one profile, once the sources are started
	options  Options
}

// Options are what a main program sets for the plugin. The zero Options is valid.
type Options struct {
	// OnOutcome, if not nil, is called with the outcome of every prediction. It must return quickly.
	OnOutcome func(state.Outcome)
	// Informers, if not nil, makes the informers of NodeLayouts and NodeResourceTopologies; the caller starts it. It
	// must be kube-scheduler's own factory, so that queueing hints share the plugin's informers. If it is nil, the
	// plugin starts informers of its own and registers no hints for nodes' reports.
	Informers dynamicinformer.DynamicSharedInformerFactory
	// Nodes, if not nil, selects the nodes that inspection and metrics show.
	Nodes labels.Selector
	// Preemption has the arguments of preemption by profile name, for the profiles that preempt with the plugin instead
	// of DefaultPreemption.
	Preemption map[string]*schedapi.DefaultPreemptionArgs
	// PercentageOfNodesToScore is the value for profiles that do not set it; 0 leaves it to kube-scheduler.
	PercentageOfNodesToScore int32
	// Election, if not nil, returns which of several schedulers leads, for inspection and metrics.
	Election func() document.Election
}

// NewShared returns the state that the profiles of one scheduler share. The API server is followed from the first
// plugin on that a Factory of the state makes.
func NewShared(logger klog.Logger, o Options) *Shared {
	s := &Shared{Decisions: inspect.NewDecisions(time.Now), metrics: metrics.NewCounters(), options: o}
	s.sources = follow.New(logger, follow.Options{OnOutcome: s.onOutcome, Wake: s.wake, OnRefused: s.podRefused,
		Counters: s.metrics, Informers: o.Informers, Nodes: o.Nodes, Busy: s.busy, Leads: s.leads})
	s.Book, s.Feed, s.Ready = s.sources.Book, s.sources.Feed, s.sources.Ready()
	s.promises = s.newKeeper()
	return s
}

// leads reports whether this is the scheduler that schedules, of several ones.
func (s *Shared) leads() bool {
	return s.options.Election == nil || s.options.Election().Role != document.Standby
}

// podRefused records an event on a pod of these profiles that its kubelet refused, and on its group, if it has one.
func (s *Shared) podRefused(pod *v1.Pod, reason string) {
	if !s.profiles()[pod.Spec.SchedulerName] {
		return
	}
	s.sources.Crowded(pod, reason)
	if group, others, least := fwk.GroupOf(s.any, pod); group != nil {
		s.sources.MemberRefused(report.Member{Pod: pod, Reason: reason, Group: group, Others: others, Least: least})
	}
}

// busy reports whether an attempt to schedule a pod began in the last two seconds, or pods wait for their turns.
func (s *Shared) busy() bool {
	return s.turns.Waits() > 0 || time.Now().UnixNano()-s.attempted.Load() < int64(2*time.Second)
}

// Factory makes the plugin of one profile. It is kube-scheduler's frameworkruntime.PluginFactory.
type Factory = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)

// Factory returns the factory of the plugin under one of its names. The plugins that it makes share s.
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
		p := &Plugin{Shared: s, name: name, args: args, guard: args.Guard(), strategy: args.Strategy.Scoring(),
			logger: Logger(ctx), handle: h,
			profile: fmt.Sprintf("%d %s", len(s.plugins), profileOf(h))}
		if args := s.options.Preemption[profileOf(h)]; args != nil {
			if p.preemption, err = newPreemption(ctx, p, args); err != nil {
				return nil, err
			}
			p.candidates = candidates.New(h, s.options.PercentageOfNodesToScore)
		}
		s.plugins = append(s.plugins, p)
		for _, note := range args.Notes {
			p.logger.Info("Argument for "+name+" means something else here", "profile", fwk.ProfileName(h), "argument", note)
		}
		return p, nil
	}
}

// start starts to fill the ledger, at the first call for any profile. It does nothing in tests, which have no handle
// or no sources.
func (s *Shared) start(ctx context.Context, args config.Args, h fwk.Handle) (err error) {
	if h == nil {
		return nil
	}
	if s.amounts == nil {
		if s.amounts, err = follow.NewAmounts(h.SharedInformerFactory()); err != nil {
			return err
		}
	}
	if s.sources == nil {
		return nil
	}
	if args.LayoutSelector != "" && s.options.Informers == nil {
		return errors.New("layoutSelector: only tenon-scheduler keeps all pods of a profile to the selected nodes: " +
			"run tenon-scheduler, or remove it")
	}
	s.started.Do(func() { s.startErr = s.follow(ctx, h) })
	return s.startErr
}

// follow starts to follow the API server.
func (s *Shared) follow(ctx context.Context, h fwk.Handle) error {
	s.any = h
	if s.options.Informers == nil {
		s.alone = true
		s.newQueue()
		s.waiting.Unheard()
	}
	api := follow.API{Config: h.KubeConfig(), Client: h.ClientSet(), Informers: h.SharedInformerFactory(),
		Recorder: h.EventRecorder()}
	if err := s.sources.Start(ctx, api, s.amounts, func() { s.workload.Learn(s.ownPods()) }); err != nil {
		return err
	}
	s.turns.Ask(ctx, h.ClientSet(), s.wake)
	if err := s.answerRequests(ctx, h); err != nil {
		return err
	}
	if _, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(s.podEvents()); err != nil {
		return fmt.Errorf("follow waiting pods: %w", err)
	}
	if s.alone {
		go s.waiting.Run(ctx, s.try)
	}
	s.topology = s.sources.Topologies()
	s.measure()
	return nil
}

// profiles returns the names of the profiles that have the plugin.
func (s *Shared) profiles() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.plugins {
		out[profileOf(p.handle)] = true
	}
	return out
}

// ownPods returns the pods of the profiles that have the plugin, whether they are scheduled already or not.
func (s *Shared) ownPods() (out []*v1.Pod) {
	profiles := s.profiles()
	for _, p := range s.amounts.Pods() {
		if profiles[p.Spec.SchedulerName] {
			out = append(out, p)
		}
	}
	return out
}

// Gatherer returns the counters of this scheduler, whether the process serves them or not.
func (s *Shared) Gatherer() basemetrics.Gatherer { return s.metrics.Gatherer() }

// Inspection returns what inspection and metrics show of the scheduler.
func (s *Shared) Inspection() inspect.Source {
	from := s.sources
	return inspect.Source{Book: s.Book, Decisions: s.Decisions, Mix: s.workload.Mix, Now: time.Now,
		Problem: from.Problem, Names: from.Names, Reported: from.Reported, Healthy: s.healthy,
		Election: s.options.Election}
}

// healthy returns an error if the ledger is not filled, or nil.
func (s *Shared) healthy() error {
	if len(s.plugins) == 0 {
		return errors.New("no profile enables the plugin: layouts and pods are not followed")
	}
	return s.sources.Healthy()
}

// measure registers metrics that are computed when they are scraped.
func (s *Shared) measure() {
	metrics.Measure(s.Inspection(), metrics.Measured{Delayed: s.Feed.Paced, Misaligned: s.sources.Misaligned,
		Wanted: func() map[string]int { return s.capacity.Load().Wanted() }, Shapes: s.fittingShapes(), Plain: s.amounts,
		Pool: s.fittingPool()})
}

// fittingPool returns the function for the pools of nodes that the arguments of the first profile with pools name, or
// nil.
func (s *Shared) fittingPool() func(node string) string {
	for _, p := range s.plugins {
		if label := p.args.FittingPool; label != "" {
			return func(node string) string {
				n := s.amounts.Node(node)
				if n == nil {
					return ""
				}
				return labels.Set(n.Labels).Get(label)
			}
		}
	}
	return nil
}

// fittingShapes returns the shapes that the arguments of the profiles name, each once.
func (s *Shared) fittingShapes() (out []*place.Pod) {
	seen := map[string]bool{}
	for _, p := range s.plugins {
		for _, text := range p.args.FittingShapes {
			if shape, err := config.ParseShape(text); err == nil && !seen[document.Shape(shape)] {
				seen[document.Shape(shape)] = true
				out = append(out, shape)
			}
		}
	}
	return out
}

func profileOf(h fwk.Handle) string {
	if h == nil {
		return ""
	}
	return fwk.ProfileName(h)
}

// wake retries pods that may fit on a node after a change of the ledger that no event announces. It returns at once.
func (s *Shared) wake(node string) {
	s.waiting.Observed(node)
}
