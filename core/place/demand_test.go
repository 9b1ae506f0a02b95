package place_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
)

// docs/reference/pod-annotations.md shows the outcome for pods of every policy and scope on nodes of every policy and
// scope. People write its tables; this test verifies that they are right.
func TestDemandTablesAreAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/pod-annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "## Every policy on every node")
	cells := 0
	for section := range strings.SplitSeq(tables, "\n### ") {
		title, body, _ := strings.Cut(section, "\n")
		_, body, ok := strings.Cut(body, "```text\n")
		if !ok {
			continue
		}
		setting, table, _ := strings.Cut(body, "```\n")
		t.Run(title, func(t *testing.T) { cells += checkTable(t, setting, strings.TrimSpace(table)) })
	}
	if want := 6 * 4 * 2 * 4 * 2; cells != want {
		t.Errorf("%d cells are documented, want %d", cells, want)
	}
}

// checkTable compares a table with the outcomes, and returns the number of combinations in it.
func checkTable(t *testing.T, setting, table string) (cells int) {
	row := func(line string) (out []string) {
		for cell := range strings.SplitSeq(strings.Trim(line, "| "), "|") {
			out = append(out, strings.TrimSpace(cell))
		}
		return out
	}
	lines := strings.Split(table, "\n")
	columns := row(lines[0])
	for _, line := range lines[2:] {
		r := row(line)
		if len(r) != len(columns) {
			t.Fatalf("row %q has %d cells, want %d", line, len(r), len(columns))
		}
		for i, want := range r[1:] {
			demands := []string{columns[i+1]}
			if columns[i+1] == "nothing" {
				demands = []string{"none/container", "none/pod", "best-effort/container", "best-effort/pod"}
			}
			for _, d := range demands {
				cells++
				if got := outcome(t, setting, r[0], d); got != want {
					t.Errorf("a pod that demands %s on a node of %s: %s; the documentation has %s", d, r[0], got, want)
				}
			}
		}
	}
	return cells
}

// outcome plays a setting on a node of a policy and scope; its last step is the pod, with a demand.
func outcome(t *testing.T, setting, node, demand string) string {
	t.Helper()
	nodePolicy, nodeScope, _ := strings.Cut(node, "/")
	policy, scope, _ := strings.Cut(demand, "/")
	text := strings.Replace(setting, "rules ", "rules topology="+nodePolicy+" scope="+nodeScope+" ", 1)
	head, tail, ok := strings.Cut(text, "admit pod")
	if !ok {
		t.Fatalf("no pod is admitted in:\n%s", setting)
	}
	f, err := scenario.Parse(node+" "+demand, head+"admit pod policy="+policy+" scope="+scope+tail)
	if err != nil {
		t.Fatal(err)
	}
	n := f.Begin()
	for _, s := range f.Steps {
		if s.Do != scenario.Admit {
			n.Do(s)
			continue
		}
		u := n.Usage()
		v := place.Place(u, &s.Pod)
		judged := place.Judge(u, &s.Pod, v, s.Demand)
		switch {
		case judged.Fits():
			n.Hold(s.Name, judged.Holdings)
		case s.Name != "pod":
			t.Fatalf("on a node of %s, %s is refused: %v", node, s.Name, judged.Reasons)
		case v.Fits():
			return "demand"
		default:
			return "kubelet"
		}
	}
	return "yes"
}

// A demand only turns an admission into a refusal with a reason. If Judge admits a pod, the demand holds for every
// choice of devices that the node may make.
func TestJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawnMachine(t)
		u := place.NewUsage(m, drawnRules(t, m))
		p := drawnPod(t)
		v := place.Place(u, p)
		d := drawnDemand(t)
		j := place.Judge(u, p, v, d)
		if !v.Fits() || !d.Binds() {
			if j.Refusal != v.Refusal || len(j.Holdings) != len(v.Holdings) {
				t.Fatalf("demand %+v turns %+v into %+v", d, v, j)
			}
			return
		}
		if !j.Fits() {
			checkRefusal(t, j)
			return
		}
		if len(v.Holdings) == 0 {
			t.Fatalf("a pod that holds nothing satisfies demand %+v", d)
		}
		if d.Policy != place.SingleNUMA {
			return
		}
		var groups [][]place.Holding
		for _, h := range v.Holdings {
			groups = append(groups, []place.Holding{h})
		}
		if d.Scope == place.PerPod {
			groups = [][]place.Holding{v.Holdings}
		}
		for _, g := range groups {
			if bad := misaligned(m, u, g, d, u.Rules.Enforces(p, d)); bad != "" {
				t.Fatalf("one NUMA node is demanded (%+v), but %+v may violate it: %s", d, g, bad)
			}
		}
	})
}

