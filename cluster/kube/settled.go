package kube

import (
	"slices"
	"time"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/state"
)

// This file finds out which pods the amounts of a node contain, if the node reports amounts only, once enough time
// has passed that its exporter must have seen them. An exporter that finds no change writes the same object, and the
// API server sends no event for that. So a report whose fingerprint matched no set of pods may be the last one, and
// the feed reads it again later.

const (
	// settlePeriod is the longest time until an exporter has read its node again and its report has arrived. By default
	// resource-topology-exporter and NFD's topology updater read their node once a minute.
	settlePeriod = 2 * time.Minute
	// maxPast bounds the pods of a node that are kept although they ended longer ago than settlePeriod.
	maxPast = 64
)

// seen returns, by UID, the pods of a node that were admitted longer than settlePeriod ago, and in past the pods that
// ended longer ago than that.
func (f *Feed) seen(node string, c *coarse) (seen, past map[string]bool) {
	seen, past = map[string]bool{}, map[string]bool{}
	for _, p := range f.bound.on(node) {
		if p.settled {
			seen[p.id.UID] = true
		}
	}
	for _, uid := range c.past {
		past[uid] = true
	}
	return seen, past
}

// settled records that a pod was admitted longer than settlePeriod ago. If it is uncertain whether the amounts of its
// node contain the pod, settled reads the node's last report again.
func (f *Feed) settled(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bound.pods[p.id.UID] != p {
		return // it ended since
	}
	p.settled = true
	if c := f.coarse[p.node]; c != nil && c.counts && (f.unsettled(p.node) || f.book.Booked(p.node, p.id.UID)) {
		f.reread(p.node, c)
	}
}

// over records that a pod ended longer than settlePeriod ago. If its node is unsettled, over reads the last report
// again.
func (f *Feed) over(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.over = true
	c := f.coarse[p.node]
	if c == nil || !c.counts {
		return
	}
	c.past = append(c.past, p.id.UID)
	c.past = slices.Clone(c.past[max(0, len(c.past)-maxPast):])
	if f.unsettled(p.node) {
		f.reread(p.node, c)
	}
}

// unsettled reports whether more states of a node are possible than the ledger keeps.
func (f *Feed) unsettled(node string) bool {
	n := f.book.Snapshot().Node(node)
	return n != nil && n.Unsettled
}

// reread reads the last report of a node again, on the assumption that it counts the pods that were admitted longer
// than settlePeriod ago, and not those that ended longer ago than that.
func (f *Feed) reread(node string, c *coarse) {
	r, err := nrt.ReadOn(c.object(), f.machines.New)
	if err != nil {
		return // it was rejected when it arrived
	}
	a := &state.Amounts{Again: true}
	if c.accounted {
		if a.Counts = f.byNow(node, c, r); a.Counts == nil {
			return // the object lists its pods itself, or was written before the settled pods were admitted
		}
	}
	f.report(node, c, r, a)
	f.later(0, func() { f.onFreed(node) })
}

// byNow returns which pods the amounts of a node contain, by UID. It assumes that the exporter has read the node
// since the settled pods were admitted, and since the pods whose field over is set ended. It returns nil if the
// object lists its pods itself, or if no fingerprint confirms the assumption.
func (f *Feed) byNow(node string, c *coarse, r *nrt.Reading) map[string]bool {
	if r.Pods != nil {
		return nil
	}
	out := map[string]bool{}
	var sure, uncertain []nrt.Pod
	var fresh []*boundPod
	for _, p := range f.bound.on(node) {
		switch {
		case !noticed(p.spec, r):
			out[p.id.UID] = true // it holds nothing that the report has, so the report need not contain it
		case p.counted || p.settled:
			out[p.id.UID], sure = true, append(sure, named(p, false))
		case len(fresh) < maxUncertain:
			fresh, uncertain = append(fresh, p), append(uncertain, named(p, false))
		}
	}
	for _, p := range c.ended {
		if noticed(p.spec, r) && !p.over && len(fresh) < maxUncertain {
			fresh, uncertain = append(fresh, p), append(uncertain, named(p, true))
		}
	}
	is, ok := r.Counted(sure, uncertain)
	if !ok {
		return nil
	}
	for i, p := range fresh {
		out[p.id.UID] = is[i]
	}
	for _, p := range f.bound.on(node) {
		p.counted = p.counted || noticed(p.spec, r) && out[p.id.UID]
	}
	c.ended = slices.DeleteFunc(c.ended, func(p *boundPod) bool { return p.over })
	return out
}
