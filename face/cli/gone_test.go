package cli

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// A pod that a layout lists and that no longer exists is marked wherever it is named. Devices that the kubelet gives to
// no pod are not shown as free.
func TestWhatIsGoneOrNeverGivenIsMarked(t *testing.T) {
	n := node(t, "a", xeon+"device vendor.example/nic n-0 numa 0\ndevice vendor.example/nic n-1 numa none\n",
		place.SingleNUMA, entry(t, "ml/old", state.Observed, "16-31,48-63", 100, 2),
		entry(t, "ml/there", state.Observed, "1-15,33-47", 100, 1))
	n.Gone = []state.PodID{id("ml/old")}
	c := cluster{nodes: []*state.Node{n}, pods: map[string]view.Pod{
		"ml/waits": {ID: id("ml/waits"), Pod: wanting(31, 10, 0)}}}
	for line, wants := range map[string][]string{
		"map a": {" A? ml/old", " B  ml/there", "? the pod is gone, and the node has not reported that",
			"∅", "0 of 1 free", "∅ never given out: without a known NUMA node"},
		"map a -o json":        {`"gone": true`, `"neverGiven": [`},
		"explain pod ml/waits": {"ml/old (gone)", "(gone) the pod no longer exists, and the node has not reported that"},
		"explain pod ml/old":   {"the layout of node a still lists it: its pod is gone, and the node has not reported that"},
	} {
		out, errs, _ := run(t, c, strings.Fields(line)...)
		for _, want := range wants {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s does not say %q:\n%s%s", line, want, out, errs)
			}
		}
	}
}

// The JSON output has the warnings that the text output shows.
func TestExplainHasMisspeltNamesAsData(t *testing.T) {
	c := cluster{pods: map[string]view.Pod{"ml/waits": {ID: id("ml/waits"), Pod: wanting(31, 10, 0), Phase: "Pending",
		Misspelt: []string{"nothing reads the label tenon.sh/x"}}}}
	out, errs, _ := run(t, c, "explain", "pod", "ml/waits", "-o", "json")
	if !strings.Contains(out, `"warnings": [`) || !strings.Contains(out, "nothing reads the label tenon.sh/x") {
		t.Errorf("%s%s", out, errs)
	}
}
