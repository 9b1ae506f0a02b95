package stage

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// A resource that a report leaves out is not one that the node has none of: without the Node, its amount is unknown.
func TestAResourceThatAReportLeavesOut(t *testing.T) {
	l := layout(t, "a")
	l.Inexact = []v1alpha1.Inexact{{Code: "devices-omitted",
		Message: "resource smarter-devices/fuse is left out: 20475 devices, the most is 4096"}}
	for resource, want := range map[string]string{
		"smarter-devices/fuse": "how much of smarter-devices/fuse nodes have whose report leaves it out",
		"x.io/none":            "lacks",
	} {
		s, _, err := Export(exported(t, l))
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := s.Workloads([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": `+
			`[{"name": "c", "image": "i", "resources": {"limits": {"`+resource+`": "1"}}}]}}`), "default")
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(w[0].Unjudged, "; ")
		if lacks := s.Nodes()[0].Lacks(w[0].Want.Needs); len(lacks) > 0 {
			got = "lacks"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}
	}
}
