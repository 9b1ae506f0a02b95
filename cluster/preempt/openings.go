package preempt

import (
	"hash/maphash"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// This file finds pods that may preempt on a node that has changed: without all pods of lower priority they did not fit
// before, and fit now, because another pod has left. Only then they are tried again; pods of lower priority that come
// and go change nothing.

// Residents are the pods of one node by their priorities.
type Residents struct {
	lowest int32
	// priority is by UID; leaving are those that are being deleted.
	priority map[string]int32
	leaving  map[string]bool
}

// NewResidents returns the pods of a node.
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

// split returns the pods that are leaving the node, those that may go for one of a priority, and a sum of the others.
func (r *Residents) split(n *ledger.Node, rank int32, seed maphash.Seed) (leaving, lower []string, others uint64) {
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

// Openings remembers where pods of one kind were woken because they may evict others: once for each set of pods that
// stay. The zero Openings is empty.
type Openings struct {
	// woken has a sum of the UIDs of the pods that stay.
	woken map[opening]uint64
}

// opening is a node, and the pods of one priority that may evict others there.
type opening struct {
	node string
	rank int32
}

// maxOpenings bounds what is remembered of a kind; what is forgotten is tried once more.
const maxOpenings = 1024

// Opens reports whether a pod that does not fit on the node would fit without all pods of lower priority, and pods of
// its priority were not woken for that yet beside the pods that stay. p and d are what the pod asks for.
func (o *Openings) Opens(pod *v1.Pod, p *place.Pod, d place.Demand, n *ledger.Node, r *Residents,
	seed maphash.Seed) bool {
	rank := corev1.PodPriority(pod)
	if n.Doubtful() != "" || !Preempts(pod) || r.lowest >= rank {
		return false
	}
	leaving, lower, others := r.split(n, rank, seed)
	key := opening{n.Name, rank}
	if was, tried := o.woken[key]; tried && was == others || len(lower) == 0 {
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

// Preempts reports whether a pod's own policy lets it evict others.
func Preempts(pod *v1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != v1.PreemptNever
}
