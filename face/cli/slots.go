package cli

import (
	"maps"
	"sync"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Slots remembers how many more pods of a shape fit on each node, so that a server counts again only for changed
// nodes. A nil *Slots remembers nothing. Its methods may be called from any goroutine.
type Slots struct {
	mu    sync.Mutex
	known map[string]map[string]slot // by shape, then by node name
}

// slot is the count for one node, and the data from which the count was computed. A changed node has another pointer
// in state, or other amounts.
type slot struct {
	state             *state.Node
	allocatable, used whatif.Amounts
	pods              int
}

// maxRemembered is the largest number of shapes that are remembered, each with a count for every node.
const maxRemembered = 16

// count returns how many pods of a shape fit on a node beside its present pods.
func (s *Slots) count(p *place.Pod, n whatif.Node) int {
	if s == nil || len(n.Kept) > 0 { // what is kept changes as pods come
		return whatif.Slots(n, p)
	}
	shape := p.Shape()
	s.mu.Lock()
	last, ok := s.known[shape][n.Name]
	s.mu.Unlock()
	unchanged := last.state == n.State && maps.Equal(last.used, n.Used) && maps.Equal(last.allocatable, n.Allocatable)
	if ok && unchanged {
		return last.pods
	}
	out := whatif.Slots(n, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || s.known[shape] == nil && len(s.known) >= maxRemembered {
		s.known = map[string]map[string]slot{}
	}
	if s.known[shape] == nil {
		s.known[shape] = map[string]slot{}
	}
	s.known[shape][n.Name] = slot{n.State, n.Allocatable, n.Used, out}
	return out
}

// dropGone drops the counts of nodes that no longer exist.
func (s *Slots) dropGone(nodes []whatif.Node) {
	if s == nil {
		return
	}
	there := map[string]bool{}
	for i := range nodes {
		there[nodes[i].Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		maps.DeleteFunc(known, func(name string, _ slot) bool { return !there[name] })
	}
}
