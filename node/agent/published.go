package agent

import (
	"context"
	"time"
)

// published has the objects that the agent publishes, and when to read them. Watches report other writers, so the agent
// reads the objects only if something is inconsistent, and rarely otherwise, in case a watch fails to report.
type published struct {
	layout   *layoutWriter
	topology *topologyWriter // nil without a Publisher
	interval time.Duration   // between readings without a watch event
	next     time.Time       // when the next such reading is due
}

// due reports whether a full reconcile has to read all published objects, whatever the watches report.
func (p *published) due(now time.Time) bool { return !now.Before(p.next) }

// refresh reads the layout, and makes the publisher read its object with the next write, if the watches are not enough:
// if an object was never read, a request that had to read it failed, or another writer wrote it. A full reconcile also
// reads the objects whose watch is not open, the layout while this agent stands by for another one, and both when that
// is due. The layout is always read from etcd: the API server's cache may not have the agent's own last write yet.
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
