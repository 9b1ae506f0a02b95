package live

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Change has what has changed since a follower's previous Change.
type Change struct {
	Version uint64
	// Nodes are names of nodes, and Pods names of pods as "namespace/name", each in ascending order. The objects may
	// be gone.
	Nodes, Pods []string
	// All is set if more has changed than is named; the receiver must then read everything again.
	All bool
}

// maxNamed bounds the names that are kept for one follower.
const maxNamed = 4096

// changes counts the changes of a view, and passes each change to all followers. The zero value has no followers.
type changes struct {
	mu        sync.Mutex
	version   uint64
	followers map[*follower]bool
}

// Follower receives changes. The caller of [View.Follow] closes it. If several changes happen before a call of Next,
// one Change has all of them. If they have more than maxNamed names, that Change has All instead of names.
type Follower interface {
	// Next waits until something has changed since the last call, and returns the change. A Change may be empty,
	// because the previous one may already have had its names. Next returns the error of ctx when ctx ends.
	Next(ctx context.Context) (Change, error)
	Close()
}

type follower struct {
	parent      *changes
	wake        chan struct{} // has one element while something is pending
	all         bool
	nodes, pods map[string]bool
}

// now returns the number of changes so far.
func (c *changes) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

func (c *changes) follow() *follower {
	f := &follower{parent: c, wake: make(chan struct{}, 1), nodes: map[string]bool{}, pods: map[string]bool{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.followers == nil {
		c.followers = map[*follower]bool{}
	}
	c.followers[f] = true
	return f
}

// Close stops the follower.
func (f *follower) Close() {
	f.parent.mu.Lock()
	defer f.parent.mu.Unlock()
	delete(f.parent.followers, f)
}

func (c *changes) node(name string)     { c.add(func(f *follower) { f.nodes[name] = true }) }
func (c *changes) pod(name string)      { c.add(func(f *follower) { f.pods[name] = true }) }
func (c *changes) everything()          { c.add(func(f *follower) { f.all = true }) }
func (f *follower) named() int          { return len(f.nodes) + len(f.pods) }
func sorted(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// add counts a change, records it in every follower by calling note, and wakes these followers.
func (c *changes) add(note func(*follower)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	for f := range c.followers {
		if note(f); f.named() > maxNamed {
			f.all = true
		}
		if f.all {
			clear(f.nodes)
			clear(f.pods)
		}
		select {
		case f.wake <- struct{}{}:
		default: // a wake-up is pending
		}
	}
}

// Next waits until something has changed since the last call, and returns the change. It returns the error of ctx
// when ctx ends.
func (f *follower) Next(ctx context.Context) (Change, error) {
	select {
	case <-ctx.Done():
		return Change{}, ctx.Err()
	case <-f.wake:
	}
	f.parent.mu.Lock()
	defer f.parent.mu.Unlock()
	out := Change{Version: f.parent.version, Nodes: sorted(f.nodes), Pods: sorted(f.pods), All: f.all}
	f.all = false
	clear(f.nodes)
	clear(f.pods)
	return out, nil
}
