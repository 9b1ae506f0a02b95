package kube

import (
	"slices"
	"time"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/state"
)

// This file handles nodes that report amounts only. It reads the last report of such a node again once its exporter
// must have seen a pod, or a pod's end: the report then shows more about which pods the amounts contain. An exporter
// that finds no change writes the same object, and the API server sends no event for that. So no other report may
// come.
//
// A pod is settled if it was admitted longer than settlePeriod ago. A node is unsettled if more states of it are
// possible than the ledger keeps.

const (
	// settlePeriod is the longest time until an exporter has read its node again and its report has arrived. By
	// default resource-topology-exporter and NFD's topology updater read their node once a minute.
	settlePeriod = 2 * time.Minute
	// maxPast bounds the pods of a node that are kept although they ended longer ago than settlePeriod.
	maxPast = 64
)

// settledPods returns, by UID, the settled pods of a node, and in past the pods that ended longer than settlePeriod
// ago.
func (f *Feed) settledPods(node string, c *coarse) (settled, past map[string]bool) {
	settled, past = map[string]bool{}, map[string]bool{}
	for _, p := range f.bound.on(node) {
		if p.settled {
			settled[p.id.UID] = true
		}
	}
	for _, uid := range c.past {
		past[uid] = true
	}
	return settled, past
}

// settled is called settlePeriod after a pod was admitted. If it is uncertain whether the amounts of its node contain
// the pod, settled reads the node's last report again.
func (f *Feed) settled(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bound.pods[p.id.UID] != p {
		return // the pod has ended
	}
	p.settled = true
	if c := f.coarse[p.node]; c != nil && c.reported && (f.unsettled(p.node) || f.book.Booked(p.node, p.id.UID)) {
		f.reread(p.node, c)
	}
}

// longEnded is called settlePeriod after a pod ended. If the pod's node is unsettled, longEnded reads the node's last
// report again.
func (f *Feed) longEnded(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.longEnded = true
	c := f.coarse[p.node]
	if c == nil || !c.reported {
		return
	}
	c.past = append(c.past, p.id.UID)
	c.past = slices.Clone(c.past[max(0, len(c.past)-maxPast):])
	if f.unsettled(p.node) {
		f.reread(p.node, c)
	}
}

// unsettled reports whether a node is unsettled.
func (f *Feed) unsettled(node string) bool {
	n := f.book.Snapshot().Node(node)
	return n != nil && n.Unsettled
}

// reread reads the last report of a node again, on the assumption that it counts the settled pods, and not the pods
// that ended longer than settlePeriod ago.
func (f *Feed) reread(node string, c *coarse) {
	r, err := nrt.ReadOn(c.object(), f.machines.New)
	if err != nil {
		return // the report was rejected when it arrived
	}
	a := &state.Amounts{Again: true}
	if c.accounted {
		if a.Counts = f.containedNow(node, c, r); a.Counts == nil {
			return // the object lists its pods itself, or was written before the settled pods were admitted
		}
	}
	f.report(node, c, r, a)
	f.later(0, func() { f.onFreed(node) })
}

// containedNow returns which pods the amounts of a node contain, by UID. It assumes that the exporter has read the
// node since the settled pods were admitted, and since the pods whose field longEnded is set ended. It returns nil if
// the object lists its pods itself, or if the fingerprint does not confirm the assumption.
func (f *Feed) containedNow(node string, c *coarse, r *nrt.Reading) map[string]bool {
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
		if noticed(p.spec, r) && !p.longEnded && len(fresh) < maxUncertain {
			fresh, uncertain = append(fresh, p), append(uncertain, named(p, true))
		}
	}
	in, ok := r.Counted(sure, uncertain)
	if !ok {
		return nil
	}
	for i, p := range fresh {
		out[p.id.UID] = in[i]
	}
	for _, p := range f.bound.on(node) {
		p.counted = p.counted || noticed(p.spec, r) && out[p.id.UID]
	}
	c.ended = slices.DeleteFunc(c.ended, func(p *boundPod) bool { return p.longEnded })
	return out
}
