package sched

import "sync"

// vain remembers which pods waited in vain for their turn on which nodes. Until something is learned of such a
// node, the pod is kept away from it: it would be chosen again for the same reasons, and the pod would wait
// as long once more, though another node may have room.
type vain struct {
	mu   sync.RWMutex
	pods map[string]map[string]int // by UID and node: ledger.Node.News at the time
}

// maxVain bounds the pods that are remembered; one that is forgotten just waits once more.
const maxVain = 1024

func (v *vain) note(uid, node string, news int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pods == nil || len(v.pods) >= maxVain {
		v.pods = map[string]map[string]int{}
	}
	if v.pods[uid] == nil {
		v.pods[uid] = map[string]int{}
	}
	v.pods[uid][node] = news
}

// is reports whether nothing was learned of the node since the pod waited for it in vain.
func (v *vain) is(uid, node string, news int) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	at, ok := v.pods[uid][node]
	return ok && at == news
}

// of returns the nodes where a pod waited, with what had been learned of them by then; the caller must not change
// them. A pod that is being scheduled waits nowhere.
func (v *vain) of(uid string) map[string]int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.pods[uid]
}

func (v *vain) forget(uid string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.pods, uid)
}
