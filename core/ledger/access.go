package ledger

import (
	"maps"
	"slices"
	"sync"

	"github.com/tenon-numa/tenon/core/state"
)

// This file finds accounts and locks them.
//
// Every account has its own lock, and everything for a node is computed under it, so work for one node does not delay
// another. The book's own lock guards what is shared: the accounts, the node of each assumed pod, the nodes that
// account for each pod, and the latest snapshot. It is held for a few operations on maps only. A goroutine that holds
// an account's lock may take the book's lock, but not the other way round. Only Turns holds the locks of several
// accounts: it takes them in the order of the nodes' names, and nothing else that holds one waits for another.

// newAccount returns the account of a node without any information.
func newAccount(node string, l limits) *account {
	return &account{mu: &sync.Mutex{}, limits: l, name: node}
}

// mark sets the value of a pod in one of the account's maps. It makes the map for the first pod, since most accounts
// have none.
func mark(pods *map[string]bool, uid string, value bool) {
	if *pods == nil {
		*pods = map[string]bool{}
	}
	(*pods)[uid] = value
}

// open returns the account of a node, locked, or nil if there is none. It looks again if the account was removed
// before it could be locked.
func (b *Book) open(node string) *account {
	for {
		b.mu.Lock()
		a := b.nodes[node]
		b.mu.Unlock()
		if a == nil {
			return nil
		}
		if a.mu.Lock(); !a.removed {
			return a
		}
		a.mu.Unlock()
	}
}

// ensure returns the account of a node, locked, and creates it if there is none.
func (b *Book) ensure(node string) *account {
	for {
		b.mu.Lock()
		a := b.nodes[node]
		if a == nil {
			a = newAccount(node, b.limits)
			b.nodes[node] = a
		}
		b.mu.Unlock()
		if a.mu.Lock(); !a.removed {
			return a
		}
		a.mu.Unlock()
	}
}

// accountOf returns the account of the node that a pod is assumed on, locked, or nil if it is assumed on none. It
// looks again if that changes before the account is locked.
func (b *Book) accountOf(uid string) *account {
	for {
		node, on := b.assumedNode(uid)
		if !on {
			return nil
		}
		a := b.open(node)
		if a == nil {
			continue
		}
		if now, on := b.assumedNode(uid); on && now == node {
			return a
		}
		b.close(a)
	}
}

// close unlocks an account, and removes it from the book if it has no information. a may be nil.
func (b *Book) close(a *account) {
	if a == nil {
		return
	}
	if a.layout == nil && len(a.assumed) == 0 && len(a.excess) == 0 && len(a.unlisted.pods) == 0 &&
		len(a.relations) == 0 && len(a.promised) == 0 {
		b.mu.Lock()
		delete(b.nodes, a.name)
		b.mu.Unlock()
		a.removed = true
	}
	a.mu.Unlock()
}

// assumedNode returns the node that a pod is assumed on; on is false if there is none.
func (b *Book) assumedNode(uid string) (node string, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	node, on = b.assumedOn[uid]
	return node, on
}

// markAssumed records that a pod is assumed on a node. It returns false if the pod is assumed on another node.
func (b *Book) markAssumed(uid, node string) (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, on := b.assumedOn[uid]; on && at != node {
		return false
	}
	b.assumedOn[uid] = node
	return true
}

// unmarkAssumed records that a pod is not assumed any more.
func (b *Book) unmarkAssumed(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.assumedOn, uid)
}

// updateHolders records which pods the node accounts for after its report was stored or dropped. Until then, the node
// accounted for the UIDs in counted and for the pods in the layout previous (nil if there was none). updateHolders also
// records that the pods in a.unassumed are not assumed any more. Both happen in one step, so every reader finds each
// pod.
func (b *Book) updateHolders(a *account, previous *state.Layout, counted []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range counted {
		b.held.drop(uid, a.name)
	}
	if previous != nil {
		for _, e := range previous.Entries {
			b.held.drop(e.Pod.UID, a.name)
		}
	}
	for _, uid := range a.countedUIDs() {
		b.held.put(uid, a.name)
	}
	if a.layout != nil {
		for _, e := range a.layout.Entries {
			b.held.put(e.Pod.UID, a.name)
		}
	}
	for _, uid := range a.unassumed {
		delete(b.assumedOn, uid)
	}
	a.unassumed = nil
}

// holds reports whether a node accounts for a pod.
func (b *Book) holds(node, uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.has(uid, node)
}

// holders returns the nodes that account for a pod, in ascending order of name.
func (b *Book) holders(uid string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.nodes(uid)
}

// nodeNames returns the names of the nodes that have an account, in ascending order of name.
func (b *Book) nodeNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.nodes))
}

// eachHolder calls do with the account of every node that accounts for a pod, one after the other. The account is
// locked during the call.
func (b *Book) eachHolder(uid string, do func(*account)) {
	for _, node := range b.holders(uid) {
		a := b.open(node)
		if a != nil && b.holds(node, uid) {
			do(a)
		}
		b.close(a)
	}
}

// publish puts the state of a node into the latest snapshot, and then calls onChange.
func (b *Book) publish(n *state.Node) {
	b.mu.Lock()
	b.snap.Store(b.snap.Load().set(withStatuses(n, b.statuses[n.Name])))
	b.mu.Unlock()
	b.onChange(n.Name)
}

// withdraw removes a node from the latest snapshot, and then calls onChange.
func (b *Book) withdraw(node string) {
	b.mu.Lock()
	b.snap.Store(b.snap.Load().drop(node))
	b.mu.Unlock()
	b.onChange(node)
}
