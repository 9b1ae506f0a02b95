package cli

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// For a node with the kubelet's default policies, the output has what the kubelet does not align, and the settings that
// would align it.
func TestAnUnconfiguredNodeSpeaks(t *testing.T) {
	c := small(t)
	n := node(t, "bare", xeon, place.None)
	n.Rules = place.Rules{}
	n.Usage = place.NewUsage(n.Machine, n.Rules)
	c.nodes = append(slices.Clone(c.nodes[:1]), n)
	c.problems = nil
	c.pods["ml/bare"] = view.Pod{ID: id("ml/bare"), Pod: wanting(8, 16, 0), Node: "bare", Phase: "Running"}
	c.pods["ml/bare-next"] = view.Pod{ID: id("ml/bare-next"), Pod: wanting(8, 16, 0), Phase: "Pending"}
	for file, line := range map[string]string{
		"unaligned-map.txt":     "map bare",
		"unaligned-explain.txt": "explain pod ml/bare",
		"unaligned-waits.txt":   "explain pod ml/bare-next",
	} {
		answers(t, c, file, line)
	}
	if holdsNothing(c.nodes[0], wanting(8, 16, 0)) || !holdsNothing(&state.Node{Machine: n.Machine}, wanting(8, 16, 0)) {
		t.Error("only the node without policies assigns nothing")
	}
}
