package follow

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// reportTimes records when this scheduler last received an object of each node. It handles the events of any informer
// whose objects are named after nodes. Methods may be called by any goroutine.
type reportTimes struct {
	now func() time.Time
	mu  sync.RWMutex
	at  map[string]time.Time
}

func newReportTimes(now func() time.Time) *reportTimes {
	return &reportTimes{now: now, at: map[string]time.Time{}}
}

// of returns when the last object of a node was received, or the zero time.
func (r *reportTimes) of(node string) time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.at[node]
}

// OnAdd implements cache.ResourceEventHandler.
func (r *reportTimes) OnAdd(o any, _ bool) { r.OnUpdate(nil, o) }

// OnUpdate implements cache.ResourceEventHandler.
func (r *reportTimes) OnUpdate(_, o any) {
	if m, err := meta.Accessor(o); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at[m.GetName()] = r.now()
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (r *reportTimes) OnDelete(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if m, err := meta.Accessor(o); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.at, m.GetName())
	}
}
