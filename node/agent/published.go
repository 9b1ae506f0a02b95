package agent

import (
	"context"
	"time"
)

// published is the objects that the agent has at the API server, and when they have to be read. Watches report who
// else writes them, so they are read only where something is inconsistent, and seldom otherwise, in case a watch
// fails to report.
type published struct {
	layout   *layoutWriter
	topology *topologyWriter // nil without a Publisher
	interval time.Duration   // between readings that no watch asks for
	next     time.Time       // when the next of these is due
}

// due reports whether a full reconcile has to read everything whatever the watches report.
func (p *published) due(now time.Time) bool { return !now.Before(p.next) }

// refresh reads the objects where their watches are not enough. They are read from etcd where they were never read,
// a request for them failed, somebody else wrote them, or another agent stands before this one. A full reconcile
// reads those whose watch is not open, and all of them when that is due. The layout is always read from etcd: the
// API server's cache may not have the agent's own last write yet.
func (p *published) refresh(ctx context.Context, now time.Time, full, due bool) error {
	if t := p.topology; t != nil {
		t.planRead(!p.layout.started, due || full && !t.watch.open())
	}
	l := p.layout
	if err := l.refresh(ctx, now, due || full && (!l.watch.open() || l.claim.rival != nil)); err != nil {
		return err
	}
	for due && p.due(now) {
		p.next = p.next.Add(p.interval)
	}
	return nil
}
