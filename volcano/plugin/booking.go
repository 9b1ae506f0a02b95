package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
)

// reservation is the ledger's booking for one task that this session has allocated.
type reservation struct {
	*taskRequest
	task      *api.TaskInfo
	node      string
	committed bool
	gang      *gang // nil until the statement is committed
}

// allocate books what an allocated task will hold. It computes the verdict again under the ledger's lock, since the
// node may have changed since the predicate ran. For a pipelined task it books nothing, because the node is not free
// yet; it checks that the task will fit once the node is. If it sets event.Err, Volcano takes the allocation back.
func (s *session) allocate(event *framework.Event) {
	a := s.requestOf(event.Task)
	if a.plain() {
		return
	}
	switch event.Task.Status {
	case api.Allocated:
		event.Err = s.reserve(a, event.Task)
	case api.Pipelined:
		event.Err = s.pipeline(a, event.Task)
	}
}

// reserve books an allocated task. It returns an error if the task does not fit, and books nothing for a task that
// would hold nothing or goes to a node without data.
func (s *session) reserve(a *taskRequest, task *api.TaskInfo) error {
	n, err := s.stateFor(a, task, &api.NodeInfo{Name: task.NodeName})
	if n == nil || err != nil {
		return err
	}
	v, known := s.book.Reserve(n.Name, a.id, a.Pod, a.Demand)
	switch {
	case !known && s.guard.LetsUnknown(a.Demand):
		return nil
	case !known:
		return fmt.Errorf("node %s: its layout has gone", n.Name)
	case !v.Fits():
		return refusal(n.Name, a.Pod, v)
	case len(v.Holdings) == 0:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &reservation{taskRequest: a, task: task, node: n.Name}
	s.booked[a.UID] = b
	s.order = append(s.order, b)
	return nil
}

// refusal returns the error for a verdict that refuses a pod.
func refusal(node string, pod *place.Pod, v place.Verdict) error {
	return fmt.Errorf("node %s: %s", node, strings.Join(texts(pod, v.Refusal, v.Reasons), ", "))
}

// pipeline returns an error if a task does not fit on its node once the node's expected changes have happened.
func (s *session) pipeline(a *taskRequest, task *api.TaskInfo) error {
	node := s.ssn.Nodes[task.NodeName]
	if node == nil {
		return nil
	}
	n, err := s.stateFor(a, task, node)
	if n == nil || err != nil {
		return err
	}
	if v := s.stateAfterSession(n, node, a.id.UID).Place(a.Pod, a.Demand); !v.Fits() {
		return refusal(n.Name, a.Pod, v)
	}
	return nil
}

// deallocate ends the booking of a task that is pending again. A task that is being evicted still holds its
// resources.
func (s *session) deallocate(event *framework.Event) {
	if event.Task.Status != api.Pending {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.booked[string(event.Task.Pod.UID)]; b != nil {
		s.endBooking(b)
	}
}

// endBooking ends a booking. The caller holds s.mu.
func (s *session) endBooking(b *reservation) {
	s.book.Unreserve(b.UID)
	delete(s.booked, b.UID)
	s.order = slices.DeleteFunc(s.order, func(o *reservation) bool { return o == b })
}

// SetupBindContextExtension implements framework.BindContextHandler. Volcano calls it for every task of a statement
// that it commits. The call for the first task of a job makes the gang of all booked tasks of that job.
func (s *session) SetupBindContextExtension(_ *k8sframework.CycleState, bind *cache.BindContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.booked[string(bind.TaskInfo.Pod.UID)]
	if b == nil {
		return
	}
	if b.gang == nil {
		g := &gang{book: s.book, timeout: s.args.TurnTimeoutSeconds}
		for _, other := range s.order {
			if other.gang == nil && other.task.Job == b.task.Job {
				other.gang = g
				g.members = append(g.members, other)
			}
		}
	}
	b.committed = true
	s.counters.Made()
	bind.Extensions[Name] = b
	s.markCommitted(b)
	if err := s.writeDecision(b, bind.TaskInfo); err != nil {
		s.logger.Error(err, "The agent decides where the pod runs", "pod", b.id.String(), "node", b.node)
	}
}

// markCommitted records that Volcano will now try to bind a task; see endUnbound.
func (s *Scheduler) markCommitted(b *reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[b.UID] = b
}

// writeDecision writes the decision into the task's pod if the node's agent assigns CPUs itself. Volcano's binder
// copies the pod's annotations into the binding, and the API server adds them to the pod. The task gets a copy of the
// pod, because an informer shares the original.
func (s *session) writeDecision(b *reservation, task *api.TaskInfo) error {
	n := s.book.Snapshot().Node(b.node)
	if n == nil || n.Rules.Arbiter != place.ByAgent {
		return nil
	}
	decided := s.book.Decision(b.UID)
	if len(decided) == 0 {
		return errors.New("no decision is booked")
	}
	text, err := v1alpha1.DecisionText(n.Machine, b.UID, b.node, decided)
	if err != nil {
		return err
	}
	task.Pod = task.Pod.DeepCopy()
	if task.Pod.Annotations == nil {
		task.Pod.Annotations = map[string]string{}
	}
	task.Pod.Annotations[v1alpha1.DecisionAnnotation] = text
	return nil
}
