package plugin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/report"
)

const words = report.Words(config.Tenon)

// predicate refuses nodes whose kubelet would refuse the task. Volcano allocates a task where the plain amounts are
// free now, and pipelines it where they will be free once other tasks have left. So a task that is allocated has to
// fit on the node as it is and as it will be (see stateAfterSession); a task that is pipelined has to fit on the
// latter only.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	a := s.requestOf(task)
	if a.plain() {
		return nil
	}
	n, err := s.stateFor(a, task, node)
	if n == nil || err != nil {
		return err
	}
	if s.turns.Unknown(a.UID) {
		return refused(task, node, false, "the API server has not said yet whether it stored the task's last binding")
	}
	if s.turns.Has(a.UID, n.Name, n.News) {
		return refused(task, node, false, "node has not reported pods that it must admit before this one")
	}
	later := s.stateAfterSession(n, node, a.id.UID)
	if task.InitResreq.LessEqual(node.Idle, api.Zero) || later == n {
		if _, r := s.answer(a, n); r != nil {
			return refused(task, node, r.Permanent, r.Texts...)
		}
	}
	if later != n {
		if _, r := compute(a, later); r != nil {
			return refused(task, node, r.Permanent, r.Texts...)
		}
	}
	if why := s.guard.Refuses(later, a.Pod, a.Demand); why != 0 {
		return refused(task, node, permanent(why), report.Barred(why, n))
	}
	return nil
}

// simulated is the predicate that preemption uses. node is a copy that has fewer tasks than the real node.
func (s *session) simulated(_ context.Context, _ fwk.CycleState, task *api.TaskInfo, node *api.NodeInfo) error {
	a := s.requestOf(task)
	if a.plain() {
		return nil
	}
	n, err := s.stateFor(a, task, node)
	if n == nil || err != nil {
		return err
	}
	var gone []string
	if real := s.ssn.Nodes[node.Name]; real != nil {
		for key, t := range real.Tasks {
			if _, still := node.Tasks[key]; !still {
				gone = append(gone, string(t.Pod.UID))
			}
		}
	}
	slices.Sort(gone)
	if _, r := compute(a, s.stateAfter(n, changesOf(node, a.id.UID).without(gone))); r != nil {
		return refused(task, node, r.Permanent, r.Texts...)
	}
	return nil
}

// stateFor returns the ledger's state of a node by which the task is judged, or an error if the node is refused
// without a verdict. It returns nil and no error if the ledger does not have the node and the task may go there
// nevertheless.
func (s *session) stateFor(a *taskRequest, task *api.TaskInfo, node *api.NodeInfo) (*state.Node, error) {
	switch {
	case s.problem != nil:
		return nil, refused(task, node, true, s.problem.Error())
	case a.err != nil:
		return nil, refused(task, node, true, a.err.Error())
	}
	snap := s.book.Snapshot()
	if at := s.book.Together(a.Demand.Together); at != "" && at != node.Name {
		return nil, refused(task, node, true, texts(a.Pod, "", []place.Reason{place.Elsewhere(at)})...)
	}
	n := snap.Node(node.Name)
	switch why := s.guard.Distrusts(n); {
	case why == 0:
		return n, nil
	case n != nil:
		return nil, refused(task, node, permanent(why), report.Barred(why, n))
	case s.guard.LetsUnknown(a.Demand):
		return nil, nil
	}
	if why := s.Sources().Problem(node.Name); why != "" {
		return nil, refused(task, node, true, "what the node reports is refused: "+why)
	}
	return nil, refused(task, node, true, "node has no layout")
}

// permanent reports whether evictions cannot remove a bar.
func permanent(why guard.Bar) bool { return why == guard.OnlyEstimated || why == guard.IsInexact }

