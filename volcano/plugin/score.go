package plugin

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// scores returns a score for each of the nodes: 0 to 100, times the plugin's weight. It returns nil for a task that
// the plugin does not judge.
func (s *session) scores(task *api.TaskInfo, nodes []*api.NodeInfo) (map[string]float64, error) {
	a := s.requestOf(task)
	if a.plain() || a.err != nil || s.problem != nil {
		return nil, nil
	}
	snap, costs := s.book.Snapshot(), make([]int64, len(nodes))
	for i, node := range nodes {
		costs[i] = s.costOn(a, snap.Node(node.Name), task, node)
	}
	a.strategy.Scores(costs)
	out := make(map[string]float64, len(nodes))
	for i, node := range nodes {
		out[node.Name] = float64(costs[i]) * float64(s.args.weight)
	}
	return out, nil
}

// costOn returns the cost of the task on a node. n is the ledger's state of the node, or nil.
func (s *session) costOn(a *taskRequest, n *state.Node, task *api.TaskInfo, node *api.NodeInfo) int64 {
	if !s.guard.Knows(n) {
		return a.strategy.Unknown()
	}
	if cost, r := s.answer(a, n); r == nil {
		return cost
	}
	then := s.stateAfterSession(n, node, a.id.UID) // the task does not fit now, so it would be pipelined
	return a.cost(then, then.Place(a.Pod, a.Demand))
}

// cost returns the cost of the task on a node where it would hold what verdict v has.
func (a *taskRequest) cost(n *state.Node, v place.Verdict) int64 {
	return a.strategy.Cost(n.Usage, a.Pod, v, n.Quality == state.Estimated) + a.strategy.Wait(n.Waits(a.Shape))
}
