package candidates

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenon-numa/tenon/core/sample"
)

// mayLeaveOut reports whether nodes that fit may be left out. That is allowed only where nothing but Tenon's answer
// and amounts makes nodes differ for the pod, and where the configuration does not set how many nodes to score.
func (s *Selector) mayLeaveOut(a *Attempt) bool {
	return !a.Picky && s.percent == 0 && !requiresMore(a.Pod) && len(s.handle.Extenders()) == 0
}

// requiresMore reports whether a pod requires more of a node than resources. For such a pod, all nodes of a
// sample may fail where others would pass.
func requiresMore(pod *v1.Pod) bool {
	spec := &pod.Spec
	return spec.Affinity != nil || len(spec.NodeSelector) > 0 || len(spec.TopologySpreadConstraints) > 0 ||
		len(spec.ResourceClaims) > 0 || spec.NodeName != "" || pod.Status.NominatedNodeName != "" ||
		slices.ContainsFunc(
			spec.Volumes,
			func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil },
		)
}

// manyKeepOthersAway reports whether many nodes have pods with required anti-affinity. These pods make PreFilter
// slow, and PreFilter runs once more for a sample.
func (s *Selector) manyKeepOthersAway() bool {
	nodes, err := s.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return err != nil || len(nodes) > sample.Size
}

// proven reports whether enough of the named nodes pass all filters: sample.Proven of them, before as many do not pass.
// Of all nodes that may take the pod (every), one that passes is enough. It returns false, too, if another plugin names
// nodes. It first runs PreFilter of all plugins on a copy of the state, since no plugin can filter before that.
func (s *Selector) proven(ctx context.Context, a *Attempt, names sets.Set[string], every bool) bool {
	cs := a.Again()
	result, status, _ := s.begin.RunPreFilterPlugins(ctx, cs, a.Pod)
	if !status.IsSuccess() || !result.AllNodes() {
		return false
	}
	nodes, passed, failed := s.handle.SnapshotSharedLister().NodeInfos(), 0, 0
	for name := range names {
		info, err := nodes.Get(name)
		if err == nil && s.handle.RunFilterPluginsWithNominatedPods(ctx, cs, a.Pod, info).IsSuccess() {
			passed++
		} else {
			failed++
		}
		if passed == sample.Proven || failed == sample.Proven {
			return passed > failed
		}
	}
	return every && passed > 0
}
