package kube

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/state"
)

// This file detects layouts that contradict the API server. A node may write anything into its own layout. The holdings
// that it lists count on that node, whatever pods they name. If the API server has such a pod on another node, the
// report is not reliable, and the node is marked inexact.

// contradiction compares the entries of a node's report with the bound pods. If the report lists pods that are bound
// to other nodes, it returns the reason why the report is inexact, and otherwise nil.
func (f *Feed) contradiction(node string, entries []state.Entry) []state.Inexact {
	count := 0
	var first *boundPod
	for _, e := range entries {
		if p := f.bound.pods[e.Pod.UID]; p != nil && p.node != node {
			if count++; first == nil {
				first = p
			}
		}
	}
	if count == 0 {
		return nil
	}
	return []state.Inexact{{Code: state.ReportContradicted, Message: fmt.Sprintf(
		"the report lists pods that are bound to other nodes (%d), such as %s on node %s", count, first.id, first.node)}}
}

// contradict compares a newly bound pod with the reports of other nodes that may have listed it before.
func (f *Feed) contradict(p *boundPod) {
	for _, node := range f.book.Reporters(p.id.UID) {
		if node == p.node {
			continue
		}
		n := f.book.Snapshot().Node(node)
		if n == nil || n.Quality != state.Exact {
			continue
		}
		for _, why := range f.contradiction(node, n.Entries) {
			f.book.Mistrust(node, why)
		}
	}
}
