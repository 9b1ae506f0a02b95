// Package plugin is Tenon's plugin for Volcano's scheduler, with one file per group of session functions. Each
// function translates its arguments, calls core, and translates the result back.
//
// Invariant: according to the ledger, a pod is bound only to a node whose kubelet gives it what was predicted. The
// plugin books tasks while their job is allocated. A booking that the session does not commit ends when the session
// drops the task, or with the session at the latest, so that an incomplete gang holds nothing.
//
// The package refuses to guess. It does not schedule a pod with a demand that it cannot parse. Under arguments that it
// cannot read, it does not schedule pods that need alignment.
package plugin

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/booking"
	"github.com/tenon-numa/tenon/scheduler/follow"
	"github.com/tenon-numa/tenon/scheduler/metrics"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "tenon"

// Scheduler is the state that outlives sessions. Volcano makes a plugin for every session, and all of them share one
// Scheduler.
type Scheduler struct {
	ctx       context.Context //nolint:containedctx // sessions have no context, and the first of them starts informers
	logger    klog.Logger
	onOutcome func(state.Outcome)
	counters  *metrics.Counters

	answers  answers.Table
	workload booking.Workload
	turns    booking.Line

	mu      sync.Mutex
	pending map[string]*reservation // by UID: committed, and not yet known to be bound
	sources *follow.Sources
	amounts *follow.Amounts // nil until the first session
	started bool
	problem string // why the last session could not judge pods
}

// New returns a scheduler whose ledger follows the API server of its first session, until ctx ends. onOutcome, if not
// nil, receives the outcome of every prediction. It must return quickly.
func New(ctx context.Context, onOutcome func(state.Outcome)) *Scheduler {
	s := &Scheduler{ctx: ctx, logger: klog.FromContext(ctx).WithName(Name), onOutcome: onOutcome,
		counters: metrics.NewCounters(), pending: map[string]*reservation{}}
	s.sources = s.newSources()
	return s
}

// Build makes the plugin of one session. It is Volcano's framework.PluginBuilder.
func (s *Scheduler) Build(arguments framework.Arguments) framework.Plugin {
	return &session{Scheduler: s, given: arguments, booked: map[string]*reservation{}, futures: map[string]future{}}
}

// Sources returns what fills the ledger at present; start replaces it after an error.
func (s *Scheduler) Sources() *follow.Sources {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources
}

// logProblem logs the problem that keeps sessions from judging pods, if it has changed. It does not log a nil
// problem.
func (s *Scheduler) logProblem(problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprint(problem)
	if problem != nil && text != s.problem {
		s.logger.Error(problem, "Pods that need alignment are not scheduled")
	}
	s.problem = text
}

func (s *Scheduler) newSources() *follow.Sources {
	var sources *follow.Sources
	sources = follow.New(s.logger, follow.Options{Counters: s.counters, OnOutcome: func(o state.Outcome) {
		s.counters.Outcome(o, sources.Book.Snapshot().Node(o.Node))
		if s.onOutcome != nil {
			s.onOutcome(o)
		}
	}})
	return sources
}

// start begins to follow the API server, unless an earlier call has done so. After an error nothing is followed, and
// the next session tries again.
func (s *Scheduler) start(config *rest.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || config == nil {
		return nil
	}
	if err := s.follow(config); err != nil {
		s.sources = s.newSources()
		return err
	}
	s.started = true
	return nil
}

// follow starts informers for the ledger alone. It cannot use Volcano's, because Volcano writes tentative nodes into
// the pod objects of its own informer, so that these do not show where a pod is bound.
func (s *Scheduler) follow(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, Name))
	if err != nil {
		return fmt.Errorf("make client for pods: %w", err)
	}
	shared := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	pods, err := follow.NewAmounts(shared)
	if err != nil {
		return err
	}
	recorders := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	api := follow.API{Config: config, Client: client, Informers: shared,
		Recorder: recorders.NewRecorder(scheme.Scheme, Name)}
	if err := s.sources.Start(s.ctx, api, pods, func() {}); err != nil {
		recorders.Shutdown()
		return err
	}
	if err := recorders.StartRecordingToSinkWithContext(s.ctx); err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	s.amounts = pods
	s.turns.Ask(s.ctx, client, func(string) {}) // the next session tries every task
	shared.Start(s.ctx.Done())
	return nil
}

// trim drops fields of pods and nodes that the ledger does not read, to save memory.
func trim(o any) (any, error) {
	switch t := o.(type) {
	case *v1.Pod:
		t.ManagedFields = nil
	case *v1.Node:
		t.ManagedFields, t.Status.Images = nil, nil
	}
	return o, nil
}
