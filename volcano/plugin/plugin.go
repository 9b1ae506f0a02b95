// Package plugin is Tenon's plugin for Volcano's scheduler: one file per group of session functions, each of which
// translates, calls core, and translates back.
//
// Invariant: a pod is bound only to a node whose kubelet gives it what was predicted, as far as the ledger knows. Tasks
// of a job are booked while the job is allocated. What a session does not commit is given back when the session drops
// it, and at its end at the latest, so that a gang that is not complete holds nothing. The package refuses to guess: a
// pod whose demand it does not understand is not scheduled, nor is any pod that needs alignment under arguments that
// cannot be read.
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

// Scheduler is what lives as long as the scheduler. Volcano makes a plugin for every session, and each of them has the
// same Scheduler.
type Scheduler struct {
	ctx       context.Context //nolint:containedctx // sessions have no context, and the first of them starts informers
	logger    klog.Logger
	onOutcome func(state.Outcome)
	counters  *metrics.Counters

	answers  answers.Table
	workload booking.Workload
	turns    booking.Line

	mu      sync.Mutex
	pending map[string]*reservation // by UID: those that were committed, and are not known to be bound
	sources *follow.Sources
	amounts *follow.Amounts // nil until the first session
	started bool
	problem string // of the last session
}

// New returns a scheduler whose ledger follows the API server of its first session, until ctx ends. onOutcome, if not
// nil, receives how every prediction came out. It must return quickly.
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

// Sources returns what fills the ledger.
func (s *Scheduler) Sources() *follow.Sources {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources
}

// tell logs what keeps sessions from judging pods, when that changes.
func (s *Scheduler) tell(problem error) {
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

// start begins to follow the API server, unless that was begun before. An error leaves everything as it was, and the
// next session tries again.
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

// follow starts informers of the ledger's own. Volcano writes the node of a task that it tries into the pod object that
// its informer has, so that object does not say where a pod is.
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

// trim drops what the ledger does not read of pods and nodes.
func trim(o any) (any, error) {
	switch t := o.(type) {
	case *v1.Pod:
		t.ManagedFields = nil
	case *v1.Node:
		t.ManagedFields, t.Status.Images = nil, nil
	}
	return o, nil
}
