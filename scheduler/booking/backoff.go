package booking

import "sync"

// Backoff records on which nodes a pod's wait for its turn timed out. The scheduler keeps the pod away from such a node
// until the ledger receives news of it. Otherwise it would choose the node again for the same reasons, and the pod
// would wait once more, though another node may have room. The zero Backoff is empty.
type Backoff struct {
	mu   sync.RWMutex
	pods map[string]map[string]int // by UID and node: state.Node.News at the time
}

// maxBackoffs bounds the recorded pods. Beyond it, all are dropped; each of them may wait once more.
const maxBackoffs = 1024

// Add records that a wait on the node timed out when state.Node.News had this value.
func (b *Backoff) Add(uid, node string, news int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pods == nil || len(b.pods) >= maxBackoffs {
		b.pods = map[string]map[string]int{}
	}
	if b.pods[uid] == nil {
		b.pods[uid] = map[string]int{}
	}
	b.pods[uid][node] = news
}

// Has reports whether the pod's wait on the node timed out and the ledger has received no news of the node since.
func (b *Backoff) Has(uid, node string, news int) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	at, ok := b.pods[uid][node]
	return ok && at == news
}

// Of returns the nodes on which the pod's wait timed out, with state.Node.News at that time. The caller must not
// change the map. It does not change while the pod is in a scheduling cycle.
func (b *Backoff) Of(uid string) map[string]int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.pods[uid]
}

// Remove drops a pod.
func (b *Backoff) Remove(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, uid)
}
