package promise

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// maxPods bounds the pods of a [Pods] and of a [Flights].
const maxPods = 4096

// Pods are pods by UID. The zero value is empty. When there are too many, all are dropped: kube-scheduler tries them
// again when it flushes its queue.
type Pods struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

// Add adds a pod.
func (p *Pods) Add(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods == nil || len(p.pods) >= maxPods {
		p.pods = map[string]*v1.Pod{}
	}
	p.pods[string(pod.UID)] = pod
}

// Remove removes a pod, and reports whether it was there.
func (p *Pods) Remove(uid string) (had bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, had = p.pods[uid]
	delete(p.pods, uid)
	return had
}

// Has reports whether a pod is there.
func (p *Pods) Has(uid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.pods[uid]
	return has
}

// Take removes all pods and returns them.
func (p *Pods) Take() map[string]*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.pods
	p.pods = nil
	return out
}

// TakeIf removes the pods for which is returns true, and returns them.
func (p *Pods) TakeIf(is func(*v1.Pod) bool) map[string]*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]*v1.Pod{}
	for uid, pod := range p.pods {
		if is(pod) {
			out[uid] = pod
			delete(p.pods, uid)
		}
	}
	return out
}

// Flights are pods that were reserved and that the informer may not show as bound yet. The ledger has only those that
// hold something. The zero value is empty.
type Flights struct {
	mu   sync.Mutex
	pods map[string]flight
}

type flight struct {
	id    state.PodID
	node  string
	needs func() whatif.Amounts
	bound bool
}

// Begin adds a pod that was reserved on a node. needs is called when somebody asks about the node. If there are too
// many pods, those that were bound are dropped: the informer shows most of them by then.
func (f *Flights) Begin(id state.PodID, node string, needs func() whatif.Amounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods == nil {
		f.pods = map[string]flight{}
	}
	if len(f.pods) >= maxPods {
		for uid, x := range f.pods {
			if x.bound {
				delete(f.pods, uid)
			}
		}
	}
	f.pods[id.UID] = flight{id, node, needs, false}
}

// Has reports whether a pod is on its way.
func (f *Flights) Has(uid string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.pods[uid]
	return has
}

// Bound records that a pod was bound.
func (f *Flights) Bound(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x, ok := f.pods[uid]; ok {
		x.bound = true
		f.pods[uid] = x
	}
}

// End removes a pod that will not be bound.
func (f *Flights) End(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, uid)
}

// On returns what the pods on their way to a node need, without those that are counted elsewhere. Pods for which
// unbound is false, since they are bound or gone, are dropped.
func (f *Flights) On(node string, unbound, counted func(id state.PodID) bool) (out whatif.Amounts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, x := range f.pods {
		switch {
		case x.node != node:
		case !unbound(x.id):
			delete(f.pods, uid)
		case !counted(x.id):
			out = out.Add(x.needs())
		}
	}
	return out
}
