package desired

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/topo"
)

// noManagers is the configuration of a kubelet without managers.
const noManagers = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// reservesZero is the configuration of a kubelet that keeps CPU 0 for the system.
const reservesZero = noManagers + "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"

// kubeletStart is when the kubelet of these tests started.
var kubeletStart = time.Date(2026, 11, 26, 20, 0, 0, 123456789, time.UTC)

// restart is a start of an agent on a node where an earlier agent has published a machine with eight CPUs and eight
// hugepages on both NUMA nodes, which was that of the kubelet's start.
type restart struct {
	config string
	now    string    // the present machine
	cpus   int64     // of Node.status.capacity
	state  string    // the CPUs of the CPU manager's file; "": there is none
	start  time.Time // of the kubelet that runs now
}

const published = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-7 memory 8Gi hugepages-2Mi 8"

// publishedNode is an observation of the node whose machine was published.
func publishedNode(t *testing.T) Observation {
	t.Helper()
	o := observed(t)
	o.Node.CPUs, o.Node.Memory = 8, 16<<30
	o.Node.Hugepages = map[string]int64{"hugepages-2Mi": 32 << 20}
	return o
}

// play returns the result of the agent's first observation that publishes a layout.
func (c restart) play(t *testing.T) Result {
	t.Helper()
	first := kubeletStart
	if c.start.IsZero() {
		first = c.start // kubelets of unknown starts
	}
	o := publishedNode(t)
	earlier := c.see(t, published, first, o).Layout

	o.Earlier, o.Node.CPUs, o.Kubelet.CPU = earlier, c.cpus, nil
	if c.state != "" {
		o = o.cpus(t, c.state, "{}")
	}
	return c.see(t, c.now, c.start, o)
}

// see returns the result of an agent that has just started.
func (c restart) see(t *testing.T, machine string, start time.Time, o Observation) (r Result) {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	o.Facts = Facts{}.WithMachine(m, v1alpha1.Detail{}, nil).WithConfiguration(configuration(t, c.config), nil)
	o.Kubelet.Started = start
	for range maxUnsettled + 1 {
		r = Compute(Options{NodeName: "node-a"}, r.State, o)
		o.Earlier = nil
	}
	if r.Layout == nil {
		t.Fatalf("nothing is published: %v", r.Err)
	}
	if got := r.Layout.Kubelet.Started.Time; !got.Equal(start.Truncate(time.Microsecond)) {
		t.Errorf("the kubelet's start is %s, want %s", got, start)
	}
	return r
}

