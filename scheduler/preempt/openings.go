package preempt

import (
	"hash/maphash"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file finds pods that may preempt on a node that has changed. Before the change, such a pod did not fit there
// even without all pods of lower priority; after it, the pod would fit without these, because another pod has left.
// Only such pods are tried again. Pods of lower priority that come and go make no difference to this.

// Residents are the pods of one node with their priorities, for Opens.
type Residents struct {
	lowest int32
	// priority and leaving are keyed by UID; leaving has the pods that are being deleted.
	priority map[string]int32
	leaving  map[string]bool
}

// NewResidents returns the Residents of a node that has these pods.
func NewResidents(pods []*v1.Pod) *Residents {
	r := &Residents{lowest: math.MaxInt32, priority: map[string]int32{}, leaving: map[string]bool{}}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			r.leaving[string(p.UID)] = true
			continue
		}
		rank := corev1.PodPriority(p)
		r.priority[string(p.UID)], r.lowest = rank, min(r.lowest, rank)
	}
	return r
}

// split sorts the ledger's pods of the node into three parts: it returns the UIDs of the pods that are leaving, the
// UIDs of the pods with a lower priority than rank, and a sum that identifies the set of all other pods, made of the
// hashes of their UIDs.
func (r *Residents) split(n *state.Node, rank int32, seed maphash.Seed) (leaving, lower []string, others uint64) {
	for _, e := range n.Entries {
		at, known := r.priority[e.Pod.UID]
		switch {
		case r.leaving[e.Pod.UID]:
			leaving = append(leaving, e.Pod.UID)
		case known && at < rank:
			lower = append(lower, e.Pod.UID)
		default:
			others += maphash.String(seed, e.Pod.UID)
		}
	}
	return leaving, lower, others
}

// Openings records where pods of one kind were woken because they may evict others there. They are woken once for
// each set of pods that would stay on the node. The zero Openings is empty.
type Openings struct {
	// woken has, for the pods that would have stayed, the sum that split returns.
	woken map[opening]uint64
}

// opening is a node, and the priority of the pods that may evict others there.
type opening struct {
	node string
	rank int32
}

// maxOpenings bounds the records of one kind. When a record is dropped, a pod is tried once more.
const maxOpenings = 1024

// Opens reports whether a pod that does not fit on the node would fit without all pods of lower priority. p and d are
// the pod's request. Opens returns true once for each priority and each set of pods that would stay; it returns false
// as well if the pod fits as soon as leaving pods have gone.
func (o *Openings) Opens(pod *v1.Pod, p *place.Pod, d place.Demand, n *state.Node, r *Residents,
	seed maphash.Seed) bool {
	rank := corev1.PodPriority(pod)
	if n.Doubtful() != "" || !Preempts(pod) || r.lowest >= rank {
		return false
	}
	leaving, lower, others := r.split(n, rank, seed)
	key := opening{n.Name, rank}
	if last, woken := o.woken[key]; woken && last == others || len(lower) == 0 {
		return false
	}
	n = n.Without(leaving...)
	if len(leaving) > 0 && n.Takes(p, d) || !n.Without(lower...).Takes(p, d) {
		return false
	}
	if o.woken == nil || len(o.woken) >= maxOpenings {
		o.woken = map[opening]uint64{}
	}
	o.woken[key] = others
	return true
}

// Preempts reports whether the pod's preemption policy lets it evict others.
func Preempts(pod *v1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != v1.PreemptNever
}
