package place

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// extremeMachine draws a machine whose sizes go up to the bounds of topo.
func extremeMachine(t *rapid.T) *topo.Machine {
	n := rapid.SampledFrom([]int{1, 2, 8, 12, 16, 17, 20, 24, 64}).Draw(t, "NUMA nodes")
	threads := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "threads")
	cores := max(1, rapid.SampledFrom([]int{n, 64, 512, topo.MaxCPUs / threads}).Draw(t, "cores")/n)
	first := rapid.SampledFrom([]int{0, idset.Max + 1 - n*cores*threads}).Draw(t, "first CPU")
	sockets := rapid.SampledFrom([]int{1, 2, n}).Draw(t, "sockets")
	perL3 := rapid.SampledFrom([]int{1, 4, 1 << 20}).Draw(t, "cores of an L3 group")
	kinds := rapid.SampledFrom([]int{0, 1, 2, 12}).Draw(t, "page sizes")
	var s topo.Spec
	for i := range n {
		numa := topo.NUMA{ID: idset.NUMA(i), Bytes: 1 << 40}
		for k := range kinds {
			numa.Hugepages = append(numa.Hugepages, topo.Hugepages{PageSize: 1 << (12 + k), Count: int64(64 + i)})
		}
		for range n {
			numa.Distances = append(numa.Distances, 10+rapid.IntRange(0, 2).Draw(t, "distance"))
		}
		s.NUMAs = append(s.NUMAs, numa)
		for c := range cores {
			at := i*cores + c
			core := topo.CoreSpec{NUMA: idset.NUMA(i), Socket: idset.Socket(i * min(sockets, n) / n), L3: at/perL3 + 1}
			for x := range threads {
				core.CPUs = core.CPUs.With(idset.CPU(first + x*n*cores + at))
			}
			s.Cores = append(s.Cores, core)
		}
	}
	for r := range rapid.SampledFrom([]int{0, 1, 3, 16}).Draw(t, "resources") {
		for d := range rapid.SampledFrom([]int{1, 8, 64, 1024}).Draw(t, "devices") {
			ids := []idset.NUMA{idset.NUMA(d % n)}
			if rapid.IntRange(0, 7).Draw(t, "shared") == 0 {
				ids = append(ids, idset.NUMA((d+1)%n))
			}
			s.Devices = append(s.Devices, topo.DeviceSpec{Resource: fmt.Sprint("acme.com/r", r),
				ID: fmt.Sprint("d", d), NUMAs: ids[:1+min(len(ids)-1, n-1)]})
		}
	}
	m, err := topo.New(s)
	for err != nil && len(s.Cores) > n { // the machine would have more bytes than the bound
		s.Cores = s.Cores[:len(s.Cores)/2]
		m, err = topo.New(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func extremeRules(t *rapid.T, m *topo.Machine) (r Rules) {
	flip := func(what string) bool { return rapid.Bool().Draw(t, what) }
	r.Topology = TopologyRules{Policy: Policy(rapid.IntRange(0, 3).Draw(t, "policy")),
		Scope: Scope(rapid.IntRange(0, 1).Draw(t, "scope")), PreferClosest: flip("closest"), MaxNUMAs: 64}
	r.CPU = CPURules{Static: true, FullPCPUsOnly: flip("full cores"), DistributeAcrossNUMA: flip("distribute"),
		AlignBySocket: flip("by socket"), PreferAlignByUncoreCaches: flip("by cache"),
		DistributeAcrossCores: flip("across cores")}
	if flip("reserved") {
		r.CPU.Reserved = idset.Of(m.CPUs().List()[:1]...)
	}
	r.Memory.Static = flip("static memory")
	return r
}

// extremePod draws a pod that asks for anything, in many containers.
func extremePod(t *rapid.T, m *topo.Machine) *Pod {
	p := &Pod{QoS: Guaranteed}
	count := rapid.SampledFrom([]int{1, 1, 2, 20, 128, 129, 2000}).Draw(t, "containers")
	kind := Kind(rapid.IntRange(0, 2).Draw(t, "kind"))
	free := m.CPUs().Len()
	cpus := max(1, rapid.SampledFrom([]int{1, 3, free / 3, free / count, free - 1}).Draw(t, "cpus"))
	var c Container
	c.MilliCPU = 1000 * int64(cpus)
	c.Memory = []Amount{{Kind: topo.Memory,
		Bytes: int64(rapid.SampledFrom([]int{1, 100, 1100, 5000}).Draw(t, "gigs")) << 30}}
	for _, kind := range m.Kinds()[1:] {
		if rapid.Bool().Draw(t, "pages") {
			c.Memory = append(c.Memory, Amount{Kind: kind, Bytes: 1 << 18})
		}
	}
	for _, r := range m.Resources() {
		if rapid.IntRange(0, 3).Draw(t, "device") > 0 {
			c.Devices = append(c.Devices, Count{r.Name, int64(rapid.IntRange(0, 1+len(r.Devices)/count).Draw(t, "number"))})
		}
	}
	for i := range count {
		c.Name = fmt.Sprint("c", i)
		if c.Kind = kind; i == count-1 {
			c.Kind = App
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// TestNoVerdictTakesTooManySteps: for any machine and pod, a verdict counts no more steps than the bound. If it would
// need more, it is a refusal with TooComplex, and Fits agrees.
func TestNoVerdictTakesTooManySteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := extremeMachine(t)
		u := NewUsage(m, extremeRules(t, m))
		for range rapid.IntRange(0, 3).Draw(t, "holdings") {
			u = u.Hold(plannedHolding(t, m))
		}
		p := extremePod(t, m)
		full := admission{u: u, pod: p, taken: make([]Holding, len(p.Containers))}
		brief := admission{u: u, pod: p, taken: make([]Holding, len(p.Containers)), brief: true}
		v := Place(u, p)
		if len(p.TooLarge()) == 0 && len(u.bars(true)) == 0 {
			full.verdict()
			brief.run()
			if full.work.steps > maxWork+1 || v.Fits() && full.work.steps > brief.work.steps {
				t.Fatalf("%d steps, %d for the quick answer", full.work.steps, brief.work.steps)
			}
			if full.work.over() != (!v.Fits() && v.Reasons[0].Code == TooComplex) {
				t.Fatalf("%d steps: %+v", full.work.steps, v)
			}
		}
		if got := Fits(u, p); got != v.Fits() {
			t.Fatalf("Fits says %v, Place %+v", got, v)
		}
		if got := NewQuestion(p).Fits(u); got != v.Fits() {
			t.Fatalf("a question says %v, Place %+v", got, v)
		}
		if !v.Fits() && len(v.Reasons) == 0 {
			t.Fatal("a refusal without a reason")
		}
		if again := Place(u, p); !reflect.DeepEqual(v, again) {
			t.Fatal("two verdicts differ")
		}
	})
}
