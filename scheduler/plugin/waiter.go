package plugin

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/preempt"
	"github.com/tenon-numa/tenon/scheduler/report"
	"github.com/tenon-numa/tenon/scheduler/waiting"
)

// This file implements waiting.Profile. Package waiting retries refused pods.

// waiter implements waiting.Profile.
type waiter struct{ *Plugin }

// Barred implements waiting.Profile. A pod is barred from every node while its victims are being evicted. If its wait
// on a node timed out, it is barred from that node until the ledger receives news of the node.
func (w waiter) Barred(pod *v1.Pod, here *waiting.Here) bool {
	return w.evicting().Evicts(pod) ||
		here.Node != nil && w.turns.Has(string(pod.UID), here.Name, here.Node.News)
}

// MayEvict implements waiting.Profile. It asks whether the pod may evict others only if there is no room at all.
func (w waiter) MayEvict(pod *v1.Pod, c *waiting.Class, here *waiting.Here, room int) bool {
	if w.evicting().Awaits(pod, here.Name) {
		return true
	}
	if at := w.Book.Together(c.Ask.Demand.Together); at != "" && at != here.Name {
		return false
	}
	return room == 0 && w.preemption != nil && !w.args.KeepVictims && w.guard.Knows(here.Node) && preempt.Preempts(pod) &&
		c.Openings.Opens(pod, c.Ask.Pod, c.Ask.Demand, here.Node, here.Residents(w.amounts.On), here.Seed)
}

// Room implements waiting.Profile. It adds pods with this request to the node until no more fit.
func (w waiter) Room(a waiting.Ask, n *state.Node, most int) int {
	s := &podState{pod: a.Pod, key: a.Key, demand: a.Demand}
	if !w.accepts(s, n) {
		return 0
	}
	if at := w.Book.Together(s.demand.Together); at != "" && (n == nil || n.Name != at) {
		return 0
	}
	if n == nil {
		return most
	}
	for k := 1; k < most; k++ {
		n, _ = n.Join(state.PodID{UID: fmt.Sprintf("room %d", k)}, s.pod, s.demand)
		if !n.Place(s.pod, s.demand).Fits() {
			return k
		}
	}
	return most
}

// accepts reports whether the pod may go to a node and fits there. n is nil if the ledger does not have the node.
func (p *Plugin) accepts(s *podState, n *state.Node) bool {
	if n == nil {
		return p.guard.LetsUnknown(s.demand)
	}
	return p.guard.Distrusts(n) == 0 && s.takes(n) && p.guard.Refuses(n, s.pod, s.demand) == 0
}

// try puts woken pods back into kube-scheduler's active queue.
func (s *Shared) try(woken []waiting.Woken) {
	pods := map[waiting.Profile]map[string]*v1.Pod{}
	for _, x := range woken {
		if pods[x.Profile] == nil {
			pods[x.Profile] = map[string]*v1.Pod{}
		}
		pods[x.Profile][x.Pod.Namespace+"/"+x.Pod.Name] = x.Pod
	}
	for p, list := range pods {
		report.TriedAgain(p.(waiter).logger, len(list), woken[0].Pod)
		s.activate(p, list)
	}
}

// activate puts pods of a profile into the active queue. The keys are namespace/name.
func (s *Shared) activate(p waiting.Profile, pods map[string]*v1.Pod) {
	w := p.(waiter)
	s.metrics.Woken(len(pods))
	w.handle.Activate(w.logger, pods)
}

// newQueue makes the queue of waiting pods, which follows the ledger.
func (s *Shared) newQueue() {
	s.waiting = waiting.NewQueue(s.Book.Snapshot, func(d time.Duration, do func()) { time.AfterFunc(d, do) })
	s.Book.OnChange(func(node string) {
		s.waiting.Change(node)
		s.capacity.Load().Kick()
	})
	s.Book.OnParting(s.waiting.Parted)
}

// podEvents returns a handler of the pod events that concern waiting pods. The handler may be registered before waiting
// is set.
func (s *Shared) podEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) { s.waiting.Events().OnUpdate(before, after) },
		DeleteFunc: func(o any) { s.waiting.Events().OnDelete(o) },
	}
}

// mayEvict reports whether the pod would fit, without all pods of lower priority, on the node that the pod gone has
// left. It returns false if the pod could have evicted gone.
func (p *Plugin) mayEvict(pod, gone *v1.Pod) bool {
	rank := corev1.PodPriority(pod)
	n := p.Book.Snapshot().Node(gone.Spec.NodeName)
	if n == nil || p.amounts == nil || corev1.PodPriority(gone) < rank || !preempt.Preempts(pod) {
		return false
	}
	var lower []string
	for _, other := range p.amounts.On(n.Name) {
		if corev1.PodPriority(other) < rank {
			lower = append(lower, string(other.UID))
		}
	}
	s, status := translate(pod)
	return status == nil && len(lower) > 0 && p.accepts(s, n.Without(lower...))
}

// isBehind reports whether a node refuses its nominated pod for one reason only: the ledger still has pods that have
// left the node. Filter then returns an error: after a refusal, DefaultPreemption would evict more pods. In
// tenon-scheduler, isBehind returns false.
func (p *Plugin) isBehind(s *podState, n *state.Node, info fwk.NodeInfo) bool {
	if !p.alone || n == nil {
		return false
	}
	for _, nominated := range p.handle.NominatedPodsForNode(n.Name) {
		if string(nominated.GetPod().UID) == s.uid {
			departed := preempt.Departed(n, info)
			return len(departed) > 0 && s.takes(n.Without(departed...))
		}
	}
	return false
}
