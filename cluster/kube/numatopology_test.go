package kube

import (
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/state"
)

// numatopologyOf returns a Numatopology in the form in which a feed receives it.
func numatopologyOf(node string, version int, free ...int64) *v1alpha2.NodeResourceTopology {
	o := topologyOf(node, version, free...)
	o.Kind = nrt.Numatopology
	return o
}

// A layout goes before a NodeResourceTopology, which goes before a Numatopology. When one is deleted, the next counts.
// Versions of one kind are not compared with versions of another kind.
func TestWhichObjectOfANodeCounts(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	from := func(kind, want string) {
		t.Helper()
		wantAmounts(t, book, "n", want)
		if n := book.Snapshot().Node("n"); n != nil && n.From != kind {
			t.Errorf("the node is known from %q, want %q", n.From, kind)
		}
	}
	f.Topology(numatopologyOf("n", 20, 8, 5))
	from("Numatopology", "coarse free 8 5 somebody=3(counted)")
	f.Topology(topologyOf("n", 10, 6, 8))
	from("NodeResourceTopology", "coarse free 6 8 somebody=2(counted)")
	f.Topology(numatopologyOf("n", 21, 8, 1))
	from("NodeResourceTopology", "coarse free 6 8 somebody=2(counted)")
	f.Layout(layoutOf(t, "n", 30))
	f.TopologyGone(topologyOf("n", 11))
	if n := book.Snapshot().Node("n"); n.Quality != state.Exact || n.From != "" {
		t.Errorf("quality %s from %q, want the layout's", n.Quality, n.From)
	}
	f.LayoutGone(layoutOf(t, "n", 31))
	from("Numatopology", "coarse free 8 1 somebody=7(counted)")
	f.TopologyGone(numatopologyOf("n", 22))
	from("", "unknown")
	f.Topology(numatopologyOf("n", 21, 8, 1)) // late
	from("", "unknown")
	f.Topology(topologyOf("n", 12, 4, 4))
	from("NodeResourceTopology", "coarse free 4 4 somebody=8(counted)")
}

// A pod stays charged when the kind of the object changes, if the new object's fingerprint shows that it lacks the pod.
func TestAPodStaysChargedWhenTheKindChanges(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Topology(numatopologyOf("n", 1, 8, 8))
	f.Pod(start(cpus("p", 4)))
	f.Topology(signed(topologyOf("n", 2, 8, 8)))
	wantAmounts(t, book, "n", "coarse free 4 8 p=4(predicted)")
}
