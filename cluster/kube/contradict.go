package kube

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/state"
)

// This file detects layouts that contradict the API server. A node may write anything into its own layout. The
// holdings in the layout count on that node, whatever pods they name. If the API server has one of these pods on
// another node, the layout is not reliable, and the node that wrote it is marked inexact.

// contradiction compares the entries of a node's report with the bound pods. If the report lists pods that are bound
// to other nodes, it returns the reason why the report is inexact, and otherwise nil.
func (f *Feed) contradiction(node string, entries []state.Entry) []state.Inexact {
	count := 0
	var example *boundPod
	for _, e := range entries {
		if p := f.bound.pods[e.Pod.UID]; p != nil && p.node != node {
			if count++; example == nil {
				example = p
			}
		}
	}
	if count == 0 {
		return nil
	}
	return []state.Inexact{{Code: state.ReportContradicted, Message: fmt.Sprintf(
		"the report lists pods that are bound to other nodes (%d), such as %s on node %s", count, example.id, example.node)}}
}

// contradict marks other nodes as inexact whose reports list a newly bound pod.
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
