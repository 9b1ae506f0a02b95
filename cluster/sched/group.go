package sched

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// groupKey is the key of a groupState in the state of a cycle.
const groupKey fwk.StateKey = "tenon.sh/affinity-group"

// groupState has how many pods of the pod's affinity group each candidate has, for a pod that shares CPUs.
type groupState map[string]int64

// Clone implements fwk.StateData. The state does not change after PreScore.
func (g groupState) Clone() fwk.StateData { return g }

// group returns the affinity group of a pod, "" for none.
func group(pod *v1.Pod) string { return pod.Annotations[v1alpha1.AffinityGroupAnnotation] }

// preScoreGroup counts the pods of the pod's affinity group on the candidates. It skips pods without a group, and those
// whose group has no pod on any of them.
func preScoreGroup(cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	name := group(pod)
	if name == "" {
		return fwk.NewStatus(fwk.Skip)
	}
	counts := groupState{}
	for _, info := range nodes {
		for _, other := range info.GetPods() {
			if o := other.GetPod(); o.Namespace == pod.Namespace && group(o) == name && o.DeletionTimestamp == nil {
				counts[info.Node().Name]++
			}
		}
	}
	if len(counts) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	cs.Write(groupKey, counts)
	return nil
}

// scoreGroup returns how many pods of the pod's affinity group a node has.
func scoreGroup(cs fwk.CycleState, node string) int64 {
	if d, err := cs.Read(groupKey); err == nil {
		if g, ok := d.(groupState); ok {
			return g[node]
		}
	}
	return 0
}

// normalizeGroup gives the node with the most pods of the group the best score, and the others in proportion.
func normalizeGroup(scores fwk.NodeScoreList) {
	var most int64
	for _, s := range scores {
		most = max(most, s.Score)
	}
	for i := range scores {
		if most > 0 {
			scores[i].Score = scores[i].Score * fwk.MaxNodeScore / most
		}
	}
}
