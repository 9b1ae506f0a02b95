package kube

import (
	"maps"
	"strings"
	"sync"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
)

// addresses returns the ids of the NUMA nodes of the PCI functions in a layout, by address in lower case. Functions
// that the firmware puts on no NUMA node, or on several, are left out.
func addresses(l *v1alpha1.NodeLayout) map[string]int {
	out := make(map[string]int, len(l.Machine.Functions))
	for _, f := range l.Machine.Functions {
		if ids, err := idset.Parse[idset.NUMA](string(f.NUMAs)); err == nil && ids.Len() == 1 {
			out[strings.ToLower(f.Address)] = int(ids.Min())
		}
	}
	return out
}

// Functions keeps the PCI functions of nodes as they are reported. The zero Functions has none. Several goroutines may
// use it.
type Functions struct {
	mu      sync.Mutex
	nodes   map[string]map[string]int
	version int64
}

// FunctionsOf returns the PCI functions of the layouts' nodes.
func FunctionsOf(layouts []v1alpha1.NodeLayout) *Functions {
	out := &Functions{}
	for i := range layouts {
		out.Report(&layouts[i])
	}
	return out
}

// Report sets the functions of a layout's node.
func (r *Functions) Report(l *v1alpha1.NodeLayout) {
	now := addresses(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if maps.Equal(r.nodes[l.Name], now) {
		return
	}
	if r.nodes == nil {
		r.nodes = map[string]map[string]int{}
	}
	r.nodes[l.Name] = now
	r.version++
}

// Forget drops the nodes for which gone returns true.
func (r *Functions) Forget(gone func(node string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.nodes, func(node string, _ map[string]int) bool { return gone(node) })
}

// Len returns the number of nodes.
func (r *Functions) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes)
}

// Function returns the id of the NUMA node of the PCI function at an address, in lower case, on a node; ok is false if
// the node has not reported such a function.
func (r *Functions) Function(node, address string) (numa int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	numa, ok = r.nodes[node][address]
	return numa, ok
}

// Version changes whenever a node reports other functions.
func (r *Functions) Version() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}
