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
				if next, ok := n.With(state.PodID{UID: fmt.Sprint(j), Namespace: "ml", Name: fmt.Sprint("big-", j)}, full); ok {
					n = next
				}
			}
			for j := range 20 {
				small := state.PodID{UID: fmt.Sprint("s", j), Namespace: "ml", Name: fmt.Sprint("small-", j)}
				if next, ok := n.With(small, pod); ok {
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
	flat := strings.Join(strings.Fields(out.String()), " ")
	first := strings.Index(flat, "on n200")
	if len(lines) > 60 || first < 0 || first > strings.Index(flat, "another value of the label") ||
		!strings.HasPrefix(lines[0], `Not now: container "c" wants 2 cpu; the node has 0 free (node n200); it fits there`) {
		t.Errorf("%d lines, want at most 60, and node n200 first:\n%s", len(lines),
			strings.Join(lines[:min(60, len(lines))], "\n"))
	}
}

// On 5,000 nodes of every kind of answer, explain has at most 60 lines, and begins with the sentence and the nodes that
// can be freed. With --all it names every node.
func TestExplainIsShortOnThousandsOfNodes(t *testing.T) {
	pod := wanting(8, 4, 0)
	for i := range 12 { // a table of containers that would fill the page alone
		side := wanting(1, 1, 0).Containers[0]
		side.Name = fmt.Sprint("side-", i)
		pod.Containers = append(pod.Containers, side)
	}
	holder := func(name string) state.Entry { return entry(t, "ml/"+name, state.Observed, "1-31,33-63", 100, 1) }
	kinds := []*state.Node{node(t, "x", "numa 0 cpus 0-9 memory 32Gi\n", place.SingleNUMA),
		node(t, "x", "numa 0 cpus 0-7 memory 32Gi\n", place.Restricted)}
	around, nodes := map[string]view.Around{}, []*state.Node{}
	for i := range 5000 {
		name, at := fmt.Sprintf("node-%04d.some-rack.eu-central-1.compute.internal", i), view.Around{}
		n := *kinds[i%2]
		n.Name = name
		switch {
		case i%100 == 0:
			n = *node(t, name, xeon, place.SingleNUMA, holder(name))
			n.Entries[0].Pod.Name = fmt.Sprint("holder-", i)
		case i%5 > 1: // many teams, each with its own taint
			at.Barred = []place.Reason{{Code: place.Tainted, Resource: fmt.Sprintf("team-%d=yes:NoSchedule", i%70)}}
		case i%5 == 1:
			at.Barred = []place.Reason{{Code: place.Unselected, Resource: "zone=a", With: fmt.Sprint("zone-", i)}}
		}
		nodes, around[name] = append(nodes, &n), at
	}
	e := newExplanation(view.Pod{ID: state.PodID{Namespace: "ml", Name: "x"}, Pod: pod, Around: around}, nodes, nil)
	var short, whole bytes.Buffer
	if err := e.write(&short, false); err != nil {
		t.Fatal(err)
	}
	if err := e.write(&whole, true); err != nil {
		t.Fatal(err)
	}
	checkWidth(t, short.String())
	if n := strings.Count(short.String(), "\n"); n > 60 {
		t.Errorf("%d lines, want at most 60:\n%s", n, short.String())
	}
	if !strings.HasPrefix(short.String(), "Not now: ") || !strings.Contains(short.String(), "(--all shows them)") {
		t.Errorf("the sentence does not come first, or what is left out is not named:\n%s", short.String())
	}
	for _, n := range nodes {
		if !strings.Contains(whole.String(), n.Name) {
			t.Fatalf("with --all, node %s is missing", n.Name)
		}
	}
}
