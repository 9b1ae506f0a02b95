package kube

import (
	"slices"
	"time"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
)

// This file ends doubts about nodes with amounts only by time. An exporter that finds nothing new writes the same
// object, and the API server makes no event of that: a report that nobody understands would never be followed by
// another one.

const (
	// settlePeriod is how long an exporter takes to look at its node again, and its report to come. By default
	// resource-topology-exporter and NFD's topology updater look once a minute.
	settlePeriod = 2 * time.Minute
	// maxPast bounds the pods that ended longer ago and are remembered for a node.
	maxPast = 64
)

// seen returns which pods of a node were admitted, and which ended, longer than settlePeriod ago.
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

// settled notes that a pod was admitted longer than settlePeriod ago. Where the amounts are not known to account
// for it, the last report of its node is read again.
func (f *Feed) settled(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bound.pods[p.id.UID] != p {
		return // it ended since
	}
	p.settled = true
	if c := f.coarse[p.node]; c != nil && c.counts && (f.doubtful(p.node) || f.book.Booked(p.node, p.id.UID)) {
		f.again(p.node, c)
	}
}

// over notes that a pod ended longer than settlePeriod ago. Where its node is in doubt, the last report is read
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
	if f.doubtful(p.node) {
		f.again(p.node, c)
	}
}

func (f *Feed) doubtful(node string) bool {
	n := f.book.Snapshot().Node(node)
	return n != nil && n.Unsettled
}

// again reads the last report of a node again, with what the time that has passed says of pods.
func (f *Feed) again(node string, c *coarse) {
	r, err := nrt.ReadOn(c.object, f.machines.New)
	if err != nil {
		return // it was refused when it came
	}
	a := &ledger.Amounts{Again: true}
	if c.told {
		if a.Counts = f.byNow(node, c, r); a.Counts == nil {
			return // the report is older than that
		}
	}
	f.report(node, c, r, a)
	f.later(0, func() { f.onFreed(node) })
}

// byNow says which pods the amounts of a node account for, if the exporter has looked since pods were admitted,
// and ended, longer than settlePeriod ago; nil where the fingerprint does not agree.
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
			out[p.id.UID] = true
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
