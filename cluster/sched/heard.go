package sched

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// heard knows when each node was last heard of: when its report came to this scheduler. It handles the
// events of any informer whose objects are named after nodes.
type heard struct {
	now func() time.Time
	mu  sync.RWMutex
	at  map[string]time.Time
}

func newHeard(now func() time.Time) *heard { return &heard{now: now, at: map[string]time.Time{}} }

// of returns when a node was last heard of, or the zero time.
func (h *heard) of(node string) time.Time {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.at[node]
}

// OnAdd implements cache.ResourceEventHandler.
func (h *heard) OnAdd(o any, _ bool) { h.OnUpdate(nil, o) }

// OnUpdate implements cache.ResourceEventHandler.
func (h *heard) OnUpdate(_, o any) {
	if m, err := meta.Accessor(o); err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.at[m.GetName()] = h.now()
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h *heard) OnDelete(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if m, err := meta.Accessor(o); err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.at, m.GetName())
	}
}

// nodeNames returns a function that lists the names of the cluster's nodes, from the scheduler's own
// informer.
func nodeNames(cc *schedconfig.CompletedConfig, selector labels.Selector) func() []string {
	nodes := cc.InformerFactory.Core().V1().Nodes().Lister()
	return func() []string {
		list, err := nodes.List(selector)
		if err != nil {
			return nil // of what is in memory there is always a list
		}
		out := make([]string, 0, len(list))
		for _, n := range list {
			out = append(out, n.Name)
		}
		return out
	}
}
