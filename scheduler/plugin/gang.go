package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/gangs"
)

// This file makes the members of a gang wait for each other before they are bound; see package gangs.

// joinGang notes that a pod was reserved, if it belongs to a gang and will be bound next. It notes nothing while a
// group cycle reserves pods only to see whether all of them fit. booked is false if the pod has no booking.
func (p *Plugin) joinGang(cs fwk.CycleState, pod *v1.Pod, node string, booked bool) {
	if p.handle == nil {
		return
	}
	if gang := fwk.GangOf(p.handle, cs, pod); gang != nil {
		p.gangs.Reserved(gang.Name(), gangs.Member{Booked: booked, Member: ledger.Member{UID: string(pod.UID),
			Created: pod.CreationTimestamp.Unix()}, Short: func() string {
			return p.missingAmounts(context.Background(), cs, pod, node) // the members stand still in PreBind meanwhile
		}}, gang, p.turnTimeout())
	}
}

// awaitGang blocks until the pod may be bound as far as its gang is concerned. For a pod of no gang it returns at once.
// The result waited is true if the gang had to wait for its turns. If the gang failed after a wait on this node, the
// pod is not scheduled to the node again before the ledger has news of the node.
func (p *Plugin) awaitGang(ctx context.Context, pod *v1.Pod, node string) (waited bool, err error) {
	uid, began := string(pod.UID), time.Now()
	if !p.gangs.Has(uid) {
		return false, nil
	}
	w, err := p.gangs.Await(ctx, p.Book, uid, p.turnTimeout())
	if w.Why != "" {
		p.metrics.Waited(w.Why, began)
	}
	if n := p.Book.Snapshot().Node(node); err != nil && w.Node == node && n != nil {
		p.turns.Add(uid, node, n.News)
	}
	return w.Why != "", err
}

// afterGang is the status of a pod whose gang failed.
func (p *Plugin) afterGang(cs fwk.CycleState, node string, err error) *fwk.Status {
	if s, ok := read(cs); ok {
		return s.recordTurn(node, place.Verdict{}, fwk.AsStatus(err))
	}
	return fwk.AsStatus(err)
}
