package ledger

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// The reasons of a report stay with the node while pods are booked, and end with the next report.
func TestReasonsOfTheLastReportStay(t *testing.T) {
	l := halfFull(t, &topo.Pool{})
	why := []state.Inexact{{Code: state.UnhealthyDevices, Message: "acme.com/gpu: 1 of 16 devices is not listed"}}
	l.Inexact = why
	b := New()
	b.Report("n", l)
	if v, ok := b.Reserve("n", id(100), pod(2, 1), place.Demand{}); !ok || !v.Fits() {
		t.Fatalf("not reserved: %v", v.Reasons)
	}
	b.Assume("n", id(101), pod(4, 1))
	n := b.Snapshot().Node("n")
	for _, one := range append([]*state.Node{n, n.Without(id(0).UID)}, n.Others...) {
		if !slices.Equal(one.Inexact, why) {
			t.Errorf("reasons are %v, want %v", one.Inexact, why)
		}
	}
	l.Inexact = nil
	b.Report("n", l)
	if got := b.Snapshot().Node("n").Inexact; len(got) > 0 {
		t.Errorf("reasons of the report before: %v", got)
	}
}
