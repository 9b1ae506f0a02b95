package plugin

import (
	"fmt"
	"sync"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/booking"
)

// session is the plugin in one of the scheduler's sessions.
type session struct {
	*Scheduler
	given   framework.Arguments
	args    arguments
	guard   guard.Guard
	problem error // why the plugin cannot judge pods, or nil

	ssn      *framework.Session
	book     *ledger.Book
	requests sync.Map // of tasks, by UID; values are *taskRequest
	victims  evictions

	mu      sync.Mutex
	booked  map[string]*reservation // by UID of the pod
	order   []*reservation          // in booking order
	futures map[string]future       // by node
}

// taskRequest is the request of one task.
type taskRequest struct {
	*booking.Request
	err      error
	id       state.PodID
	strategy score.Strategy
	// row has the cached refusals and costs of nodes. It has room for the slots below slots.
	row   *answers.Row
	slots int
}

var (
	_ framework.Plugin             = (*session)(nil)
	_ framework.BindContextHandler = (*session)(nil)
)

// Name implements framework.Plugin.
func (s *session) Name() string { return Name }

// OnSessionOpen implements framework.Plugin. It registers no functions for tasks that preemption adds or removes on
// trial, because simulated reads these changes from the node's task list, which Volcano itself keeps up to date.
func (s *session) OnSessionOpen(ssn *framework.Session) {
	s.ssn = ssn
	s.problem = s.prepare()
	s.logProblem(s.problem)
	s.endUnbound()
	ssn.AddPredicateFn(Name, s.predicate)
	ssn.AddBatchNodeOrderFn(Name, s.scores)
	ssn.AddSimulatePredicateFn(Name, s.simulated)
	ssn.AddPreemptableFn(Name, s.preemptable)
	ssn.AddReclaimableFn(Name, s.reclaimable)
	ssn.AddEventHandler(&framework.EventHandler{AllocateFunc: s.allocate, DeallocateFunc: s.deallocate})
	ssn.RegisterBinder(Name, s.Scheduler)
}

// prepare reads the arguments and starts to fill the ledger. It returns an error if the plugin cannot judge pods yet.
func (s *session) prepare() (err error) {
	started := s.start(s.ssn.ClientConfig())
	sources := s.Sources()
	s.book = sources.Book
	if started != nil {
		return started
	}
	if s.args, err = parse(s.given); err != nil {
		return fmt.Errorf("plugin %s: %w", Name, err)
	}
	s.guard = s.args.Guard()
	select {
	case <-sources.Ready():
		return nil
	default:
		return fmt.Errorf("node layouts and pods are still being read")
	}
}

// endUnbound ends the bookings of tasks that Volcano has committed but not bound. It is needed because Volcano calls
// neither PreBind nor PreBindRollBack of this plugin if another plugin fails before the task is bound; the task then
// waits again.
func (s *session) endUnbound() {
	s.Scheduler.mu.Lock()
	defer s.Scheduler.mu.Unlock()
	for uid, b := range s.pending {
		var task *api.TaskInfo
		if job := s.ssn.Jobs[b.task.Job]; job != nil {
			task = job.Tasks[b.task.UID]
		}
		switch {
		case task == nil && s.book.Booked(b.node, uid), task != nil && task.Status == api.Binding, s.turns.Unknown(uid):
			continue
		case task != nil && task.Status == api.Pending:
			s.book.Unreserve(uid)
		}
		delete(s.pending, uid)
	}
}

// OnSessionClose implements framework.Plugin. It ends the bookings that were not committed: Volcano does not commit a
// job that is allocated only in part, and does not report to plugins that it drops such a job.
func (s *session) OnSessionClose(*framework.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.order) - 1; i >= 0; i-- {
		if b := s.order[i]; !b.committed {
			s.endBooking(b)
		}
	}
}

// requestOf returns the request of a task, which is read once per session.
func (s *session) requestOf(task *api.TaskInfo) *taskRequest {
	if a, ok := s.requests.Load(task.UID); ok {
		return a.(*taskRequest)
	}
	a, _ := s.requests.LoadOrStore(task.UID, s.read(task))
	return a.(*taskRequest)
}

// read parses the request of a task. For a task that needs alignment, it also adds the pod to the workload profile,
// and finds the cached answers for pods of this kind.
func (s *session) read(task *api.TaskInfo) *taskRequest {
	a := &taskRequest{id: kube.ID(task.Pod)}
	if a.Request, a.err = booking.Read(task.Pod); a.err != nil || a.Pod.Plain() {
		return a
	}
	a.strategy = s.args.Strategy.Scoring()
	if a.Strategy != nil {
		a.strategy.Type = *a.Strategy
	}
	a.strategy.Mix, _ = s.workload.Add(a.UID, a.Pod)
	a.slots = s.book.Snapshot().Slots()
	kind := answers.Kind{Profile: s.profile(), Pod: a.Key, Demand: a.Demand, By: a.strategy.Type}
	a.row, _ = s.answers.Row(kind, a.Pod, a.strategy.Mix, a.slots)
	return a
}

// profile returns a text that differs for arguments that lead to different answers.
func (s *session) profile() string { return fmt.Sprint(s.args.Strategy) }

// plain reports whether the task needs no alignment on any node.
func (a *taskRequest) plain() bool { return a.err == nil && a.Pod.Plain() }

// refused returns the error that makes Volcano refuse a node. If permanent is true, it shows that evicting tasks does
// not help.
func refused(task *api.TaskInfo, node *api.NodeInfo, permanent bool, reasons ...string) error {
	code := api.Unschedulable
	if permanent {
		code = api.UnschedulableAndUnresolvable
	}
	out := make([]*api.Status, 0, len(reasons))
	for _, r := range reasons {
		out = append(out, &api.Status{Code: code, Reason: r, Plugin: Name})
	}
	klog.V(4).InfoS("Tenon refuses a node", "task", task.Name, "node", node.Name, "reasons", reasons)
	return api.NewFitErrWithStatus(task, node, out...)
}
