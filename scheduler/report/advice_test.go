package report_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// If no single pod blocks the room, the advice names those that have to end together, and none that could stay.
func TestAdviceNamesAllPodsThatHaveToEnd(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-15 memory 64Gi\nnuma 1 cpus 16-31 memory 64Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(namespace, name string, first, last idset.CPU) state.Entry {
		var cpus []idset.CPU
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
		return state.Entry{Pod: state.PodID{UID: name, Namespace: namespace, Name: name},
			Holdings: []place.Holding{{Container: "c", CPUs: idset.Of(cpus...)}}}
	}
	advice := func(cpus int64, entries ...state.Entry) string {
		b := ledger.New()
		b.Report("n", state.Layout{Machine: m, Rules: place.Rules{CPU: place.CPURules{Static: true},
			Topology: place.TopologyRules{Policy: place.SingleNUMA}}, Entries: entries})
		pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: cpus * 1000}}}
		return report.Refused{Namespace: "mine", Pod: pod, Snapshot: b.Snapshot()}.Advice([]string{"gone", "n"})
	}
	first, second := entry("mine", "first", 0, 9), entry("mine", "second", 10, 15)
	a, x, c := entry("mine", "a", 16, 19), entry("theirs", "x", 20, 23), entry("mine", "c", 24, 27)
	nobody := entry("", "", 0, 9) // amounts that no known pod holds
	for _, test := range []struct {
		cpus    int64
		entries []state.Entry
		want    string
	}{
		{6, []state.Entry{first, a, x, c}, ""}, // it fits by now
		{10, []state.Entry{first, a, x, c}, "On node n it fits when one of these pods ends: first"},
		{13, []state.Entry{first, second, a, x, c}, "On node n it fits when these pods end: first, second"},
		{12, []state.Entry{a, x, first, second, c}, "On node n it fits when these pods end: a, and 1 more"},
		{10, []state.Entry{nobody, a, x, c}, "On node n it fits when these pods end: a, and 1 more"},
	} {
		if got := advice(test.cpus, test.entries...); got != test.want {
			t.Errorf("%d CPUs beside %v: %q, want %q", test.cpus, test.entries, got, test.want)
		}
	}
}
