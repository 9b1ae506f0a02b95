package plugin

import (
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/state"
)

// evictions has the lists of tasks for which other plugins are being asked; see session.choose.
type evictions struct{ asked sync.Map }

func (s *session) preemptable(task *api.TaskInfo, all []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return s.choose(task, all, s.ssn.Preemptable)
}

func (s *session) reclaimable(task *api.TaskInfo, all []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return s.choose(task, all, s.ssn.Reclaimable)
}

// choose returns the cheapest set of tasks on a node without which a task would be aligned there. It chooses among
// the tasks that other plugins allow to evict. If the task is aligned without evictions, only plain amounts are
// short, and choose leaves the choice to other plugins. Volcano evicts at most the tasks that all plugins return,
// until the plain amounts suffice.
func (s *session) choose(task *api.TaskInfo, all []*api.TaskInfo,
	others func(*api.TaskInfo, []*api.TaskInfo) []*api.TaskInfo) ([]*api.TaskInfo, int) {
	a := s.of(task)
	if len(all) == 0 || a.plain() || a.err != nil || s.problem != nil {
		return nil, util.Abstain
	}
	if _, asked := s.victims.asked.LoadOrStore(&all[0], true); asked {
		return nil, util.Abstain
	}
	allowed := others(task, all)
	s.victims.asked.Delete(&all[0])
	node := s.ssn.Nodes[all[0].NodeName]
	if node == nil {
		return nil, util.Abstain
	}
	n := s.book.Snapshot().Node(node.Name)
	if s.guard.Distrusts(n) != 0 {
		return nil, util.Abstain
	}
	n = s.later(n, node, a.id.UID)
	if n.Takes(a.Pod, a.Demand) {
		return nil, util.Abstain
	}
	if s.args.KeepVictims || len(allowed) == 0 {
		return nil, util.Reject
	}
	return cheapest(a, n, allowed)
}

// cheapest returns the cheapest set of tasks without which the pod fits on a node.
func cheapest(a *ask, n *state.Node, allowed []*api.TaskInfo) ([]*api.TaskInfo, int) {
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
