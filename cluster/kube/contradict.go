package kube

import (
	"fmt"

	"github.com/tenon-numa/tenon/core/ledger"
)

// This file notices layouts that contradict the API server. A node may write what it likes in its own layout. What
// it lists counts there, whoever the pods belong to; where the API server has such a pod on another node, the
// report is not to be trusted, and the node says so.

// contradiction returns the reason why a report is inexact that lists pods of other nodes, or nil.
func (f *Feed) contradiction(node string, entries []ledger.Entry) []ledger.Inexact {
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
	return []ledger.Inexact{{Code: ledger.ReportContradicted, Message: fmt.Sprintf(
		"the report lists pods that are bound to other nodes (%d), such as %s on node %s", count, first.id, first.node)}}
}

// contradict notes a pod that is bound: other nodes may have listed it before.
func (f *Feed) contradict(p *boundPod) {
	for _, node := range f.book.Reporters(p.id.UID) {
		if node == p.node {
			continue
		}
		n := f.book.Snapshot().Node(node)
		if n == nil || n.Quality != ledger.Exact {
			continue
		}
		for _, why := range f.contradiction(node, n.Entries) {
			f.book.Mistrust(node, why)
		}
	}
}
