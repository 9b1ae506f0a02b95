package agent

import (
	"context"
	"time"
)

// published has the objects that the agent publishes, and when to read them. Watches report what other writers write.
// So the agent reads the objects only after such a report or a failed request. Otherwise it reads them rarely, in
// case a watch has missed a write.
type published struct {
	layout   *layoutWriter
	topology *topologyWriter // nil without a Publisher
	interval time.Duration   // between readings without a watch event
	next     time.Time       // when the next such reading is due
}

// due reports whether a full reconcile has to read all published objects, whatever the watches report.
func (p *published) due(now time.Time) bool { return !now.Before(p.next) }

// refresh reads the layout, and makes the publisher read its object with the next write, each only if that is
// necessary. An object must be read if it was never read, if a request about it failed, or if another writer wrote
// it. A full reconcile also reads an object whose watch is not open. It reads the layout while this agent stands by
// for another one, and both objects if due is set. The layout is always read from etcd: the API server's cache may
// not have the agent's own last write yet.
func (p *published) refresh(ctx context.Context, now time.Time, full, due bool) error {
	if t := p.topology; t != nil {
		t.planRead(!p.layout.started, due || full && !t.watch.open())
	}
	l := p.layout
	if err := l.refresh(ctx, now, due || full && (!l.watch.open() || l.base.blind() || l.claim.rival != nil)); err != nil {
		return err
	}
	for due && p.due(now) {
		p.next = p.next.Add(p.interval)
	}
	return nil
}
