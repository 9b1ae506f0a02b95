package plugin

import (
	"context"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// EventsToRegister returns the events that may make a refused pod schedulable. Every hint first applies its event to
// the ledger, so that the retried pod sees it, whichever handler runs first.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	out := []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update | fwk.Delete}, QueueingHintFn: p.podChanged},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, QueueingHintFn: p.nodeAdded},
	}
	if p.alone {
		return out, nil // the plugin's own informers receive the nodes' reports, and have no hints
	}
	out = append(out, fwk.ClusterEventWithHint{QueueingHintFn: p.layoutChanged,
		Event: fwk.ClusterEvent{
			Resource:   eventResource(v1alpha1.NodeLayoutResource()),
			ActionType: fwk.Add | fwk.Update | fwk.Delete,
		}})
	if p.topology != nil {
		out = append(out, fwk.ClusterEventWithHint{QueueingHintFn: p.topologyChanged,
			Event: fwk.ClusterEvent{Resource: eventResource(*p.topology), ActionType: fwk.Add | fwk.Update | fwk.Delete}})
	}
	return out, nil
}

// layoutChanged wakes the pod if it fits on the node that has reported, or that has lost its layout.
func (p *Plugin) layoutChanged(_ klog.Logger, pod *v1.Pod, before, obj any) (fwk.QueueingHint, error) {
	if obj == nil {
		l, ok := before.(*v1alpha1.NodeLayout)
		if !ok {
			return fwk.Queue, nil
		}
		p.Feed.LayoutGone(l)
		return p.hint(pod, l.Name), nil
	}
	l, ok := obj.(*v1alpha1.NodeLayout)
	if !ok {
		return fwk.Queue, nil
	}
	p.Feed.Layout(l)
	return p.hint(pod, l.Name), nil
}

// podChanged applies the event of another pod to the ledger. It wakes the waiting pod in three cases: the event is
// the pod's own and changes its request; the other pod has started on a node whose report the waiting pod awaits; or
// the other pod is deleted, and the waiting pod fits on the node to which that pod was bound or nominated. If the
// scheduler is not tenon-scheduler, it also wakes a pod that may evict others after the deletion.
func (p *Plugin) podChanged(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	if updated, ok := after.(*v1.Pod); ok {
		if updated.UID == pod.UID {
			return updateHint(before, updated), nil
		}
		p.Feed.Pod(updated)
		if kube.Started(updated) && p.evicting().Awaits(pod, updated.Spec.NodeName) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
	gone, ok := before.(*v1.Pod)
	if !ok {
		return fwk.QueueSkip, nil
	}
	if gone.Spec.NodeName != "" {
		if !p.turns.Unknown(string(gone.UID)) { // a pod that could not be bound leaves in the same way
			p.Feed.Leave(gone)
		}
		if p.alone && p.mayEvict(pod, gone) {
			return fwk.Queue, nil
		}
		return p.hint(pod, gone.Spec.NodeName), nil
	}
	if node := gone.Status.NominatedNodeName; node != "" {
		p.waiting.Touch(node, "free "+string(gone.UID)+gone.ResourceVersion)
		return p.hint(pod, node), nil
	}
	return fwk.QueueSkip, nil
}

// updateHint wakes a pod if its own update changes what it requests. The scheduler's own writes to the pod's status
// do not change that, and so wake no pod.
func updateHint(before any, now *v1.Pod) fwk.QueueingHint {
	old, ok := before.(*v1.Pod)
	if !ok {
		return fwk.Queue
	}
	a, wasBad := translate(old)
	b, isBad := translate(now)
	if (wasBad == nil) == (isBad == nil) && (isBad != nil || (a.key == b.key && a.demand == b.demand)) {
		return fwk.QueueSkip
	}
	return fwk.Queue
}

// nodeAdded wakes a pod if the profile accepts nodes without a layout. Otherwise pods wait for the layout.
func (p *Plugin) nodeAdded(_ klog.Logger, pod *v1.Pod, _, obj any) (fwk.QueueingHint, error) {
	n, ok := obj.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	p.waiting.Touch(n.Name, "new "+string(n.UID)+n.ResourceVersion)
	if p.alone {
		s, status := translate(pod)
		if status == nil && p.accepts(s, p.Book.Snapshot().Node(n.Name)) {
			return fwk.Queue, nil
		}
	}
	return p.hint(pod, n.Name), nil
}

// hint wakes a pod if it fits on the node that has changed, or waits for that node's report. It does not wake a pod
// that is in the waiting queue: the framework calls hints for all pods in no order, and the change may help one pod
// of thousands. For such a pod, hint only records in the queue that the framework has processed the event.
func (p *Plugin) hint(pod *v1.Pod, node string) fwk.QueueingHint {
	if p.waiting.Has(string(pod.UID)) {
		p.waiting.Observed(node)
		return fwk.QueueSkip
	}
	if p.holds(pod) != "" {
		return fwk.QueueSkip // its release wakes the pod
	}
	s, status := translate(pod)
	if status != nil {
		return fwk.QueueSkip // the request is still invalid
	}
	if p.evicting().Awaits(pod, node) {
		return fwk.Queue
	}
	if p.accepts(s, p.Book.Snapshot().Node(node)) {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// topologyChanged wakes the pod if it fits on the node that has reported, unless the node has a layout.
func (p *Plugin) topologyChanged(_ klog.Logger, pod *v1.Pod, before, obj any) (fwk.QueueingHint, error) {
	if obj == nil {
		o, ok := before.(*v1alpha2.NodeResourceTopology)
		if !ok {
			return fwk.Queue, nil
		}
		p.Feed.TopologyGone(o)
		return p.hint(pod, o.Name), nil
	}
	o, ok := obj.(*v1alpha2.NodeResourceTopology)
	if !ok {
		return fwk.Queue, nil
	}
	p.Feed.Topology(o)
	if n := p.Book.Snapshot().Node(o.Name); n != nil && n.Quality == state.Exact {
		return fwk.QueueSkip, nil
	}
	return p.hint(pod, o.Name), nil
}

// eventResource returns the framework's name of a resource's informer: resource.version.group.
func eventResource(r schema.GroupVersionResource) fwk.EventResource {
	return fwk.EventResource(r.Resource + "." + r.Version + "." + r.Group)
}
