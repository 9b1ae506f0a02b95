package booking

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// maxLearned is the largest number of containers with which a pod still counts for the mix.
const maxLearned = 32

// Workload is the workload profile of one scheduler: a mix of pod shapes, learned from the pods that it schedules. A
// mix never changes after it was returned. Add replaces it only when the difference matters, since a new mix makes
// all cached costs invalid. Pods of more than maxLearned containers are not learned, because scoring a node for any
// pod places every pod of the mix there. Methods may be called by any goroutine. The zero Workload is empty.
type Workload struct {
	mu     sync.Mutex
	recent *score.Recent
	// inUse is the mix by which nodes are scored. Add sets it to recent's mix only when the two differ enough.
	inUse *score.Mix
}

// Add records a pod that is being scheduled. It returns the mix by which the pod's nodes are scored, and whether that
// mix is new. A pod that is tried again counts once.
func (w *Workload) Add(uid string, p *place.Pod) (mix *score.Mix, renewed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recent == nil {
		w.recent = score.NewRecent()
		w.inUse = w.recent.Mix()
	}
	if len(p.Containers) <= maxLearned && w.recent.Add(uid, p) && w.inUse.Differs(w.recent.Mix()) {
		w.inUse, renewed = w.recent.Mix(), true
	}
	return w.inUse, renewed
}

// Mix returns the latest mix, or nil before the first pod.
func (w *Workload) Mix() *score.Mix {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inUse
}

// Learn adds the newest of these pods, at most score.Remembered, as if they had been scheduled in the order of their
// creation. So a scheduler that has just started has the profile of the scheduler before it, except for pods that
// have terminated. Learn sorts pods.
func (w *Workload) Learn(pods []*v1.Pod) {
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
	})
	type learned struct {
		uid string
		pod *place.Pod
	}
	var newest []learned // newest first
	for _, pod := range slices.Backward(pods) {
		if len(newest) == score.Remembered {
			break
		}
		// Pods that cannot be translated are not scheduled, and plain pods do not count.
		if p, err := apipod.ToPlace(pod); err == nil && !p.Plain() {
			newest = append(newest, learned{string(pod.UID), p})
		}
	}
	for _, k := range slices.Backward(newest) {
		w.Add(k.uid, k.pod)
	}
}
