package follow

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Gathered has the pods of an informer by node, as its events show them. It is for reading all pods again and again:
// a list of the informer itself keeps the informer, and all that read it, from going on for as long as that takes. The
// zero Gathered is ready to use. It is a cache.ResourceEventHandler.
type Gathered struct {
	mu    sync.Mutex
	nodes map[string][]*v1.Pod // in order of namespace and name; pods without a node are under ""
	count int
}

// compare puts pods in order of namespace and name.
func compare(a, b *v1.Pod) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return strings.Compare(a.Name, b.Name)
}

// OnAdd implements cache.ResourceEventHandler.
func (g *Gathered) OnAdd(o any, _ bool) { g.change(nil, o) }

// OnUpdate implements cache.ResourceEventHandler.
func (g *Gathered) OnUpdate(before, o any) { g.change(before, o) }

// OnDelete implements cache.ResourceEventHandler.
func (g *Gathered) OnDelete(o any) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	g.change(o, nil)
}

// change replaces a pod by another; each may be nil.
func (g *Gathered) change(before, after any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes == nil {
		g.nodes = map[string][]*v1.Pod{}
	}
	if p, ok := before.(*v1.Pod); ok && !g.remove(p.Spec.NodeName, p) {
		// The last known state of a pod whose deletion was missed may be older than its last event.
		for node := range g.nodes {
			if g.remove(node, p) {
				break
			}
		}
	}
	if p, ok := after.(*v1.Pod); ok {
		list := g.nodes[p.Spec.NodeName]
		at, there := slices.BinarySearchFunc(list, p, compare)
		if there {
			list[at] = p
			return
		}
		g.count++
		g.nodes[p.Spec.NodeName] = slices.Insert(list, at, p)
	}
}

// remove removes a pod from the list of a node, and reports whether it was there.
func (g *Gathered) remove(node string, p *v1.Pod) bool {
	list := g.nodes[node]
	at, there := slices.BinarySearchFunc(list, p, compare)
	if !there {
		return false
	}
	g.count--
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(g.nodes, node)
	} else {
		g.nodes[node] = list
	}
	return true
}

// All returns all pods. Pods of one node follow each other, in the same order each time.
func (g *Gathered) All() []*v1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]*v1.Pod, 0, g.count)
	for _, list := range g.nodes {
		out = append(out, list...)
	}
	return out
}
