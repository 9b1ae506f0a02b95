package ledger

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Statuses of pods stay with their node until they are recorded as empty, whatever is reported. They change nothing
// else.
func TestStatusesStayWithTheNode(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 8Gi\ndevice acme.com/gpu g0 numa 0")
	if err != nil {
		t.Fatal(err)
	}
	l := state.Layout{Machine: m, Entries: []state.Entry{{Pod: state.PodID{UID: "u", Namespace: "ns", Name: "p"},
		Holdings: []place.Holding{{Container: "c", Devices: []place.DeviceBlock{{Resource: "acme.com/gpu",
			IDs: []string{"g0"}, NUMAs: 1}}}}}}}
	b := New()
	changes := 0
	b.OnChange(func(string) { changes++ })
	pods := func() (out []string) {
		for _, h := range b.Snapshot().Node("n").RestartHazards() {
			out = append(out, h.Pods...)
		}
		return out
	}
	stopped := place.Statuses{Stopped: []string{"c"}}
	b.Status("n", "u", stopped) // before the node is known
	for range 2 {
		b.Report("n", l)
		if got := pods(); !slices.Equal(got, []string{"ns/p"}) {
			t.Fatalf("after a report: endangered are %v", got)
		}
	}
	before := changes
	b.Status("n", "u", stopped)
	b.Status("n", "other", stopped)
	if got := pods(); !slices.Equal(got, []string{"ns/p"}) {
		t.Errorf("with statuses of a pod that is not in the report: endangered are %v", got)
	}
	if n := b.Snapshot().Node("n").Without("u"); len(n.RestartHazards()) > 0 {
		t.Errorf("without the pod: %v", n.RestartHazards())
	}
	b.Status("n", "other", place.Statuses{})
	b.Status("n", "u", place.Statuses{})
	if got := pods(); got != nil {
		t.Errorf("without statuses: endangered are %v", got)
	}
	if len(b.statuses) > 0 || changes != before {
		t.Errorf("%d nodes have statuses, and %d changes were announced", len(b.statuses), changes-before)
	}
}