// answer returns the cost of the task on a node of the ledger, or why the task does not fit there. It caches answers.
func (s *session) answer(a *taskRequest, n *state.Node) (int64, *answers.Refusal) {
	snap := s.book.Snapshot()
	slot, ok := snap.Slot(n.Name)
	if !ok || slot >= a.slots {
		return compute(a, n)
	}
	return a.row.Answer(snap, slot, func(n *state.Node) (int64, *answers.Refusal) { return compute(a, n) })
}

// compute computes what answer returns, for a node in any state, also a hypothetical one.
func compute(a *taskRequest, n *state.Node) (int64, *answers.Refusal) {
	v := n.Place(a.Pod, a.Demand)
	if v.Fits() {
		return a.cost(n, v), nil
	}
	r := &answers.Refusal{Reasons: v.Reasons, Permanent: !n.FitsEmpty(a.Pod)}
	if r.Permanent {
		r.Reasons = n.Never(a.Pod)
	}
	r.Texts = texts(a.Pod, v.Refusal, r.Reasons)
	return 0, r
}

// texts renders the reasons of a refusal; without reasons, it returns the kubelet's reason, refusal. It returns at
// least one text.
func texts(pod *place.Pod, refusal place.RefusalReason, reasons []place.Reason) (out []string) {
	for _, r := range reasons {
		out = append(out, words.Reason(pod, r))
	}
	if len(out) == 0 {
		out = []string{string(refusal)}
	}
	return out
}

// changes are what a session expects to change on a node: the UIDs of the pods whose tasks are leaving it, and the
// tasks that are pipelined to it.
type changes struct {
	leaving []string
	coming  []*api.TaskInfo
}

// changesOf returns the changes of a node, leaving out the task of the pod with the UID except.
func changesOf(node *api.NodeInfo, except string) (out changes) {
	if node.Releasing.IsEmpty() && node.Pipelined.IsEmpty() {
		return out
	}
	for _, t := range node.Tasks {
		switch uid := string(t.Pod.UID); {
		case uid == except:
		case t.Status == api.Releasing:
			out.leaving = append(out.leaving, uid)
		case t.Status == api.Pipelined:
			out.coming = append(out.coming, t)
		}
	}
	slices.Sort(out.leaving)
	slices.SortFunc(out.coming, func(a, b *api.TaskInfo) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// without returns the changes with further pods, given by UID, that leave.
func (c changes) without(uids []string) changes {
	c.leaving = append(slices.Clone(c.leaving), uids...)
	return c
}

// text returns a text that is equal for two changes of one node only if they are equal.
func (c changes) text() string {
	var b strings.Builder
	for _, uid := range c.leaving {
		b.WriteString(uid + " ")
	}
	for _, t := range c.coming {
		b.WriteString("+" + string(t.UID) + " ")
	}
	return b.String()
}

// stateAfter returns the state of a node after the given changes. It leaves out coming tasks that do not fit.
func (s *session) stateAfter(n *state.Node, c changes) *state.Node {
	if len(c.leaving) > 0 {
		n = n.Without(c.leaving...)
	}
	for _, t := range c.coming {
		if a := s.requestOf(t); a.err == nil {
			n, _ = n.Join(a.id, a.Pod, a.Demand) // unchanged where the pod does not fit
		}
	}
	return n
}

// future caches a result of stateAfterSession: the node's state at present, the text of its changes, and its state
// after them.
type future struct {
	now, then *state.Node
	changes   string
}

// stateAfterSession returns the state of node n after the session's changes, leaving out changes by the pod with the
// UID except. It returns n itself if there are none.
func (s *session) stateAfterSession(n *state.Node, node *api.NodeInfo, except string) *state.Node {
	c := changesOf(node, except)
	if len(c.leaving) == 0 && len(c.coming) == 0 {
		return n
	}
	text := c.text()
	s.mu.Lock()
	f := s.futures[n.Name]
	s.mu.Unlock()
	if f.now == n && f.changes == text {
		return f.then
	}
	f = future{now: n, then: s.stateAfter(n, c), changes: text}
	s.mu.Lock()
	s.futures[n.Name] = f
	s.mu.Unlock()
	return f.then
}
