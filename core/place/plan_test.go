package place

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// A plan must agree with the engine or be unsure. It must be unsure seldom, since the engine takes a hundred times as
// long.

// plannedMachine has up to six NUMA nodes that differ in everything that plans use.
func plannedMachine(t *rapid.T) *topo.Machine {
	n := rapid.SampledFrom([]int{1, 2, 2, 3, 4, 4, 6}).Draw(t, "numas")
	equal := rapid.Bool().Draw(t, "equal NUMA nodes")
	var b strings.Builder
	next := 0
	for i := range n {
		cores, gigs, pages := 4, 8, 2
		if !equal {
			cores = rapid.IntRange(0, 5).Draw(t, "cores")
			gigs, pages = rapid.IntRange(2, 12).Draw(t, "memory"), rapid.IntRange(0, 2).Draw(t, "pages")
		}
		if i == 0 {
			cores = max(cores, 1)
		}
		fmt.Fprintf(&b, "numa %d", 2*i)
		if cores > 0 {
			fmt.Fprintf(&b, " socket %d cpus %d-%d/%d-%d", i%2, next, next+cores-1, next+cores, next+2*cores-1)
			next += 2 * cores
		}
		fmt.Fprintf(&b, " memory %dGi hugepages-1Gi %d\n", gigs, pages)
	}
	for _, resource := range []string{"acme.com/gpu", "acme.com/nic"} {
		for k := range rapid.IntRange(0, 6).Draw(t, resource) {
			where := fmt.Sprint(2 * rapid.IntRange(0, n-1).Draw(t, "where"))
			switch rapid.IntRange(0, 15).Draw(t, "odd") {
			case 0:
				where = "none"
			case 1, 2:
				where = fmt.Sprintf("0,%d", 2*(n-1))
			case 3:
				where += " unhealthy"
			}
			fmt.Fprintf(&b, "device %s d%d numa %s\n", resource, k, where)
		}
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return m
}

func plannedRules(t *rapid.T, m *topo.Machine) (r Rules) {
	r.Topology.Policy = Policy(rapid.IntRange(0, 3).Draw(t, "policy"))
	r.Topology.PreferClosest = rapid.IntRange(0, 4).Draw(t, "closest") == 0
	r.Topology.Scope = Scope(rapid.IntRange(0, 1).Draw(t, "scope"))
	r.CPU.Static = rapid.IntRange(0, 9).Draw(t, "static CPUs") > 0
	r.Memory.Static = rapid.IntRange(0, 5).Draw(t, "static memory") > 0
	seldom := func(what string) bool { return rapid.IntRange(0, 7).Draw(t, what) == 0 }
	r.CPU.FullPCPUsOnly, r.CPU.AlignBySocket = seldom("full cores"), seldom("by socket") && r.Topology.Policy != SingleNUMA
	r.CPU.DistributeAcrossNUMA = seldom("distribute")
	r.CPU.Reserved = idset.Of(m.CPUs().List()[:rapid.IntRange(0, 2).Draw(t, "reserved")%m.CPUs().Len()]...)
	return r
}

// plannedHolding takes anything from anywhere, since a plan may be asked in any state.
func plannedHolding(t *rapid.T, m *topo.Machine) (h Holding) {
	mask := func() topo.Mask {
		if rapid.IntRange(0, 2).Draw(t, "several") > 0 {
			return 1 << uint(rapid.IntRange(0, len(m.NUMAs())-1).Draw(t, "numa"))
		}
		return topo.Mask(rapid.Uint64Range(1, uint64(m.All())).Draw(t, "numas"))
	}
	all := m.CPUs().List()
	for range rapid.IntRange(0, 6).Draw(t, "cpus") {
		h.CPUs = h.CPUs.With(rapid.SampledFrom(all).Draw(t, "cpu"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "blocks") {
		h.Memory = append(h.Memory, Block{
			rapid.SampledFrom([]string{topo.Memory, topo.Memory, "hugepages-1Gi"}).Draw(t, "kind"),
			mask(), int64(rapid.IntRange(0, 4).Draw(t, "gigs")) << 30})
	}
	for _, res := range m.Resources() {
		d := rapid.SampledFrom(res.Devices).Draw(t, "device")
		if rapid.Bool().Draw(t, "take") {
			h.Devices = append(h.Devices, DeviceBlock{Resource: res.Name, IDs: []string{d.ID}, NUMAs: d.NUMAs})
		}
	}
	return h
}

func plannedPod(t *rapid.T) *Pod {
	p := &Pod{QoS: Guaranteed, Containers: []Container{plannedContainer(t, 12, 20)}}
	if rapid.IntRange(0, 6).Draw(t, "burstable") == 0 {
		p.QoS = Burstable
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "more containers") {
		c := plannedContainer(t, 3, 2)
		c.Kind = rapid.SampledFrom([]Kind{App, App, App, App, Sidecar, Sidecar, Init}).Draw(t, "kind")
		p.Containers = append([]Container{c}, p.Containers...)
	}
	for i := range p.Containers {
		p.Containers[i].Name = fmt.Sprint("c", i)
	}
	return p
}

// plannedContainer wants at most cpus CPUs and gib GiB.
func plannedContainer(t *rapid.T, cpus, gigs int) Container {
	c := Container{MilliCPU: int64(rapid.IntRange(0, cpus).Draw(t, "cpus")) * 1000}
	if rapid.IntRange(0, 3).Draw(t, "pages") == 0 {
		c.Memory = append(c.Memory, Amount{Kind: "hugepages-1Gi", Bytes: int64(rapid.IntRange(0, 3).Draw(t, "pages")) << 30})
	}
	if rapid.IntRange(0, 19).Draw(t, "other pages") == 0 {
		c.Memory = append(c.Memory, Amount{Kind: "hugepages-2Mi", Bytes: int64(rapid.IntRange(0, 1).Draw(t, "pages")) << 21})
	}
	if rapid.IntRange(0, 19).Draw(t, "memory") > 0 {
		c.Memory = append(c.Memory, Amount{Kind: topo.Memory,
			Bytes: int64(min(gigs, rapid.SampledFrom([]int{0, 1, 2, 4, 9, 20}).Draw(t, "gigs"))) << 30})
	}
	for _, resource := range []string{"acme.com/gpu", "acme.com/nic", "acme.com/none"} {
		if n := rapid.SampledFrom([]int{-1, -1, 0, 1, 1, 2, 3}).Draw(t, resource); n >= 0 {
			c.Devices = append(c.Devices, Count{resource, int64(n)})
		}
	}
	return c
}

// planned is the answer of plans for a pod.
func planned(u *Usage, p *Pod) answer {
	c := u.podPlan(p)
	return c.ask(&u.counts)
}

// byTables is Place without plans.
func byTables(u *Usage, p *Pod) Verdict {
	if len(u.bars(u.Rules.Serves(p))) > 0 {
		return Place(u, p)
	}
	a := admission{u: u, pod: p, taken: make([]Holding, len(p.Containers)), tables: true}
	return a.verdict()
}

func comparePlan(t *rapid.T, tally func(*Pod, answer)) {
	m := plannedMachine(t)
	u := NewUsage(m, plannedRules(t, m))
	for range rapid.IntRange(1, 8).Draw(t, "pods") {
		p := plannedPod(t)
		v := byTables(u, p)
		got, want := planned(u, p), v.Fits()
		if also := Place(u, p); !reflect.DeepEqual(v, also) {
			t.Fatalf("by tables %+v\nby plans %+v\npod %+v\nrules %+v\n%+v", v, also, p, u.Rules, m.Spec())
		}
		if got != unsure && (got == yes) != want {
			t.Fatalf("plan says %v, engine %v\npod %+v\nrules %+v\n%s\namounts %v cells %v", got == yes, want, p.Containers[0],
				u.Rules, fmt.Sprintf("%+v", m.Spec()), u.amounts, u.cells)
		}
		if Fits(u, p) != want || NewQuestion(p).Fits(u) != want {
			t.Fatalf("Fits says %v, tables %v\npod %+v\nrules %+v\n%+v", !want, want, p, u.Rules, m.Spec())
		}
		tally(p, got)
		if v.Fits() && rapid.IntRange(0, 3).Draw(t, "hold") > 0 {
			u = u.Hold(v.Holdings...)
		} else {
			u = u.Hold(plannedHolding(t, m))
		}
		if rapid.IntRange(0, 5).Draw(t, "reported") == 0 {
			i := rapid.IntRange(0, len(m.NUMAs())-1).Draw(t, "numa")
			g := MemoryGroup{NUMAs: topo.Mask(rapid.Uint64Range(1, uint64(m.All())).Draw(t, "group")) | 1<<uint(i),
				Free: []Amount{{Kind: topo.Memory, Bytes: int64(rapid.IntRange(0, 9).Draw(t, "free")) << 30}}}
			u = u.WithGroups(map[int]MemoryGroup{i: g})
		}
	}
}

func TestPlanAgreesWithTheEngine(t *testing.T) {
	var alone, several [3]int
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			comparePlan(t, func(p *Pod, a answer) {
				if p.alone() {
					alone[a]++
				} else {
					several[a]++
				}
			})
		}
	})
	for _, x := range []struct {
		what   string
		tally  [3]int
		unsure int // percent, at most; states this unusual are rare outside of tests
	}{{"one container", alone, 25}, {"several containers", several, 85}} {
		t.Logf("%s: no %d, yes %d, unsure %d", x.what, x.tally[no], x.tally[yes], x.tally[unsure])
		if x.tally[no] == 0 || x.tally[yes] == 0 {
			t.Errorf("%s: the cases are one-sided", x.what)
		}
		if all := x.tally[no] + x.tally[yes] + x.tally[unsure]; x.tally[unsure]*100 > all*x.unsure {
			t.Errorf("%s: %d of %d answers are left to the engine, want at most %d %%",
				x.what, x.tally[unsure], all, x.unsure)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { comparePlan(t, func(*Pod, answer) {}) }))
}
