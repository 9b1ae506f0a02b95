package sched

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// usual is what the cluster usually runs, as one scheduler learns it from the pods that it is asked to
// schedule. The zero usual knows of none.
type usual struct {
	mu     sync.Mutex
	recent *score.Recent
	// taken is the mix that nodes are scored by. It is what recent says, but for what makes no difference: with
	// every other mix, each cost that is remembered has to be worked out again.
	taken *score.Mix
}

// drift is by how much the weights of two mixes, 512 together, may differ in all before they count as two.
const drift = 24

// asked remembers a pod that is to be scheduled, and returns the mix that its nodes are scored by, and
// whether it is another one than before.
func (u *usual) asked(uid string, p *place.Pod) (mix *score.Mix, renewed bool) {
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

// differ reports whether the weights of two mixes differ by more than drift, or what they say of pods that
// were not seen yet.
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

// usually gives the strategy of a pod that is to be scheduled what the cluster usually runs.
func (p *Plugin) usually(s *state) {
	mix, renewed := p.usual.asked(s.uid, s.pod)
	if s.strategy.Mix = mix; renewed && s.log.on(logData) {
		s.log.info(logData, "Mix renewed", "pods", inspect.Text(mix))
	}
}

// mix returns the latest mix.
func (u *usual) mix() *score.Mix {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken
}

// learn remembers pods as if they had been asked for in the order in which they were created. So a
// scheduler that has just started knows what the one before it knew, but for pods that have ended.
func (u *usual) learn(pods []*v1.Pod) {
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
