package kube

import (
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// A node's events are applied at once while the node stays below its pace. An agent writes at most once in 200 ms by
// default (--interval), and only while pods come and go all the time, so correct agents seldom reach the pace and
// never for long. For a faster node, only the latest event counts, once in paceInterval: reading a layout costs the
// scheduler more than writing it costs the node.
const (
	paceBurst    = 50
	paceInterval = time.Second / 4
)

// pace limits the rate of a node's events. bucket is how many ordinary events may be applied now; it grows by one
// every paceInterval, up to paceBurst.
type pace struct {
	bucket int
	filled time.Time // the time up to which the bucket was filled
	// latest is the event that waits for its time, or nil.
	latest func()
	weight int // of latest
}

// weight returns how many ordinary events a layout counts for. Reading a layout takes time in proportion to its parts
// and to the parts of the base that it continues. f.mu is held.
func (f *Feed) weight(l *v1alpha1.NodeLayout) int {
	parts := l.Parts()
	if b := f.base[l.Name]; l.Base != 0 && b != nil {
		parts += b.Parts
	}
	return 1 + parts/partsOf
}

// partsOf is how many parts of a layout count as one event.
const partsOf = 512

// spend reports whether an event of this weight may be applied now and, if so, takes the weight from the bucket. A
// weight above paceBurst counts as paceBurst.
func (p *pace) spend(now time.Time, weight int) bool {
	if n := int(min(now.Sub(p.filled)/paceInterval, paceBurst)); n > 0 {
		p.bucket = min(paceBurst, p.bucket+n)
		p.filled = p.filled.Add(time.Duration(n) * paceInterval)
		if p.bucket == paceBurst {
			p.filled = now
		}
	}
	if weight = min(weight, paceBurst); p.bucket < weight {
		return false
	}
	p.bucket -= weight
	return true
}

// atPace applies an event of a node's layout by calling do. If the node is above its pace, it keeps do until the pace
// allows the event; an event that arrives before then replaces the kept one. f.mu is held.
func (f *Feed) atPace(node string, weight int, do func()) {
	now := f.now()
	p := f.paces[node]
	if p == nil {
		f.forgetPaces(now)
		p = &pace{bucket: paceBurst, filled: now}
		f.paces[node] = p
	}
	switch {
	case p.latest != nil:
		p.latest, p.weight = do, weight
	case p.spend(now, weight):
		do()
		return
	default:
		p.latest, p.weight = do, weight
		f.later(paceInterval, func() { f.catchUp(node) })
	}
	f.paced.Add(1)
}

// catchUp applies the latest event of a node as soon as the node's pace allows it.
func (f *Feed) catchUp(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.paces[node]
	if p == nil || p.latest == nil {
		return
	}
	if !p.spend(f.now(), p.weight) {
		f.later(paceInterval, func() { f.catchUp(node) })
		return
	}
	do := p.latest
	p.latest = nil
	do()
}

// forgetPaces drops the paces of nodes that have no layout and had no recent event. After that, it does nothing until
// the number of paces has doubled and is at least 64.
func (f *Feed) forgetPaces(now time.Time) {
	if len(f.paces) < f.sweep {
		return
	}
	for node, p := range f.paces {
		if _, known := f.versions[node]; !known && p.latest == nil && now.Sub(p.filled) > paceBurst*paceInterval {
			delete(f.paces, node)
		}
	}
	f.sweep = max(64, 2*len(f.paces))
}

// Paced returns the number of layout events that were delayed because their node writes faster than its pace. The
// last event of a node is applied when its time comes; events before it are skipped.
func (f *Feed) Paced() int64 { return f.paced.Load() }
