package cli

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// A pod without a node that is being deleted is placed by no scheduler, and so by no command.
func TestPodsThatAreBeingDeletedWaitForNothing(t *testing.T) {
	c := cluster{nodes: []*state.Node{node(t, "a", xeon, place.SingleNUMA)}, pods: map[string]view.Pod{
		"ml/waits": {ID: id("ml/waits"), Pod: wanting(4, 10, 0), Deleted: true}}}
	out, errs, _ := run(t, c, "explain", "pod", "ml/waits")
	if !strings.HasPrefix(out, "It is being deleted, and no scheduler places it.\n") {
		t.Errorf("%s%s", out, errs)
	}
	leaving := scattered(t, func(p *v1.Pod) {
		if p.Name == "wide" {
			p.DeletionTimestamp = new(metav1.Now())
		}
	})
	out, errs, code := runWith(t, Setup{Stages: stages(nil)}, leaving, "simulate", "--nodes", "-", "--pending")
	if code != 0 || strings.Contains(out, "ml/wide") || !strings.Contains(errs, "Warning: 1 pod is being deleted and no "+
		"scheduler places it, so --pending leaves it out: ml/wide\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	out, errs, _ = runWith(t, Setup{Stages: stages(nil)}, leaving, "simulate", "--nodes", "-", "--pod", "ml/web-0")
	if strings.Contains(out, "waits for a node now") {
		t.Errorf("%s%s", out, errs)
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
