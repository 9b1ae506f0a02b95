package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// A pod selects one of 410 nodes by its label. The other 409 nodes refuse it for one reason and form one group. The
// selected node refuses it for another reason, which comes first.
func TestManyNodesWithTheSameReasonAreOneGroup(t *testing.T) {
	pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 2000}}}
	full := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 11000}}}
	around, nodes := map[string]view.Around{}, []*state.Node{}
	for i := range 410 {
		name := fmt.Sprintf("n%03d", i)
		n := node(t, name, xeon, place.SingleNUMA)
		at := view.Around{}
		if i == 200 {
			for j := range 20 {
				if next, ok := n.With(state.PodID{UID: fmt.Sprint(j), Namespace: "ml", Name: "big"}, full); ok {
					n = next
				}
			}
			for j := range 20 {
				if next, ok := n.With(state.PodID{UID: fmt.Sprint("s", j), Namespace: "ml", Name: "small"}, pod); ok {
					n = next
				}
			}
		} else {
			at.Barred = []place.Reason{{Code: place.Unselected, Resource: "kubernetes.io/hostname=n200", With: name}}
		}
		nodes, around[name] = append(nodes, n), at
	}
	e := newExplanation(view.Pod{ID: state.PodID{Namespace: "ml", Name: "x"}, Pod: pod, Around: around}, nodes, nil)
	var out bytes.Buffer
	if err := e.write(&out, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	first := strings.Index(out.String(), "on n200")
	if len(lines) > 60 || first < 0 || first > strings.Index(out.String(), "another value of the label") {
		t.Errorf("%d lines, want at most 60, and node n200 first:\n%s", len(lines),
			strings.Join(lines[:min(60, len(lines))], "\n"))
	}
}
