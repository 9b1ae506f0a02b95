package sched

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/preempt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// retries activates refused pods when a node that refused them takes them. It needs nothing of kube-scheduler but
// Handle.Activate, and is what wakes pods in somebody else's main program.
//
// Queueing hints would not do there: the plugin's own informer may lag behind the event that calls a hint,
// and the ledger also changes without any event, such as when a grace period ends.
//
// Invariant: a pod is activated whenever the ledger changes so that the plugin lets it on a node which the plugin
// refused it in its last attempt, or which the ledger did not have then. Methods on a nil *retries do nothing.
type retries struct {
	snapshot func() *ledger.Snapshot
	changed  workqueue.TypedInterface[string] // names of nodes
	mu       sync.RWMutex
	pods     map[string]*refusedPod // by UID
}

// refusedPod is a pod, and the nodes that refused it in its last attempt.
type refusedPod struct {
	plugin *Plugin
	pod    *v1.Pod
	state  *state
	// roster is what nodes the ledger had, and nodes has a bit for each slot.
	roster ledger.Roster
	nodes  []atomic.Uint64
	// requeued is set once the attempt is known to have read an old state of a node.
	requeued atomic.Bool
}

func newRetries(snapshot func() *ledger.Snapshot) *retries {
	return &retries{snapshot: snapshot, changed: workqueue.NewTyped[string](), pods: map[string]*refusedPod{}}
}

// begin begins an attempt to schedule a pod.
func (r *retries) begin(p *Plugin, pod *v1.Pod, s *state) {
	if r == nil {
		return
	}
	s.refusals = &refusedPod{
		plugin: p,
		pod:    pod,
		roster: s.snap.Roster(),
		nodes:  make([]atomic.Uint64, s.snap.Slots()/64+1),
		state:  &state{pod: s.pod, key: s.key, demand: s.demand},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[s.uid] = s.refusals
}

// refused notes that a node refused the pod. If the node has changed since the attempt's snapshot, the pod is tried
// once more: nobody will tell of that change.
func (r *retries) refused(s *state, slot int) {
	if r == nil || slot < 0 || s.refusals == nil {
		return
	}
	x := s.refusals
	x.nodes[slot/64].Or(1 << (slot % 64)) // before the check, so that a change meanwhile finds it
	now := r.snapshot()
	if (now.Roster() != x.roster || now.Since(slot) != s.snap.Since(slot)) && x.requeued.CompareAndSwap(false, true) {
		x.plugin.handle.Activate(x.plugin.logger, map[string]*v1.Pod{x.key(): x.pod})
	}
}

// has reports whether a pod is retried by r.
func (r *retries) has(uid string) bool {
	if r == nil {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pods[uid] != nil
}

// forget drops a pod that has got its place or is gone.
func (r *retries) forget(uid string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// change notes that a node may have room. It returns at once.
func (r *retries) change(node string) { r.changed.Add(node) }

// run activates pods until the context ends.
func (r *retries) run(ctx context.Context) {
	context.AfterFunc(ctx, r.changed.ShutDown)
	for {
		node, quit := r.changed.Get()
		if quit {
			return
		}
		for p, pods := range r.fitting(node) {
			p.metrics.Woken(len(pods))
			p.handle.Activate(p.logger, pods)
		}
		r.changed.Done(node)
	}
}

// fitting returns the pods that a node refused and takes now, by their profile and name.
func (r *retries) fitting(node string) map[*Plugin]map[string]*v1.Pod {
	snap := r.snapshot()
	slot, known := snap.Slot(node)
	n := snap.Node(node)
	type kind struct {
		plugin *Plugin
		key    string
		demand place.Demand
	}
	fits, out := map[kind]bool{}, map[*Plugin]map[string]*v1.Pod{}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.pods {
		if known && snap.Roster() == x.roster && x.nodes[slot/64].Load()>>(slot%64)&1 == 0 {
			continue
		}
		k := kind{x.plugin, x.state.key, x.state.demand}
		if _, asked := fits[k]; !asked {
			fits[k] = x.plugin.accepts(x.state, n)
		}
		if fits[k] {
			if out[x.plugin] == nil {
				out[x.plugin] = map[string]*v1.Pod{}
			}
			out[x.plugin][x.key()] = x.pod
		}
	}
	return out
}

func (x *refusedPod) key() string { return x.pod.Namespace + "/" + x.pod.Name }

// mayEvict reports whether a pod may get room on a node by the eviction of others now that a pod has left which it
// could not have evicted.
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

// lags reports whether a node refuses a pod only because the ledger has not released pods yet that have left. Where
// the node is promised to the pod, these are its victims, and DefaultPreemption would evict more.
func (p *Plugin) lags(s *state, n *ledger.Node, info fwk.NodeInfo) bool {
	if p.retries == nil || n == nil {
		return false
	}
	for _, promised := range p.handle.NominatedPodsForNode(n.Name) {
		if string(promised.GetPod().UID) == s.uid {
			left := preempt.Departed(n, info)
			return len(left) > 0 && s.takes(n.Without(left...))
		}
	}
	return false
}
