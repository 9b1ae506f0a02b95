package sched

import (
	"hash/maphash"
	"math"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/core/ledger"
)

// This file finds pods that may preempt on a node that has changed: without all pods of lower priority they did not fit
// before, and fit now, because another pod has left. Only then they are tried again; pods of lower priority that come
// and go change nothing.

// residents are the pods of a node that may be evicted, read on first use.
type residents struct {
	node   string
	read   bool
	lowest int32
	// priority is by UID; leaving are those that are being deleted.
	priority map[string]int32
	leaving  map[string]bool
}

// of reads the pods of the node unless that was done.
func (r *residents) of(a *amounts) *residents {
	if r.read || a == nil {
		return r
	}
	r.read, r.lowest = true, math.MaxInt32
	r.priority, r.leaving = map[string]int32{}, map[string]bool{}
	here, err := a.pods.ByIndex(byNode, r.node)
	if err != nil {
		return r
	}
	for _, o := range here {
		p, ok := o.(*v1.Pod)
		switch {
		case !ok:
		case p.DeletionTimestamp != nil:
			r.leaving[string(p.UID)] = true
		default:
			rank := corev1helpers.PodPriority(p)
			r.priority[string(p.UID)], r.lowest = rank, min(r.lowest, rank)
		}
	}
	return r
}

// split returns the pods that are leaving the node, those that may go for one of a priority, and a sum of the others.
func (r *residents) split(n *ledger.Node, rank int32, seed maphash.Seed) (leaving, lower []string, others uint64) {
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

// evictions remembers where pods of one class were woken because they may evict others: once for each set of pods that
// stay. The zero evictions is empty.
type evictions struct {
	// woken has a sum of the UIDs of the pods that stay.
	woken map[eviction]uint64
}

// eviction is a node, and the pods of one priority that may evict others there.
type eviction struct {
	node string
	rank int32
}

// maxEvictions bounds what is remembered of a class; what is forgotten is tried once more.
const maxEvictions = 1024

// mayEvict reports whether a pod of the class that does not fit the node would do so without all pods of lower
// priority, and pods of its priority were not woken for that yet, beside those who stay there.
func (c *podClass) mayEvict(x wokenPod, n *ledger.Node, on *residents, seed maphash.Seed) bool {
	p, rank := c.plugin, corev1helpers.PodPriority(x.pod)
	if n == nil || p.preemption == nil || p.args.KeepVictims || !p.knows(n) || n.Doubtful() != "" ||
		x.pod.Spec.PreemptionPolicy != nil &&
			*x.pod.Spec.PreemptionPolicy == v1.PreemptNever || on.of(p.amounts).lowest >= rank {
		return false
	}
	leaving, lower, others := on.split(n, rank, seed)
	key := eviction{n.Name, rank}
	if was, tried := c.woken[key]; tried && was == others || len(lower) == 0 {
		return false
	}
	if n = n.Without(leaving...); len(leaving) > 0 && p.aligns(c.state, n) || !p.aligns(c.state, n.Without(lower...)) {
		return false
	}
	if c.woken == nil || len(c.woken) >= maxEvictions {
		c.woken = map[eviction]uint64{}
	}
	c.woken[key] = others
	return true
}
