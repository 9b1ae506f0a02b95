package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// This file has the results of a [Reader] for programs that keep one feed for a long time.

// Problems returns why the feed's ledger has no state of some of the nodes, in ascending order of node.
func (f *Feed) Problems(nodes []v1.Node) []document.Problem {
	return problems(f, f.book.Snapshot(), nodes)
}

// Notes returns notes on nodes that have a state; see [Reader.Notes].
func (f *Feed) Notes() []document.Problem { return notes(f, f.book.Snapshot()) }

// RefusedBefore records which shapes a node has refused since it wrote its layout. Call it once for each layout, after
// Begin, with the pods that arrived before; the feed records later refusals with their pods.
func (f *Feed) RefusedBefore(layout *v1alpha1.NodeLayout, pods []v1.Pod) {
	refusals(f.book, layout, pods, f.now())
}
