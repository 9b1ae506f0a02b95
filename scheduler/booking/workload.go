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

// maxLearned bounds the containers of pods that the mix is learned from.
const maxLearned = 32

// Workload is the workload profile of one scheduler, a mix of pod shapes that it learns from the pods that the
// scheduler schedules. A returned mix does not change. It is replaced only when the difference matters, since a new mix
// makes all cached costs invalid. Pods of very many containers are not learned: scoring any pod places every pod of the
// mix. Its methods may be called by any goroutine. The zero Workload is empty.
type Workload struct {
	mu     sync.Mutex
	recent *score.Recent
	// taken is the mix that nodes are scored by. It is set to recent's mix only when the difference matters.
	taken *score.Mix
}

// Add adds a pod to be scheduled. It returns the mix that its nodes are scored by, and whether the mix is new.
func (w *Workload) Add(uid string, p *place.Pod) (mix *score.Mix, renewed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recent == nil {
		w.recent = score.NewRecent()
		w.taken = w.recent.Mix()
	}
	if len(p.Containers) <= maxLearned && w.recent.Add(uid, p) && w.taken.Differs(w.recent.Mix()) {
		w.taken, renewed = w.recent.Mix(), true
	}
	return w.taken, renewed
}

// Mix returns the latest mix, or nil before the first pod.
func (w *Workload) Mix() *score.Mix {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

// Learn adds pods as if they had been scheduled in the order of their creation. So a scheduler that has just started
// has the profile of the scheduler before it, except for pods that have terminated.
func (w *Workload) Learn(pods []*v1.Pod) {
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
	})
	type known struct {
		uid string
		pod *place.Pod
	}
	var last []known // newest first
	for _, pod := range slices.Backward(pods) {
		if len(last) == score.Remembered {
			break
		}
		// Pods that cannot be translated are not scheduled either.
		if p, err := apipod.ToPlace(pod); err == nil && !p.Plain() {
			last = append(last, known{string(pod.UID), p})
		}
	}
	for _, k := range slices.Backward(last) {
		w.Add(k.uid, k.pod)
	}
}
