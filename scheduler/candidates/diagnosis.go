package candidates

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// fullDiagnosis has the complete diagnosis of the last attempt that left nodes out. Complete stores it, and Amend
// takes it.
type fullDiagnosis struct {
	mu   sync.Mutex
	last *framework.Diagnosis
}

// Complete filters the nodes that a failed attempt left out, and adds their statuses to all, which has the statuses
// of the attempt. again is a copy of the cycle's state in which no node is left out. Complete runs PreFilter of all
// plugins again on the same snapshot: in the failed attempt, the framework may have stopped PreFilter early, because
// the plugins so far named no common node. fits is true if one of the nodes takes the pod after all, because
// something has changed since nodes were named.
func (s *Selector) Complete(ctx context.Context, again fwk.CycleState, pod *v1.Pod,
	all *framework.NodeToStatus) (fits bool, err error) {
	d := &framework.Diagnosis{NodeToStatus: all}
	result, status, narrowers := s.begin.RunPreFilterPlugins(ctx, again, pod)
	d.UnschedulablePlugins = narrowers
	switch {
	case status.IsRejected():
		all.SetAbsentNodesStatus(status)
		d.PreFilterMsg = status.Message()
		d.AddPluginStatus(status)
	case !status.IsSuccess():
		return false, fmt.Errorf("begin the attempt for pod %s/%s with all nodes: %w", pod.Namespace, pod.Name,
			status.AsError())
	default:
		if fits, err = s.filter(ctx, again, pod, result, d); err != nil {
			return fits, err
		}
	}
	s.full.mu.Lock()
	s.full.last = d
	s.full.mu.Unlock()
	return fits, nil
}

// filter filters the nodes that have no status in d yet, except the nodes that other plugins leave out: the nodes
// that among does not name. It adds the refusals to d, and returns whether a node takes the pod.
func (s *Selector) filter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, among *fwk.PreFilterResult,
	d *framework.Diagnosis) (bool, error) {
	nodes, err := s.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	if !among.AllNodes() {
		// This is kube-scheduler's own text for nodes that plugins leave out in PreFilter.
		absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(d.UnschedulablePlugins)))
	}
	d.NodeToStatus.SetAbsentNodesStatus(absent)
	hasStatus := map[string]bool{}
	d.NodeToStatus.ForEachExplicitNode(func(name string, _ *fwk.Status) { hasStatus[name] = true })
	statuses, fits := make([]*fwk.Status, len(nodes)), atomic.Bool{}
	s.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		name := nodes[i].Node().Name
		if !hasStatus[name] && (among.AllNodes() || among.NodeNames.Has(name)) {
			statuses[i] = s.handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, nodes[i])
			if statuses[i].IsSuccess() {
				fits.Store(true)
			}
		}
	}, "nodes that were left out")
	for i, status := range statuses {
		switch name := nodes[i].Node().Name; {
		case status.Code() == fwk.Error:
			return fits.Load(), fmt.Errorf("filter node %s: %w", name, status.AsError())
		case !status.IsSuccess():
			d.NodeToStatus.Set(name, status)
			d.AddPluginStatus(status)
		}
	}
	return fits.Load(), nil
}

// Completed reports whether Complete has added the statuses of the left-out nodes to the statuses of this attempt.
func (s *Selector) Completed(all *framework.NodeToStatus) bool {
	s.full.mu.Lock()
	defer s.full.mu.Unlock()
	return s.full.last != nil && s.full.last.NodeToStatus == all
}

// Amend makes the diagnosis in a FitError the same as if the attempt had left no node out. It adds the plugins that
// refused the nodes, which PostFilter cannot do: PostFilter can add only the nodes' statuses. If the last call of
// Complete was for another attempt, Amend changes nothing.
func (s *Selector) Amend(why *framework.FitError) {
	s.full.mu.Lock()
	d := s.full.last
	sameAttempt := d != nil && d.NodeToStatus == why.Diagnosis.NodeToStatus
	if sameAttempt {
		s.full.last = nil
	}
	s.full.mu.Unlock()
	if sameAttempt {
		why.Diagnosis.PreFilterMsg = d.PreFilterMsg
		why.Diagnosis.UnschedulablePlugins = why.Diagnosis.UnschedulablePlugins.Union(d.UnschedulablePlugins)
		why.Diagnosis.PendingPlugins = why.Diagnosis.PendingPlugins.Union(d.PendingPlugins)
	}
}
