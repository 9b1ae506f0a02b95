package waiting

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Retries activates refused pods when a node that refused them takes them. It needs only Handle.Activate of
// kube-scheduler.
//
// Queueing hints are not enough: the plugin's own informer may lag behind the event that calls a hint. The ledger also
// changes without any event, such as when a grace period ends.
//
// Invariant: a pod is activated whenever the ledger changes so that its profile accepts it on a node that refused it in
// its last attempt, or that the ledger did not have then.
type Retries struct {
	snapshot func() *ledger.Snapshot
	activate func(Profile, map[string]*v1.Pod)
	changed  workqueue.TypedInterface[string] // names of nodes
	mu       sync.RWMutex
	pods     map[string]*Attempt // by UID
}

// Attempt is the last attempt to schedule a pod: the nodes that refused it. Methods on a nil *Attempt do nothing.
type Attempt struct {
	retries *Retries
	profile Profile
	pod     *v1.Pod
	ask     Ask
	// roster is the ledger's set of nodes at the time; nodes has one bit per slot.
	roster ledger.Roster
	nodes  []atomic.Uint64
	// requeued is set once the attempt is found to have read an old state of a node.
	requeued atomic.Bool
}

// NewRetries returns retries over the ledger's snapshots. activate retries pods; its keys are namespace/name.
func NewRetries(snapshot func() *ledger.Snapshot, activate func(Profile, map[string]*v1.Pod)) *Retries {
	return &Retries{snapshot: snapshot, activate: activate, changed: workqueue.NewTyped[string](),
		pods: map[string]*Attempt{}}
}

// Begin begins an attempt to schedule a pod, on a snapshot.
func (r *Retries) Begin(p Profile, pod *v1.Pod, a Ask, snap *ledger.Snapshot) *Attempt {
	if r == nil {
		return nil
	}
	x := &Attempt{retries: r, profile: p, pod: pod, ask: a, roster: snap.Roster(),
		nodes: make([]atomic.Uint64, snap.Slots()/64+1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[string(pod.UID)] = x
	return x
}

// Refused records that the node in a slot refused the pod in the snapshot of the attempt. If the node has changed
// since, the pod is tried once more, because no later event reports that change.
func (a *Attempt) Refused(snap *ledger.Snapshot, slot int) {
	if a == nil || slot < 0 {
		return
	}
	a.nodes[slot/64].Or(1 << (slot % 64)) // before the check, so that a change meanwhile finds it
	now := a.retries.snapshot()
	changed := now.Roster() != a.roster || now.Since(slot) != snap.Since(slot)
	if changed && a.requeued.CompareAndSwap(false, true) {
		a.retries.activate(a.profile, map[string]*v1.Pod{nameOf(a.pod): a.pod})
	}
}

// refusedBy reports whether the node in a slot of a snapshot refused the pod, or did not exist.
func (a *Attempt) refusedBy(snap *ledger.Snapshot, slot int, known bool) bool {
	return !known || snap.Roster() != a.roster || a.nodes[slot/64].Load()>>(slot%64)&1 != 0
}

// Has reports whether the pod is recorded. Such a pod needs no queueing hint: it is activated when that helps.
func (r *Retries) Has(uid string) bool {
	if r == nil {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pods[uid] != nil
}

// Forget drops a pod that was placed or no longer exists.
func (r *Retries) Forget(uid string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// Change records that a node may have room. It returns at once.
func (r *Retries) Change(node string) {
	if r != nil {
		r.changed.Add(node)
	}
}

// Events returns a handler of pod events. It drops pods that were deleted or bound, and records nodes whose nominated
// pod went elsewhere.
func (r *Retries) Events() cache.ResourceEventHandler {
	return events{r.Forget, func(node, _ string) { r.Change(node) }}
}

// Run activates pods until the context ends.
func (r *Retries) Run(ctx context.Context) {
	context.AfterFunc(ctx, r.changed.ShutDown)
	for {
		node, quit := r.changed.Get()
		if quit {
			return
		}
		for p, pods := range r.Fitting(node) {
			r.activate(p, pods)
		}
		r.changed.Done(node)
	}
}

// Fitting returns the pods that a node refused and takes now, by their profile and name.
func (r *Retries) Fitting(node string) map[Profile]map[string]*v1.Pod {
	snap := r.snapshot()
	slot, known := snap.Slot(node)
	n := snap.Node(node)
	fits, out := map[classKey]bool{}, map[Profile]map[string]*v1.Pod{}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.pods {
		if !x.refusedBy(snap, slot, known) {
			continue
		}
		k := keyOf(x.profile, x.ask)
		if _, asked := fits[k]; !asked {
			fits[k] = x.profile.Room(x.ask, n, 1) > 0
		}
		if fits[k] {
			if out[x.profile] == nil {
				out[x.profile] = map[string]*v1.Pod{}
			}
			out[x.profile][nameOf(x.pod)] = x.pod
		}
	}
	return out
}
