package kube

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// KeptMemory returns how many bytes of memory the kubelet of a node keeps from pods, apart from hugepages: capacity
// minus allocatable, minus the hugepages, which are part of the capacity of memory but not of its allocatable amount.
// ok is false if the node is nil or does not report its memory.
func KeptMemory(n *v1.Node) (bytes int64, ok bool) {
	if n == nil {
		return 0, false
	}
	capacity, known := n.Status.Capacity[v1.ResourceMemory]
	allocatable, also := n.Status.Allocatable[v1.ResourceMemory]
	if !known || !also {
		return 0, false
	}
	bytes = capacity.Value() - allocatable.Value()
	for name, pages := range n.Status.Capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			bytes -= pages.Value()
		}
	}
	return bytes, true
}
