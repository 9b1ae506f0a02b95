package sched

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// workload learns the cluster's workload profile, a mix of pod shapes, from the pods that one scheduler is asked to
// schedule. The zero workload has seen none.
type workload struct {
	mu     sync.Mutex
	recent *score.Recent
	// taken is the mix that nodes are scored by. It follows recent only when the difference matters: a new mix makes
	// all cached costs invalid.
	taken *score.Mix
}

// drift is by how much the weights of two mixes, 512 together, may differ in all before they count as two.
const drift = 24

// asked adds a pod that is to be scheduled, and returns the mix that its nodes are scored by, and whether the mix is
// new.
func (u *workload) asked(uid string, p *place.Pod) (mix *score.Mix, renewed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.recent == nil {
		u.recent = score.NewRecent()
		u.taken = u.recent.Mix()
	}
	if len(p.Containers) <= maxLearned && u.recent.Add(uid, p) && differ(u.taken, u.recent.Mix()) {
		u.taken, renewed = u.recent.Mix(), true
	}
	return u.taken, renewed
}

// differ reports whether the weights of two mixes differ by more than drift, or their shares of unseen pods differ.
func differ(a, b *score.Mix) bool {
	if a.Unseen() != b.Unseen() {
		return true
	}
	apart := map[string]int64{}
	for _, s := range a.Shares() {
		apart[s.Pod.Shape()] += s.Weight
	}
	for _, s := range b.Shares() {
		apart[s.Pod.Shape()] -= s.Weight
	}
	sum := int64(0)
	for _, w := range apart {
		sum += max(w, -w)
	}
	return sum > drift
}

// learn adds a pod to the workload profile, and sets the mix of the pod's strategy.
func (p *Plugin) learn(s *state) {
	mix, renewed := p.workload.asked(s.uid, s.pod)
	if s.strategy.Mix = mix; renewed && s.Log.On(report.LevelData) {
		s.Log.Info(report.LevelData, "Mix renewed", "pods", inspect.Text(mix))
	}
}

// mix returns the latest mix.
func (u *workload) mix() *score.Mix {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken
}

// learn adds pods as if they had been scheduled in the order of their creation. A scheduler that has just started so
// has the profile of the one before it, but for pods that have terminated.
func (u *workload) learn(pods []*v1.Pod) {
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
	})
	type known struct {
		uid string
		pod *place.Pod
	}
	var last []known // the newest first
	for _, pod := range slices.Backward(pods) {
		if len(last) == score.Remembered {
			break
		}
		// What is not understood is not scheduled either.
		if p, err := kube.Pod(pod); err == nil && !p.Plain() {
			last = append(last, known{string(pod.UID), p})
		}
	}
	for _, k := range slices.Backward(last) {
		u.asked(k.uid, k.pod)
	}
}
