package plugin

import (
	"cmp"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/guests/affinity"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// groupKey is the key of a groupState in the state of a cycle.
const groupKey fwk.StateKey = "tenon.sh/affinity-group"

// groupState has a number for each candidate node of a pod that shares CPUs. The number counts the pods of the same
// affinity group on the node, and counts once more the pods that would share a NUMA node with this pod.
type groupState map[string]int64

// Clone implements fwk.StateData. The state does not change after PreScore.
func (g groupState) Clone() fwk.StateData { return g }

// maxJoined bounds the nodes for which the pods on the same NUMA node are counted. The nodes with the most pods of
// the group are taken.
const maxJoined = 32

// preScoreGroup counts the pods of the pod's affinity group on the candidates. It returns Skip if the pod has no
// group, or if no candidate has a pod of the group.
func (p *Plugin) preScoreGroup(cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	group := apipod.AffinityGroup(pod)
	if group == "" {
		return fwk.NewStatus(fwk.Skip)
	}
	counts := groupState{}
	var with []fwk.NodeInfo
	for _, info := range nodes {
		n := int64(0)
		for _, other := range info.GetPods() {
			if o := other.GetPod(); o.DeletionTimestamp == nil && apipod.AffinityGroup(o) == group {
				n++
			}
		}
		if n > 0 {
			counts[info.Node().Name] = n
			with = append(with, info)
		}
	}
	if len(counts) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	slices.SortStableFunc(with, func(a, b fwk.NodeInfo) int {
		return cmp.Compare(counts[b.Node().Name], counts[a.Node().Name])
	})
	snap := p.Book.Snapshot()
	for _, info := range with[:min(len(with), maxJoined)] {
		counts[info.Node().Name] += joins(snap.Node(info.Node().Name), pod, info)
	}
	cs.Write(groupKey, counts)
	return nil
}

// joins returns how many pods of its group the pod would share a NUMA node with on n. It decides as the node's agent
// does, by what pods request. It returns 0 if the node is not exact, or if its kubelet decides and not
// an agent.
func joins(n *state.Node, pod *v1.Pod, info fwk.NodeInfo) int64 {
	if n == nil || n.Quality != state.Exact || n.Rules.Arbiter != place.ByAgent {
		return 0
	}
	in := affinity.Input{NUMAs: affinity.Room(n.Machine, n.Rules, n.Usage.FreeCPUs(), held(n))}
	for _, other := range info.GetPods() {
		o := other.GetPod()
		if o.UID == pod.UID {
			continue
		}
		member := sharing(n, o)
		if o.DeletionTimestamp != nil {
			member.Group = "" // the pod leaves, and takes room until then
		}
		in.Pods = append(in.Pods, member)
	}
	with, err := affinity.Join(in, affinity.Defaults(), sharing(n, pod))
	if err != nil {
		return 0 // a pod without a UID, or too many pods: the number then has only its first part
	}
	return int64(with)
}

// sharing returns a pod in the form of package affinity: its group and its requests. If node n has the pod with
// exclusive CPUs or memory, the result has their NUMA node as well.
func sharing(n *state.Node, pod *v1.Pod) affinity.Pod {
	out := affinity.Pod{ID: string(pod.UID), NUMA: affinity.Nowhere, Group: apipod.AffinityGroup(pod)}
	out.MilliCPU, out.Bytes = apipod.Shares(pod)
	if e, holds := n.Entry(out.ID); holds {
		if at, exclusive := affinity.Held(n.Machine, e.Holdings); exclusive {
			out.NUMA, out.Exclusive = at, true
		}
	}
	return out
}

// held yields the holdings of all pods of a node.
func held(n *state.Node) iter.Seq[place.Holding] {
	return func(yield func(place.Holding) bool) {
		for _, e := range n.Entries {
			for _, h := range e.Holdings {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// scoreGroup returns the number of a node in the cycle's groupState, or 0 if it has none.
func scoreGroup(cs fwk.CycleState, node string) int64 {
	if d, err := cs.Read(groupKey); err == nil {
		if g, ok := d.(groupState); ok {
			return g[node]
		}
	}
	return 0
}

// normalizeGroup scales the numbers to scores: the highest number gets fwk.MaxNodeScore, and the others in
// proportion.
func normalizeGroup(scores fwk.NodeScoreList) {
	var highest int64
	for _, s := range scores {
		highest = max(highest, s.Score)
	}
	for i := range scores {
		if highest > 0 {
			scores[i].Score = scores[i].Score * fwk.MaxNodeScore / highest
		}
	}
}
