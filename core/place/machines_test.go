package place

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// knownMachines are the machines of the lab, and one of sixteen NUMA nodes with every kind of resource.
func knownMachines(t *testing.T) map[string]*topo.Machine {
	out := map[string]*topo.Machine{}
	files, err := filepath.Glob("../../lab/machines/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("machines of the lab: %d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, "source") && !strings.HasPrefix(line, "#") {
				text.WriteString(line)
			}
		}
		if out[filepath.Base(file)], err = topo.ParseMachine(text.String()); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	var b strings.Builder
	for i := range 16 {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 2 memory 64Gi hugepages-2Mi 1024 hugepages-1Gi 8\n",
			i, i/8, 8*i, 8*i+7, 128+8*i, 128+8*i+7)
		fmt.Fprintf(&b, "device acme.com/gpu g%02d numa %d\ndevice acme.com/nic n%02d numa %d,%d\n", i, i, i, i, i^1)
	}
	for i := range 16 {
		b.WriteString("distances")
		for j := range 16 {
			fmt.Fprint(&b, " ", []int{10, 12, 16, 32}[min(3, (i^j+1)/2)])
		}
		b.WriteByte('\n')
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	out["sixteen"] = m
	return out
}

// ordinaryPod has usual requests, in up to twenty containers.
func ordinaryPod(rnd *rand.Rand, m *topo.Machine) *Pod {
	p := &Pod{QoS: Guaranteed}
	count := 1 + rnd.IntN(3)
	if rnd.IntN(4) == 0 {
		count = 20
	}
	for i := range count {
		c := Container{Name: fmt.Sprint("c", i), MilliCPU: 1000 * int64(1+rnd.IntN(1+m.CPUs().Len()/count/2)),
			Memory: []Amount{{Kind: topo.Memory, Bytes: int64(1+rnd.IntN(8)) << 30}}}
		if rnd.IntN(3) == 0 && len(m.Kinds()) > 1 {
			c.Memory = append(c.Memory, Amount{Kind: m.Kinds()[1], Bytes: 1 << 30})
		}
		for _, r := range m.Resources() {
			if rnd.IntN(2) == 0 {
				c.Devices = append(c.Devices, Count{r.Name, int64(1 + rnd.IntN(2))})
			}
		}
		if i < count-1 {
			c.Kind = Kind(rnd.IntN(3))
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

func optionsOf(k int) (r Rules) {
	bit := func(i int) bool { return k>>i&1 != 0 }
	r.Topology = TopologyRules{Policy: Policy(k & 3), Scope: Scope(k >> 2 & 1), MaxNUMAs: 16, PreferClosest: bit(3)}
	r.CPU = CPURules{Static: true, FullPCPUsOnly: bit(4), DistributeAcrossNUMA: bit(5),
		AlignBySocket: bit(6) && r.Topology.Policy != SingleNUMA, PreferAlignByUncoreCaches: bit(7)}
	r.Memory.Static = bit(8)
	return r
}

// TestOrdinaryPodsTakeFewSteps: on every known machine, with any options, a verdict on an ordinary pod needs at most a
// tenth of the allowed steps. Sixteen NUMA nodes with masks of all of them may need more.
func TestOrdinaryPodsTakeFewSteps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	machines := knownMachines(t)
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		m, most := machines[name], 0
		for k := 0; k < 1<<9; k += 5 { // each option with each other one
			r := optionsOf(k)
			r.CPU.Reserved = idset.Of(m.CPUs().Min())
			u := NewUsage(m, r)
			if len(u.bars(true)) > 0 {
				continue
			}
			for range 3 {
				p := ordinaryPod(rnd, m)
				a := admission{u: u, pod: p, taken: make([]Holding, len(p.Containers))}
				v := a.verdict()
				if masks := len(m.NUMAs()) > 8 && (r.Topology.Policy != None || r.Memory.Static); !masks {
					most = max(most, a.work.steps)
				}
				if v.Fits() {
					u = u.Hold(v.Holdings...)
				}
			}
		}
		if most > maxWork/10 {
			t.Errorf("%s: %d steps, more than a tenth of %d", name, most, maxWork)
		}
		t.Logf("%s: %d steps of %d", name, most, maxWork)
	}
}

// TestSpreadingOnKnownMachines: on every known machine, CPUs are spread as by the kubelet's enumeration.
func TestSpreadingOnKnownMachines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	machines := knownMachines(t)
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		m := machines[name]
		for _, full := range []bool{false, true} {
			u := NewUsage(m, Rules{CPU: CPURules{Static: true, DistributeAcrossNUMA: true, FullPCPUsOnly: full}})
			group := 1
			if full {
				group = u.perCore
			}
			for range 60 {
				p := u.picker(u.free, 1, work{})
				c := spreadCase{group: group, sets: 20_000}
				for _, x := range p.numas() {
					c.free = append(c.free, x.free)
				}
				if c.n = group * (1 + rnd.IntN(1+m.CPUs().Len()/group)); c.n > u.free.Len() || len(c.free) == 0 {
					u = u.Empty()
					continue
				}
				c.least, c.most = spreadSpan(m, len(c.free), c.n, group)
				c.compare(t)
				held := Holding{}
				for range rnd.IntN(1 + u.free.Len()/2) {
					ids := u.free.List()
					held.CPUs = held.CPUs.With(ids[rnd.IntN(len(ids))])
				}
				u = u.Hold(held)
			}
		}
		t.Log(name)
	}
}

// TestSixteenNUMANodesNeedNoTables: for one container on a machine of sixteen equal NUMA nodes, Fits agrees with Place
// under each policy, and makes no tables of the 65,536 masks.
func TestSixteenNUMANodesNeedNoTables(t *testing.T) {
	var b strings.Builder
	for i := range 16 {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 1 memory 64Gi hugepages-1Gi 8\n",
			i, i/8, 8*i, 8*i+7, 128+8*i, 128+8*i+7)
		fmt.Fprintf(&b, "device acme.com/gpu g%02d,h%02d numa %d\n", i, i, i)
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatal(err)
	}
	pod := func(cpus, gigs, pages, gpus int64) *Pod {
		return &Pod{QoS: Guaranteed, Containers: []Container{{Name: "app", MilliCPU: 1000 * cpus,
			Memory:  []Amount{{Kind: "hugepages-1Gi", Bytes: pages << 30}, {Kind: topo.Memory, Bytes: gigs << 30}},
			Devices: []Count{{"acme.com/gpu", gpus}}}}}
	}
	one, two := pod(4, 8, 1, 1), pod(18, 80, 9, 3)
	for _, policy := range []Policy{None, BestEffort, Restricted, SingleNUMA} {
		u := NewUsage(m, Rules{Topology: TopologyRules{Policy: policy, MaxNUMAs: 16}, CPU: CPURules{Static: true},
			Memory: MemoryRules{Static: true}})
		for i := 0; ; i++ {
			for _, p := range []*Pod{one, two} {
				q := NewQuestion(p)
				if q.podPlan(u).ask(&u.counts) == unsure {
					t.Fatalf("%v with %d pods: tables decide about a pod of %d mCPU", policy, i, p.Containers[0].MilliCPU)
				}
				if v := Place(u, p); q.Fits(u) != v.Fits() {
					t.Fatalf("%v with %d pods: a question says %v, Place %+v", policy, i, q.Fits(u), v)
				}
			}
			v := Place(u, pod(1+int64(i%4), 2, int64(i%9/8), int64(i%7/6)))
			if !v.Fits() {
				break
			}
			u = u.Hold(v.Holdings...)
		}
	}
}