// An agent that starts after the machine has changed takes the kubelet's machine from the layout of an earlier agent,
// if that layout is of the same start of the kubelet and agrees with what the kubelet reports.
func TestAnEarlierLayoutHasTheMachineOfTheKubeletsStart(t *testing.T) {
	const swapped = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-6,8 memory 8Gi hugepages-2Mi 8"
	const moved = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 16\nnuma 1 cpus 4-7 memory 8Gi hugepages-2Mi 0"
	const fewer = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-6 memory 8Gi hugepages-2Mi 8"
	const more = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-8 memory 8Gi hugepages-2Mi 8"
	const idle = "numa 0 cpus 1-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-7 memory 8Gi hugepages-2Mi 8"
	const pages = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 9\nnuma 1 cpus 4-7 memory 8Gi hugepages-2Mi 8"
	const least = "numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-5 memory 8Gi hugepages-2Mi 8"
	later := kubeletStart.Add(time.Minute)
	for _, c := range []struct {
		name string
		restart
		want, says string // CPUs and hugepages of each NUMA node; the reason, or ""
	}{
		{"nothing", restart{staticConfig, published, 8, "0-7", kubeletStart}, "0-7 8 8", ""},
		{"a CPU is offline", restart{staticConfig, fewer, 8, "0-7", kubeletStart}, "0-7 8 8", "CPUs 7 are offline"},
		{"a CPU came", restart{staticConfig, more, 8, "0-7", kubeletStart}, "0-7 8 8", "9 CPUs, the kubelet 8"},
		{"a reserved CPU is offline", restart{reservesZero, idle, 8, "0-7", kubeletStart}, "0-7 8 8",
			"CPUs 0 are offline, and the kubelet reserves them"},
		{"a reserved CPU is offline, and no agent saw the machine", restart{reservesZero, idle, 8, "0-7", time.Time{}},
			"1-7 8 8", "CPUs 0 are offline, and the kubelet reserves them"},
		{"pages came", restart{staticConfig, pages, 8, "0-7", kubeletStart}, "0-7 8 8",
			"34Mi of hugepages-2Mi, the kubelet 32Mi"},
		{"pages moved", restart{staticConfig, moved, 8, "0-7", kubeletStart}, "0-7 8 8",
			"NUMA node 0 has 32Mi of hugepages-2Mi, the kubelet 16Mi"},
		{"a CPU for another", restart{staticConfig, swapped, 8, "0-7", kubeletStart}, "0-7 8 8", "CPUs 7 are offline"},
		{"a CPU for another, no static policy", restart{noManagers, swapped, 8, "", kubeletStart}, "0-7 8 8",
			"CPUs 7 went offline; CPUs 8 came"},
		{"the state file contradicts the layout", restart{staticConfig, swapped, 8, "0-6,8", kubeletStart}, "0-6,8 8 8", ""},
		{"neither agrees", restart{staticConfig, least, 7, "0-6", kubeletStart}, "0-5 8 8", "CPUs 6 are offline"},
		{"pages moved, and the kubelet restarted", restart{staticConfig, moved, 8, "0-7", later}, "0-7 16 0", ""},
		{"a CPU is offline, and the kubelet restarted", restart{noManagers, fewer, 8, "", later}, "0-6 8 8",
			"7 CPUs, the kubelet 8"}, // until the Node is up to date
		{"pages moved, of unknown starts", restart{staticConfig, moved, 8, "0-7", time.Time{}}, "0-7 16 0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.play(t)
			got := r.Node.Machine.CPUs().String()
			for _, n := range r.Node.Machine.NUMAs() {
				got += fmt.Sprintf(" %d", n.Hugepages[0].Count)
			}
			said := ""
			for _, i := range r.Layout.Inexact {
				if i.Code == "machine-changed" {
					said += i.Message
				}
			}
			if got != c.want || !strings.Contains(said, c.says) || (said == "") != (c.says == "") {
				t.Errorf("machine %s, says %q; want %s, %q", got, said, c.want, c.says)
			}
			reserved := r.Node.Rules.CPU.Reserved
			if c.want == "0-7 8 8" && c.config == staticConfig && reserved.String() != "0" {
				t.Errorf("CPUs %s are reserved, want 0", reserved)
			}
		})
	}
}

// A forged layout of the right start moves no NUMA node of an unchanged machine, and its amounts have to equal the
// amounts in the Node and the state file.
func TestForgedMachines(t *testing.T) {
	m := func(text string) v1alpha1.Machine {
		m, err := topo.ParseMachine(text)
		if err != nil {
			t.Fatal(err)
		}
		return v1alpha1.FromCore("node-a", m, configuration(t, noManagers).Rules, nil, nil).Machine
	}
	for lie, machine := range map[string]v1alpha1.Machine{
		"other NUMA nodes": m("numa 0 cpus 0-1 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 2-7 memory 8Gi hugepages-2Mi 8"),
		"more CPUs":        m("numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-9 memory 8Gi hugepages-2Mi 8"),
		"other CPUs":       m("numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 8\nnuma 1 cpus 4-6,8 memory 8Gi hugepages-2Mi 8"),
		"more pages":       m("numa 0 cpus 0-3 memory 8Gi hugepages-2Mi 80\nnuma 1 cpus 4-7 memory 8Gi hugepages-2Mi 8"),
		"no machine":       {},
	} {
		c := restart{config: staticConfig, now: published, start: kubeletStart}
		o := publishedNode(t)
		o.Earlier = c.see(t, published, kubeletStart, o).Layout.DeepCopy()
		o.Earlier.Machine = machine
		r := c.see(t, published, kubeletStart, o)
		if got := r.Node.Machine.NUMAs()[1].CPUs.String(); got != "4-7" || codes(r.Layout) != "rules-from-files" {
			t.Errorf("%s: NUMA node 1 has CPUs %s, reasons %q", lie, got, codes(r.Layout))
		}
	}
}
