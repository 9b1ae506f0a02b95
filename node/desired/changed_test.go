package desired

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/topo"
)

// A kubelet decides by the machine of its start, and refuses some state files at the next one. What differs is in the
// layout; it is quiet about a machine and files that agree.
func TestWhatAKubeletKeepsIsCompared(t *testing.T) {
	const both = "numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi"
	const less = "numa 0 cpus 0-2 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi"
	const pages = "numa 0 cpus 0-3 memory 8Gi hugepages-1Gi 2\nnuma 1 cpus 4-7 memory 8Gi hugepages-1Gi 2"
	held := `{"uid-p":{"main":"2-3"}}`
	base := observed(t).runs("p").lists("p")
	base.Node.CPUs, base.Node.Memory = 8, 16<<30
	base.Node.Hugepages = map[string]int64{"hugepages-1Gi": 0}
	for _, c := range []struct {
		name, machine string
		o             Observation
		code, text    string
	}{
		{"nothing", both, base.cpus(t, "0-1,4-7", held), "", ""},
		{"a shared CPU is offline", less, base.cpus(t, "0-3,6-7", `{"uid-p":{"main":"4-5"}}`), "machine-changed", "CPUs 3 are offline"},
		{"a held CPU is offline", less, base.cpus(t, "0-1,4-7", held), "machine-changed", "CPUs 3 are offline"},
		{"a CPU came", "numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-8 memory 8Gi", base.cpus(t, "0-1,4-8", held),
			"machine-changed", "9 CPUs, the kubelet 8"},
		{"pages were allocated", pages, base.cpus(t, "0-1,4-7", held), "machine-changed",
			"4Gi of hugepages-1Gi, the kubelet 0"},
		{"memory was unplugged", "numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 4Gi", base.cpus(t, "0-1,4-7", held),
			"machine-changed", "12Gi memory, the kubelet 16Gi"},
		{"two pods hold a CPU", both, base.cpus(t, "0-1,4-7", `{"uid-p":{"main":"2-3"},"uid-q":{"main":"3"}}`),
			"state-inconsistent", "CPUs 3 are exclusive to two pods"},
		{"a CPU is shared and held", both, base.cpus(t, "0-7", held), "state-inconsistent", "CPUs 2-3 are both"},
		{"a reserved CPU is in no set", both, base.cpus(t, "1,4-7", held), "state-inconsistent",
			"reserved CPUs 0 are in no set"},
	} {
		m, err := topo.ParseMachine(c.machine)
		if err != nil {
			t.Fatal(err)
		}
		c.o.Facts = c.o.Facts.WithMachine(m, v1alpha1.Detail{}, nil).WithConfiguration(configuration(t, staticConfig), nil)
		var r Result
		for range maxUnsettled + 1 {
			r = Compute(Options{NodeName: "node-a"}, r.State, c.o)
		}
		if r.Layout == nil {
			t.Errorf("%s: nothing is published: %v", c.name, r.Err)
			continue
		}
		found := ""
		for _, i := range r.Layout.Inexact {
			if i.Code == "machine-changed" || i.Code == "state-inconsistent" {
				found += i.Code + ": " + i.Message
			}
		}
		if !strings.HasPrefix(found, c.code) || !strings.Contains(found, c.text) || c.code == "" && found != "" {
			t.Errorf("%s: inexact %q, want %s with %q", c.name, found, c.code, c.text)
		}
		if c.name == "a held CPU is offline" && (len(r.Node.Entries) != 1 || r.Node.Usage.FreeCPUs().Has(2)) {
			t.Errorf("%s: entries %v, free %s: CPU 2 is held", c.name, r.Node.Entries, r.Node.Usage.FreeCPUs())
		}
	}
}

// While a kubelet runs, the layout has the machine of its start, with the CPUs that it reserves there, and reports that
// the present one differs. After the kubelet's restart it has the new machine.
func TestTheMachineOfTheKubeletsStartStays(t *testing.T) {
	const both = "numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi"
	const less = "numa 0 cpus 1-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi"
	o := observed(t).runs("p").lists("p").cpus(t, "0-1,4-7", `{"uid-p":{"main":"2-3"}}`)
	o.Node.CPUs, o.Node.Memory = 8, 16<<30
	state := State{}
	see := func(what, machine string, o Observation, cpus, reserved string, differs bool) {
		t.Helper()
		m, err := topo.ParseMachine(machine)
		if err != nil {
			t.Fatal(err)
		}
		o.Facts = o.Facts.WithMachine(m, v1alpha1.Detail{}, nil).
			WithConfiguration(configuration(t, staticConfig), nil)
		r := Compute(Options{NodeName: "node-a"}, state, o)
		for range maxUnsettled {
			r = Compute(Options{NodeName: "node-a"}, r.State, o)
		}
		if state = r.State; r.Layout == nil {
			t.Fatalf("%s: nothing is published: %v", what, r.Err)
		}
		said := slices.ContainsFunc(r.Layout.Inexact, func(i v1alpha1.Inexact) bool { return i.Code == "machine-changed" })
		if got := r.Node.Machine.CPUs().String(); got != cpus || said != differs {
			t.Errorf("%s: CPUs %s and %v; want CPUs %s and the reason: %t", what, got, r.Layout.Inexact, cpus, differs)
		}
		if got := r.Node.Rules.CPU.Reserved.String(); got != reserved {
			t.Errorf("%s: CPUs %s are reserved, want %s", what, got, reserved)
		}
	}
	see("the start", both, o, "0-7", "0", false)
	see("a CPU is offline", less, o, "0-7", "0", true)
	see("it is back", both, o, "0-7", "0", false)
	restarted := o.cpus(t, "1,4-7", `{"uid-p":{"main":"2-3"}}`)
	restarted.Node.CPUs = 7
	see("a new kubelet", less, restarted, "1-7", "1", false)
	see("the CPU is back", both, restarted, "1-7", "1", true)
}
