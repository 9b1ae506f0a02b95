package plugin

import (
	"slices"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/state"
)

// evictions has the lists of candidates for which choose is asking other plugins at present.
type evictions struct{ asking sync.Map }

// preemptable returns the candidates that preemption may evict for the task, and a vote; see choose.
func (s *session) preemptable(task *api.TaskInfo, all []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return s.choose(task, all, s.ssn.Preemptable)
}

// reclaimable returns the candidates that the task's queue may reclaim, and a vote; see choose.
func (s *session) reclaimable(task *api.TaskInfo, all []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return s.choose(task, all, s.ssn.Reclaimable)
}

// choose returns the cheapest set of candidates without which the task would be aligned on their node, and a vote. It
// takes only candidates that the other plugins allow to evict, and none that the task has to be together with. It
// abstains if the task is aligned without evictions: then only plain amounts are short, and other plugins choose. It
// rejects if no set is enough. Volcano evicts only tasks that all voting plugins return, until the plain amounts
// suffice.
//
// The last argument asks all plugins, also choose itself; that inner call abstains.
func (s *session) choose(task *api.TaskInfo, all []*api.TaskInfo,
	others func(*api.TaskInfo, []*api.TaskInfo) []*api.TaskInfo) ([]*api.TaskInfo, int) {
	a := s.requestOf(task)
	if len(all) == 0 || a.plain() || a.err != nil || s.problem != nil {
		return nil, util.Abstain
	}
	if _, asked := s.victims.asking.LoadOrStore(&all[0], true); asked {
		return nil, util.Abstain
	}
	allowed := others(task, all)
	s.victims.asking.Delete(&all[0])
	node := s.ssn.Nodes[all[0].NodeName]
	if node == nil {
		return nil, util.Abstain
	}
	n := s.book.Snapshot().Node(node.Name)
	if s.guard.Distrusts(n) != 0 {
		return nil, util.Abstain
	}
	key := a.Demand.Together
	if at := s.book.Together(key); at != "" && at != node.Name {
		return nil, util.Reject
	}
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(t *api.TaskInfo) bool {
		return key != "" && pod.Relations(t.Pod).Together == key
	})
	n = s.stateAfterSession(n, node, a.id.UID)
	if n.Takes(a.Pod, a.Demand) {
		return nil, util.Abstain
	}
	if s.args.KeepVictims || len(allowed) == 0 {
		return nil, util.Reject
	}
	return cheapest(a, n, allowed)
}

// cheapest returns the cheapest set of the allowed tasks without which the pod fits on node n, with a vote to permit
// it. If no set is enough, it votes to reject.
func cheapest(a *taskRequest, n *state.Node, allowed []*api.TaskInfo) ([]*api.TaskInfo, int) {
	p := evict.Problem{Works: func(gone []int) bool {
		uids := make([]string, 0, len(gone))
		for _, i := range gone {
			uids = append(uids, string(allowed[i].Pod.UID))
		}
		return n.Without(uids...).Takes(a.Pod, a.Demand)
	}}
	for _, t := range allowed {
		v := evict.Victim{Priority: t.Priority}
		if t.Pod.Status.StartTime != nil {
			v.Started = t.Pod.Status.StartTime.Unix()
		}
		p.Victims = append(p.Victims, v)
	}
	best, ok := evict.Choose(p)
	if !ok {
		return nil, util.Reject
	}
	out := make([]*api.TaskInfo, 0, len(best.Set))
	for _, i := range best.Set {
		out = append(out, allowed[i])
	}
	return out, util.Permit
}
