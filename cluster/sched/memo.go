package sched

import (
	"sync"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// memo remembers verdicts: what was computed for a pod on a node holds until that node changes. A
// node's state is a value that is never changed, so its address says whether it is still the same.
type memo struct {
	mu   sync.RWMutex
	pods map[memoKey]*sync.Map // node name -> remembered
}

type memoKey struct {
	pod    string
	demand place.Demand
	empty  bool
}

// never is verdict for the machine of a node with nobody on it. What it is for is whether the pod fits there.
func (m *memo) never(pod string, n *ledger.Node, compute func() bool) bool {
	nodes := m.nodes(memoKey{pod: pod, empty: true})
	if r, ok := nodes.Load(n.Name); ok && r.(nobody).ground == n.Usage.Ground() {
		return r.(nobody).never
	}
	is := compute()
	nodes.Store(n.Name, nobody{n.Usage.Ground(), is})
	return is
}

// nobody is a remembered answer to whether a pod does not even fit an empty machine under
// the node's rules.
type nobody struct {
	ground place.Ground
	never  bool
}

type remembered struct {
	node    *ledger.Node
	verdict place.Verdict
}

// maxPods bounds the memory: a cluster has few kinds of pods at a time, and forgetting costs only time.
const maxPods = 256

func newMemo() *memo { return &memo{pods: map[memoKey]*sync.Map{}} }

func (m *memo) verdict(pod string, d place.Demand, n *ledger.Node, compute func() place.Verdict) place.Verdict {
	nodes := m.nodes(memoKey{pod: pod, demand: d})
	if r, ok := nodes.Load(n.Name); ok && r.(remembered).node == n {
		return r.(remembered).verdict
	}
	v := compute()
	nodes.Store(n.Name, remembered{n, v})
	return v
}

func (m *memo) nodes(k memoKey) *sync.Map {
	m.mu.RLock()
	nodes := m.pods[k]
	m.mu.RUnlock()
	if nodes != nil {
		return nodes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if nodes = m.pods[k]; nodes == nil {
		if len(m.pods) >= maxPods {
			clear(m.pods)
		}
		nodes = &sync.Map{}
		m.pods[k] = nodes
	}
	return nodes
}
