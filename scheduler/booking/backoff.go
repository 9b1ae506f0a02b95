package booking

import "sync"

// Backoff records on which nodes a pod's wait for its turn timed out. The scheduler keeps the pod away from such a
// node until the ledger receives news of the node. Without that rule, the scheduler would choose the same node for
// the same reasons, and the pod would wait once more, though another node may have room. The zero Backoff is empty.
type Backoff struct {
	mu   sync.RWMutex
	pods map[string]map[string]int // by UID and node: the node's state.Node.News when the wait timed out
}

// maxBackoffs bounds the number of recorded pods. When it is reached, Add drops all of them first; each dropped pod
// may then wait once more on a node where its wait has timed out.
const maxBackoffs = 1024

// Add records that the pod's wait on the node timed out. news is the node's state.Node.News at that time.
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
// news is the node's present state.Node.News.
func (b *Backoff) Has(uid, node string, news int) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	at, ok := b.pods[uid][node]
	return ok && at == news
}

// Of returns the nodes on which the pod's wait timed out, each with its state.Node.News at that time; nil if there
// are none. The caller must not change the map. The map does not change while the pod is in a scheduling cycle.
func (b *Backoff) Of(uid string) map[string]int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.pods[uid]
}

// Remove drops everything that is recorded about a pod.
func (b *Backoff) Remove(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, uid)
}
