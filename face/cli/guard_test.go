package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

func TestGuardFlags(t *testing.T) {
	f := guardFlags{unknown: "AllowWithoutDemand", coarse: "Refuse", silent: "Refuse", inexact: "Refuse",
		keepRestartable: true}
	want := guard.Guard{Unknown: guard.WithoutDemand, Estimated: true, Silent: true, Inexact: true,
		KeepRestartable: true}
	if g, err := f.guard(); err != nil || g != want {
		t.Errorf("guard %+v, error %v; want %+v", g, err, want)
	}
	if g, err := (&guardFlags{}).guard(); err != nil || g != (guard.Guard{}) {
		t.Errorf("without flags: guard %+v, error %v", g, err)
	}
	f.silent = "Maybe"
	if _, err := f.guard(); err == nil || err.Error() != `--silent-nodes "Maybe" is not known: want one of Allow, Refuse` {
		t.Errorf("error %v", err)
	}
}

// Explain does not know the profile of a scheduler. It names the stricter arguments that would change the verdict.
func TestExplainNamesArgumentsThatKeepAPodAway(t *testing.T) {
	exact, other := node(t, "exact", xeon, place.SingleNUMA), node(t, "other", xeon, place.SingleNUMA)
	other.Inexact = []state.Inexact{{Code: state.UnknownKubeletVersion}}
	pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 2000}}}
	asked := view.Pod{ID: state.PodID{Namespace: "ml", Name: "x"}, Pod: pod}
	e := newExplanation(asked, []*state.Node{exact, other}, nil)
	var out bytes.Buffer
	if err := e.write(&out, false); err != nil {
		t.Fatal(err)
	}
	const want = "A scheduler whose profile has inexactNodes: Refuse keeps it from 1 of these nodes."
	if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "silentNodes") {
		t.Errorf("does not say %q alone:\n%s", want, out.String())
	}
}
