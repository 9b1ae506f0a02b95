package kube

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// This file gives programs that keep a feed for a long time what a [Reader] computes of one that it fills once.

// Problems says why the feed's book has no state of some of the nodes, in ascending order of node.
func (f *Feed) Problems(nodes []v1.Node) []Problem { return problems(f, f.book.Snapshot(), nodes) }

// Notes returns what is to be known beside the states of nodes; see [Reader.Notes].
func (f *Feed) Notes() []Problem { return notes(f, f.book.Snapshot()) }

// RefusedBefore brings into the book which shapes a node has refused since it wrote its layout. It is called once for
// each layout, after Begin, with the pods that were seen before; later refusals reach the book with their pods.
func (f *Feed) RefusedBefore(layout *v1alpha1.NodeLayout, pods []v1.Pod) {
	refusals(f.book, layout, pods, f.now())
}
