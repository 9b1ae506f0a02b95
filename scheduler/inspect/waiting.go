package inspect

import (
	"sync"
	"time"

	"github.com/tenon-numa/tenon/core/state"
)

// Waiting records since when pods are assumed. For a pod that this scheduler did not reserve, such as a pod that
// another scheduler bound, it takes the time of the first call of Oldest that finds the pod.
type Waiting struct {
	mu    sync.Mutex
	since map[string]time.Time // by UID, since when each assumed pod is assumed
}

// Oldest returns the age of the oldest prediction that the pod's node has not reported yet, or 0 if there is none.
func (w *Waiting) Oldest(s Source) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, oldest := s.Now(), time.Duration(0)
	reserved := s.Decisions.Reserved()
	since := map[string]time.Time{}
	snap := s.Book.Snapshot()
	for _, name := range snap.Names() {
		for _, e := range snap.Node(name).Entries {
			if e.Source != state.Predicted {
				continue
			}
			at, ok := w.since[e.Pod.UID]
			if !ok {
				if at, ok = reserved[e.Pod.UID]; !ok {
					at = now
				}
			}
			since[e.Pod.UID] = at
			oldest = max(oldest, now.Sub(at))
		}
	}
	w.since = since
	return oldest
}
