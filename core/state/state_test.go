package state_test

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

func TestOmittedResourceIsFoundInItsReason(t *testing.T) {
	for _, c := range []struct {
		why  state.Inexact
		want string
	}{
		{state.OmittedDevices("acme.com/gpu", "it has 5000 devices"), "acme.com/gpu"},
		{state.Inexact{Code: state.DevicesOmitted, Message: "resource acme.com/gpu"}, ""},
		{state.Inexact{Code: state.StaleFacts, Message: state.OmittedDevices("a/b", "x").Message}, ""},
	} {
		if got := c.why.Omits(); got != c.want {
			t.Errorf("%v omits %q, want %q", c.why, got, c.want)
		}
	}
}

// A node that was made by hand has no basis, and answers what can be known without one.
func TestNodeMadeByHandAnswers(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{CPU: place.CPURules{Static: true}}
	p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 6000}}}
	empty := &state.Node{Name: "n", Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	full, ok := empty.With(state.PodID{UID: "u"}, p)
	if !ok || full.Fits(p) || !full.FitsEmpty(p) || len(full.Never(p)) > 0 {
		t.Errorf("beside a pod of 6 CPUs of 8: admitted %v, fits again %v, fits on the empty node %v, never %v", ok,
			full.Fits(p), full.FitsEmpty(p), full.Never(p))
	}
	if left := full.Without("u"); !left.Fits(p) || len(left.Entries) > 0 || len(full.Entries) != 1 {
		t.Errorf("without the pod: fits %v, entries %v; before %v", left.Fits(p), left.Entries, full.Entries)
	}
	if pods, waiting := full.Waits(p.Shape()); pods != 0 || waiting != 0 || full.Unplaced("u") || full.Doubtful() != "" {
		t.Errorf("waits for %d pods, %d without a turn, unplaced %v, doubtful %q", pods, waiting, full.Unplaced("u"),
			full.Doubtful())
	}
}

func TestPodsOfOtherShapesWait(t *testing.T) {
	n := state.Node{Basis: state.Basis{Queue: state.Queue{Shape: "a", Pods: 3, Waiting: 1}}}
	if pods, _ := n.Waits("a"); pods != 0 {
		t.Errorf("a pod of the same shape waits for %d", pods)
	}
	if pods, waiting := n.Waits("b"); pods != 3 || waiting != 1 {
		t.Errorf("a pod of another shape waits for %d, %d without a turn; want 3 and 1", pods, waiting)
	}
	n.Basis.Queue.Mixed = true
	if pods, _ := n.Waits("a"); pods != 3 {
		t.Errorf("among several shapes, a pod waits for %d, want 3", pods)
	}
}

func TestWhatIsOpenIsDoubtful(t *testing.T) {
	unfollowed := []state.Inexact{{Code: state.PodsUnreported}}
	for want, n := range map[string]state.Node{
		"silent":                {Silent: true, Unsettled: true},
		"more pods":             {Unsettled: true, Inexact: unfollowed},
		"does not report pod x": {Unlisted: []state.PodID{{Namespace: "x", Name: "y"}}},
		"has not reported":      {Others: []*state.Node{{}}},
	} {
		if got := n.Doubtful(); !strings.Contains(got, want) {
			t.Errorf("doubtful because of %q, want %q", got, want)
		}
	}
}