func drawnDemand(t *rapid.T) place.Demand {
	names := place.NamesOf(rapid.SliceOfDistinct(
		rapid.SampledFrom([]string{"cpu", "memory", "acme.com/gpu", "acme.com/nic"}),
		rapid.ID[string]).Draw(t, "names")...)
	d := place.Demand{
		Policy: rapid.SampledFrom([]place.Policy{
			place.None, place.BestEffort, place.Restricted, place.SingleNUMA}).Draw(t, "demand"),
		Scope: rapid.SampledFrom([]place.Scope{place.PerContainer, place.PerPod}).Draw(t, "demand scope"),
	}
	if rapid.Bool().Draw(t, "align") {
		d.Align = names
	} else {
		d.Ignore = names
	}
	return d
}

func concerns(d place.Demand, resource string) bool {
	if d.Align != "" {
		return slices.Contains(d.Align.List(), resource)
	}
	return !slices.Contains(d.Ignore.List(), resource)
}

// misaligned tries all devices that the node may take for loose blocks. It returns the first choice for which no single
// NUMA node is near all devices, or "". The machine is empty except for the pod.
func misaligned(m *topo.Machine, u *place.Usage, hs []place.Holding, d place.Demand, enforced bool) string {
	choices := [][]topo.Mask{nil} // every combination of positions of the pieces, as the NUMA nodes that each is near
	extend := func(by [][]topo.Mask) {
		var next [][]topo.Mask
		for _, c := range choices {
			for _, more := range by {
				next = append(next, append(slices.Clone(c), more...))
			}
		}
		choices = next
	}
	for _, h := range hs {
		if concerns(d, "cpu") {
			for i, n := range m.NUMAs() {
				if n.CPUs.AndLen(h.CPUs) > 0 {
					extend([][]topo.Mask{{1 << uint(i)}})
				}
			}
		}
		for _, b := range h.Memory {
			if concerns(d, b.Kind) && b.NUMAs.Len() > 1 {
				return fmt.Sprintf("%s on several NUMA nodes", b.Kind)
			} else if concerns(d, b.Kind) {
				extend([][]topo.Mask{{b.NUMAs}})
			}
		}
		for _, b := range h.Devices {
			if concerns(d, b.Resource) {
				extend(picks(m, u, b, enforced))
			}
		}
		if len(choices) > 1<<12 {
			return "" // too many to try
		}
	}
	for _, c := range choices {
		common := m.All()
		for _, mask := range c {
			if mask != 0 {
				common &= mask
			}
		}
		if common == 0 {
			return fmt.Sprint(c)
		}
	}
	return ""
}

// picks returns the NUMA nodes that each device of a block may be near: as predicted, or of any free device. A kubelet
// that enforces the demand takes no device that is not near the rest.
func picks(m *topo.Machine, u *place.Usage, b place.DeviceBlock, enforced bool) (out [][]topo.Mask) {
	r, _ := m.Resource(b.Resource)
	if !b.Loose || enforced {
		var one []topo.Mask
		for _, d := range r.Devices {
			if slices.Contains(b.IDs, d.ID) {
				one = append(one, d.NUMAs)
			}
		}
		return [][]topo.Mask{one}
	}
	free := u.FreeDevices(b.Resource)
	for set := range 1 << len(free) {
		var one []topo.Mask
		for i, d := range free {
			if set>>i&1 != 0 {
				one = append(one, d.NUMAs)
			}
		}
		if len(one) == len(b.IDs) {
			out = append(out, one)
		}
	}
	return out
}

// Judge never refuses what a node that enforces the demand admits. The ledger trusts such nodes if only their amounts
// are known.
func TestJudgeAdmitsWhatTheNodeEnforces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawnMachine(t)
		u := place.NewUsage(m, drawnRules(t, m))
		p := drawnPod(t)
		v := place.Place(u, p)
		d := place.Demand{Policy: place.SingleNUMA,
			Scope: rapid.SampledFrom([]place.Scope{place.PerContainer, place.PerPod}).Draw(t, "demand scope")}
		if !v.Fits() || !u.Rules.Enforces(p, d) {
			return
		}
		if j := place.Judge(u, p, v, d); !j.Fits() && j.Reasons[0].Code == place.Demanded {
			t.Fatalf("rules %+v enforce %+v, and the node would give %+v: %s",
				u.Rules.Topology, d, v.Holdings, j.Reasons[0].Text())
		}
	})
}

func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.StringMatching("[a-c]{1,2}")).Draw(t, "names")
		n := place.NamesOf(in...)
		for _, name := range []string{"", "a", "b", "c", "ab", "bc"} {
			if n.Has(name) != slices.Contains(in, name) {
				t.Fatalf("%q has %q: %v", n, name, n.Has(name))
			}
		}
		slices.Reverse(in)
		if place.NamesOf(in...) != n || place.NamesOf(n.List()...) != n {
			t.Fatalf("the same names give %q and %q", n, place.NamesOf(in...))
		}
	})
}
