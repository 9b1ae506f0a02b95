package sched

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/wake"
)

// This file connects the waiting pods with kube-scheduler: it wraps the failure handler to learn how attempts end, and
// activates the pods that are woken. It is what Extend adds beyond the framework's public interfaces, together with
// narrow.go (the diagnosis) and preempt.go (the evaluator of preemption). TestWaitingPodsAreTriedWhenThatHelps in
// lab/scheduler counts what it saves: of sixty pods that wait for one place, those that fit are tried and no others.

// Extend gives a scheduler what needs more than the framework's public interfaces. It is called once, after the
// scheduler is made and before it and the informers run.
func (s *Shared) Extend(ctx context.Context, sched *scheduler.Scheduler) {
	s.rest(sched)
	if len(s.plugins) == 0 {
		// Nobody would read the book, and following every pod of a cluster costs memory and work.
		Logger(ctx).Info("No profile enables the plugin: layouts and pods are not followed")
		s.measure()
		return
	}
	go s.waiting.run(ctx, s.try)
}

// rest makes pods that the plugins refuse wait until something helps them.
func (s *Shared) rest(sched *scheduler.Scheduler) {
	s.waiting = newWaiting(s.Book.Snapshot)
	s.Book.OnChange(s.waiting.change)
	next := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time) {
		if p := s.pluginOf(f.ProfileName()); p != nil {
			if why := (*framework.FitError)(nil); errors.As(status.AsError(), &why) {
				if err := p.amend(ctx, info.Pod, why); err != nil {
					p.logger.Error(err, "Nodes that were left out are not known to refuse the pod", "pod", klog.KObj(info.Pod))
				}
				p.word(info.Pod, why)
			}
		}
		// Once the pod is in the queue again, the next attempt may begin at any time.
		pod, others := info.Pod, refusedByOthers(s.pluginOf(f.ProfileName()), status)
		attempt := s.waiting.attempt(string(pod.UID))
		next(ctx, f, info, status, nominating, start)
		s.waiting.failed(s.pluginOf(f.ProfileName()), pod, attempt, others)
	}
}

func (s *Shared) pluginOf(profile string) *Plugin {
	for _, p := range s.plugins {
		if p.handle != nil && p.handle.ProfileName() == profile {
			return p
		}
	}
	return nil
}

// refusedByOthers returns the nodes that other plugins refused a pod, or nil if this plugin did not refuse it at all.
func refusedByOthers(p *Plugin, status *fwk.Status) *wake.Nodes {
	var why *framework.FitError
	if p == nil || !errors.As(status.AsError(), &why) || !why.Diagnosis.UnschedulablePlugins.Has(p.name) && !why.Diagnosis.PendingPlugins.Has(p.name) {
		return nil
	}
	out := &wake.Nodes{Names: map[string]bool{}}
	nodes := why.Diagnosis.NodeToStatus
	if nodes == nil {
		return out
	}
	// The framework gives a reason for nodes that it did not even ask about where other plugins ruled them out.
	out.But = len(nodes.AbsentNodesStatus().Reasons()) > 0
	nodes.ForEachExplicitNode(func(node string, s *fwk.Status) {
		if (s.Plugin() == p.name) == out.But {
			out.Names[node] = true
		}
	})
	return out
}

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
