package waiting

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	apipod "github.com/tenon-numa/tenon/api/pod"
)

// events is the queue's handler of pod events; see Queue.Events.
type events struct{ *Queue }

// OnAdd implements cache.ResourceEventHandler.
func (e events) OnAdd(any, bool) {}

// OnUpdate implements cache.ResourceEventHandler.
func (e events) OnUpdate(before, after any) {
	p, ok := after.(*v1.Pod)
	if !ok {
		return
	}
	if p.Spec.NodeName != "" {
		e.Remove(string(p.UID))
	}
	if old, ok := before.(*v1.Pod); ok && old.UID != p.UID { // its deletion was missed
		e.Remove(string(old.UID))
	}
	if node, event, ok := freedNomination(before, p); ok {
		e.Touch(node, event)
		e.lostNomination(p)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (e events) OnDelete(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if p, ok := o.(*v1.Pod); ok {
		e.Remove(string(p.UID))
		if p.Spec.NodeName == "" && p.Status.NominatedNodeName != "" {
			e.lostNomination(p)
		}
	}
}

// lostNomination has the partners of a pod tried again, once the framework has processed the end of its nomination.
func (e events) lostNomination(p *v1.Pod) {
	if key := apipod.Relations(p).Together; key != "" && e.Queue != nil {
		e.later(observedAfter, func() { e.Parted(key) })
	}
}

// freedNomination returns the node to which a pod was nominated and that it does not use, with a text that identifies
// the event. ok is false if the update frees no node.
func freedNomination(before any, now *v1.Pod) (node, event string, ok bool) {
	old, was := before.(*v1.Pod)
	if !was || old.Spec.NodeName != "" {
		return "", "", false
	}
	node = old.Status.NominatedNodeName
	kept := now.Spec.NodeName == "" && now.Status.NominatedNodeName == node
	return node, "free " + string(now.UID) + now.ResourceVersion, node != "" && node != now.Spec.NodeName && !kept
}

// Events returns a handler of pod events. It removes pods that were deleted or bound, and touches the node of a pod
// that is no longer nominated there and was not bound to it. The partners of such a pod may go to any node again.
func (q *Queue) Events() cache.ResourceEventHandler { return events{q} }

// Run passes woken pods to try, until the context ends.
func (q *Queue) Run(ctx context.Context, try func([]Woken)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.signal:
		}
		for woken, more := q.Next(); more; woken, more = q.Next() {
			if len(woken) > 0 {
				try(woken)
			}
		}
	}
}
