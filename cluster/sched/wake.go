package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/cluster/report"
)

// This file connects the waiting pods with kube-scheduler: with its pod events, and with Handle.Activate.

// ends returns a handler that removes pods that were deleted or bound, and notes nodes whose nominated pod went
// elsewhere.
func (w *waiting) ends() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, o any) {
			p, ok := o.(*v1.Pod)
			if !ok {
				return
			}
			if p.Spec.NodeName != "" {
				w.remove(string(p.UID))
			}
			if node, event, ok := freedNomination(was, o); ok {
				w.touch(node, event)
			}
		},
		DeleteFunc: func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			if p, ok := o.(*v1.Pod); ok {
				w.remove(string(p.UID))
			}
		},
	}
}

// freedNomination returns the node that a pod was nominated to and does not take, if an update of the pod says so, and
// a name of the event.
func freedNomination(before, after any) (node, event string, ok bool) {
	old, was := before.(*v1.Pod)
	now, is := after.(*v1.Pod)
	if !was || !is || old.Spec.NodeName != "" {
		return "", "", false
	}
	node = old.Status.NominatedNodeName
	kept := now.Spec.NodeName == "" && now.Status.NominatedNodeName == node
	return node, "free " + string(now.UID) + now.ResourceVersion, node != "" && node != now.Spec.NodeName && !kept
}

// run passes pods that are woken to try, until the context ends.
func (w *waiting) run(ctx context.Context, try func([]wokenPod)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.signal:
		}
		for woken, more := w.next(); more; woken, more = w.next() {
			if len(woken) > 0 {
				try(woken)
			}
		}
	}
}

// try has pods tried again.
func (s *Shared) try(woken []wokenPod) {
	pods := map[*Plugin]map[string]*v1.Pod{}
	for _, x := range woken {
		if pods[x.plugin] == nil {
			pods[x.plugin] = map[string]*v1.Pod{}
		}
		pods[x.plugin][x.pod.Namespace+"/"+x.pod.Name] = x.pod
	}
	s.metrics.Woken(len(woken))
	for p, list := range pods {
		report.TriedAgain(p.logger, len(list), woken[0].pod)
		p.handle.Activate(p.logger, list)
	}
}

// waitingPods returns the handler of pod events that concern pods which wait for room.
func (s *Shared) waitingPods() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if s.waiting != nil {
				s.waiting.ends().OnUpdate(before, after)
				return
			}
			if p, ok := after.(*v1.Pod); ok && p.Spec.NodeName != "" {
				s.retries.forget(string(p.UID))
			}
			if node, _, ok := freedNomination(before, after); ok {
				s.wake(node)
			}
		},
		DeleteFunc: func(o any) {
			if s.waiting != nil {
				s.waiting.ends().OnDelete(o)
				return
			}
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			if p, ok := o.(*v1.Pod); ok {
				s.retries.forget(string(p.UID))
			}
		},
	}
}
