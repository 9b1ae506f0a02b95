package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Nothing but amounts matters to a plain pod, so a node without a layout that has these takes it, as check says, too.
func TestAPlainPodFitsOnANodeWithoutALayout(t *testing.T) {
	pod := view.Pod{ID: state.PodID{Namespace: "ml", Name: "x"}, Needs: whatif.Amounts{"cpu": 1000, "pods": 1},
		Pod:    &place.Pod{QoS: place.Burstable, Containers: []place.Container{{Name: "c", MilliCPU: 1000}}},
		Around: map[string]view.Around{}}
	for name, cpus := range map[string]int64{"bare": 4000, "full": 500} {
		pod.Around[name] = view.Around{Node: whatif.Node{Allocatable: whatif.Amounts{"cpu": cpus, "pods": 9}}}
	}
	problems := []document.Problem{{Node: "bare", Reason: "no layout"}, {Node: "full", Reason: "no layout"}}
	e := newExplanation(pod, nil, problems)
	if got, want := e.summary().Text, "Fits now on 1 of 2 nodes"; got != want || len(e.problems) > 0 {
		t.Errorf("%q, not judged %v; want %q", got, e.problems, want)
	}
	var out bytes.Buffer
	if err := e.write(&out, true); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(out.String()), " ")
	if !strings.Contains(flat, "bare - - its share of CPUs and memory") {
		t.Errorf("explain does not show that the pod fits on node bare:\n%s", &out)
	}
	pod.Pod = &place.Pod{QoS: place.Guaranteed, Containers: pod.Pod.Containers}
	if e := newExplanation(pod, nil, problems); len(e.problems) != 1 || e.problems[0].Node != "bare" {
		t.Errorf("a Guaranteed pod is judged on node bare: not judged %v", e.problems)
	}
	for _, v := range e.verdicts {
		if d := v.document(); d.Fits != (d.Node == "bare") {
			t.Errorf("as a document: %+v", d)
		}
	}
}
