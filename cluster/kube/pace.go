package kube

import (
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// A node's events are taken as they come while the node stays below its pace. An agent writes once in 200 ms at
// most by default (--interval), and that only while pods come and go all the time, so honest nodes seldom reach
// the pace and never for long. Of a node that is faster, the latest event alone counts, once in paceInterval:
// reading a layout costs the scheduler more than writing it costs the node.
const (
	paceBurst    = 50
	paceInterval = time.Second / 4
)

// pace is what is kept of a node's events. The bucket holds so many more events; it fills by one in paceInterval.
type pace struct {
	bucket int
	filled time.Time // up to then
	// latest is the event that waits for its time, nil if none does.
	latest func()
	weight int // of latest
}

// weight is how many ordinary events a layout counts for: to read it takes as long as it has parts.
func weight(l *v1alpha1.NodeLayout) int {
	containers, devices := 0, 0
	for i := range l.Holdings {
		containers += len(l.Holdings[i].Containers)
	}
	for i := range l.Machine.Devices {
		devices += len(l.Machine.Devices[i].Groups)
		for k := range l.Machine.Devices[i].Groups {
			devices += len(l.Machine.Devices[i].Groups[k].IDs)
		}
	}
	return 1 + containers/512 + len(l.Machine.CPUs)/512 + devices/1024
}

// take reports whether an event of some weight may be taken now.
func (p *pace) take(now time.Time, weight int) bool {
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

// atPace does what an event of a node's layout says: at once, or as soon as the pace allows, unless a later
// event has come by then. f.mu is held.
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
	case p.take(now, weight):
		do()
		return
	default:
		p.latest, p.weight = do, weight
		f.later(paceInterval, func() { f.catchUp(node) })
	}
	f.paced.Add(1)
}

// catchUp takes the event of a node that waited.
func (f *Feed) catchUp(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.paces[node]
	if p == nil || p.latest == nil {
		return
	}
	if !p.take(f.now(), p.weight) {
		f.later(paceInterval, func() { f.catchUp(node) })
		return
	}
	do := p.latest
	p.latest = nil
	do()
}

// forgetPaces drops the paces of nodes that have no layout and had no recent event, once there are twice as
// many as there were when that was done last.
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

// Paced counts the events of layouts that were put off because their node writes faster than its pace. The last
// one of a node is taken when its time comes, those before it are not taken at all.
func (f *Feed) Paced() int64 { return f.paced.Load() }
