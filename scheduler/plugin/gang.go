package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/gangs"
)

// This file has the members of a gang bound together; see package gangs.

// joinGang notes that a pod was reserved, if it belongs to a gang and will be bound next. A group cycle reserves pods
// before that only to see whether all of them fit. booked is false if the pod has no booking.
func (p *Plugin) joinGang(cs fwk.CycleState, pod *v1.Pod, booked bool) {
	if p.handle == nil {
		return
	}
	if gang, enough := fwk.Gang(p.handle, cs, pod); gang != "" {
		p.gangs.Reserved(gang, gangs.Member{Booked: booked, Member: ledger.Member{UID: string(pod.UID),
			Created: pod.CreationTimestamp.Unix()}}, enough)
	}
}

// awaitGang blocks until the pod may be bound as far as its gang is concerned. For a pod of no gang it returns at once.
// If the gang waited in vain for a node, the scheduler keeps the pods that it has there away from that node, as
// [booking.Line.Await] does.
func (p *Plugin) awaitGang(ctx context.Context, pod *v1.Pod, node string) error {
	uid, limit, began := string(pod.UID), p.turnTimeout(), time.Now()
	if !p.gangs.Has(uid) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not all of its pods had their turns after %s", limit))
	defer cancel()
	w, err := p.gangs.Await(ctx, p.Book, uid)
	if w.Why != "" {
		p.metrics.Waited(w.Why, began)
	}
	if n := p.Book.Snapshot().Node(node); err != nil && w.Node == node && n != nil {
		p.turns.Add(uid, node, n.News)
	}
	return err
}

// afterGang is the status of a pod whose gang failed.
func (p *Plugin) afterGang(cs fwk.CycleState, node string, err error) *fwk.Status {
	if s, ok := read(cs); ok {
		return s.recordTurn(node, place.Verdict{}, fwk.AsStatus(err))
	}
	return fwk.AsStatus(err)
}
