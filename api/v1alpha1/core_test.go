package v1alpha1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// drawMachine draws any machine: sparse NUMA nodes, NUMA nodes without CPUs or memory, cores of unequal thread counts
// with CPU numbers in any order.
func drawMachine(t *rapid.T) *topo.Machine {
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 1, 8, rapid.ID[int]).Draw(t, "numa ids")
	var s topo.Spec
	for _, id := range ids {
		n := topo.NUMA{ID: idset.NUMA(id), Bytes: rapid.Int64Range(4<<30, 64<<30).Draw(t, "memory")}
		for _, size := range rapid.SliceOfDistinct(rapid.SampledFrom([]int64{64 << 10, 2 << 20, 1 << 30}),
			rapid.ID[int64]).Draw(t, "sizes") {
			n.Hugepages = append(n.Hugepages, topo.Hugepages{PageSize: size, Count: rapid.Int64Range(0, 1).Draw(t, "pages")})
		}
		if ids[0]%2 == 0 {
			for range ids {
				n.Distances = append(n.Distances, rapid.IntRange(10, 255).Draw(t, "distance"))
			}
		}
		s.NUMAs = append(s.NUMAs, n)
	}
	cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, 400), 1, 60, rapid.ID[int]).Draw(t, "cpus")
	for len(cpus) > 0 {
		n := rapid.IntRange(1, min(4, len(cpus))).Draw(t, "threads")
		var threads []idset.CPU
		for _, id := range cpus[:n] {
			threads = append(threads, idset.CPU(id))
		}
		cpus = cpus[n:]
		s.Cores = append(s.Cores, topo.CoreSpec{
			NUMA:   idset.NUMA(rapid.SampledFrom(ids).Draw(t, "numa")),
			Socket: idset.Socket(rapid.IntRange(0, 2).Draw(t, "socket")),
			L3:     rapid.IntRange(0, 3).Draw(t, "l3"), CPUs: idset.Of(threads...)})
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "devices") {
		s.Devices = append(s.Devices, topo.DeviceSpec{
			Resource: rapid.SampledFrom([]string{"x.io/gpu", "x.io/nic"}).Draw(t, "resource"), ID: fmt.Sprintf("d%d", i),
			NUMAs: drawNUMAs(t, ids, 0), Unhealthy: rapid.Bool().Draw(t, "unhealthy")})
		d := &s.Devices[len(s.Devices)-1]
		d.List = topo.NUMAList(rapid.IntRange(0, int(topo.UnknownID)).Draw(t, "list"))
		if d.List == topo.EmptyList {
			d.NUMAs = nil
		}
	}
	m, err := topo.New(s)
	if err != nil {
		t.Fatalf("machine: %v", err)
	}
	return m
}

func drawNUMAs(t *rapid.T, ids []int, least int) (out []idset.NUMA) {
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), least, len(ids), rapid.ID[int]).Draw(t, "numas") {
		out = append(out, idset.NUMA(id))
	}
	return out
}

func drawMask(t *rapid.T, m *topo.Machine) topo.Mask {
	return topo.Mask(rapid.Uint64Range(1, uint64(m.All())).Draw(t, "mask"))
}

func drawCPUs(t *rapid.T, m *topo.Machine) idset.Set[idset.CPU] {
	return idset.Of(rapid.SliceOf(rapid.SampledFrom(m.CPUs().List())).Draw(t, "cpus")...)
}

func drawRules(t *rapid.T, m *topo.Machine) (r place.Rules) {
	b := func(name string) bool { return rapid.Bool().Draw(t, name) }
	r.Topology = place.TopologyRules{Policy: place.Policy(rapid.IntRange(0, 3).Draw(t, "policy")),
		Scope: place.Scope(rapid.IntRange(0, 1).Draw(t, "scope")), PreferClosest: b("closest"),
		MaxNUMAs: rapid.IntRange(0, 64).Draw(t, "max")}
	r.CPU = place.CPURules{Static: b("static"), Reserved: drawCPUs(t, m), FullPCPUsOnly: b("full"),
		DistributeAcrossNUMA: b("numa"), AlignBySocket: b("socket"), DistributeAcrossCores: b("cores"),
		StrictReservation: b("strict"), PreferAlignByUncoreCaches: b("uncore")}
	r.Memory.Static = b("memory")
	for _, n := range m.NUMAs() {
		if b("reserved") {
			r.Memory.Reserved = append(r.Memory.Reserved, place.Reserved{NUMA: n.ID, Kind: topo.Memory,
				Bytes: rapid.Int64Range(0, 1<<30).Draw(t, "bytes")})
		}
	}
	return r
}

func drawEntries(t *rapid.T, m *topo.Machine) (out []state.Entry) {
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		e := state.Entry{Source: state.Observed,
			Pod: state.PodID{UID: fmt.Sprintf("u%d", i), Namespace: "ns", Name: fmt.Sprintf("p%d", i)}}
		for c := range rapid.IntRange(0, 3).Draw(t, "containers") {
			h := place.Holding{Container: fmt.Sprintf("c%d", c), Kind: place.Kind(rapid.IntRange(0, 2).Draw(t, "kind")),
				CPUs: drawCPUs(t, m)}
			for range rapid.IntRange(0, 2).Draw(t, "blocks") {
				h.Memory = append(h.Memory, place.Block{Kind: rapid.SampledFrom([]string{"memory", "hugepages-2Mi"}).Draw(t,
					"kind"),
					NUMAs: drawMask(t, m), Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes")})
			}
			for _, r := range m.Resources() {
				if rapid.Bool().Draw(t, "holds") {
					ids := []string{r.Devices[0].ID}
					h.Devices = append(h.Devices, place.DeviceBlock{Resource: r.Name, IDs: ids, NUMAs: DeviceNUMAs(m, r.Name, ids)})
				}
			}
			e.Holdings = append(e.Holdings, h)
		}
		out = append(out, e)
	}
	return out
}

func TestCoreValuesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		want := Layout{Machine: m, Rules: drawRules(t, m), Entries: drawEntries(t, m), Groups: map[int]place.MemoryGroup{}}
		for i := range m.NUMAs() {
			if mask := drawMask(t, m) | 1<<uint(i); rapid.Bool().Draw(t, "grouped") {
				g := place.MemoryGroup{NUMAs: mask}
				if rapid.Bool().Draw(t, "free") {
					g.Free = []place.Amount{{Kind: topo.Memory, Bytes: rapid.Int64Range(0, topo.MaxBytes).Draw(t, "bytes")}}
				}
				want.Groups[i] = g
			}
		}
		data, err := json.Marshal(FromCore("node-a", m, want.Rules, want.Entries, want.Groups))
		if err != nil {
			t.Fatal(err)
		}
		var back NodeLayout
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		got, err := back.Core()
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if a, b := m.Spec(), got.Machine.Spec(); !reflect.DeepEqual(a, b) {
			t.Fatalf("machine\n%+v\nbecame\n%+v\nby\n%s", a, b, data)
		}
		if a, b := fmt.Sprintf("%+v", want.Rules), fmt.Sprintf("%+v", got.Rules); a != b {
			t.Fatalf("rules\n%s\nbecame\n%s", a, b)
		}
		// Every field counts; nil equals empty.
		fields := func(es []state.Entry) string { return strings.ReplaceAll(fmt.Sprintf("%#v", es), "(nil)", "{}") }
		if a, b := fields(want.Entries), fields(got.Entries); a != b {
			t.Fatalf("entries\n%s\nbecame\n%s", a, b)
		}
		if !reflect.DeepEqual(want.Groups, got.Groups) {
			t.Fatalf("groups %v became %v", want.Groups, got.Groups)
		}
	})
}

func big(t *testing.T) *NodeLayout {
	t.Helper()
	var text strings.Builder
	for n := range 8 {
		a := n * 16
		fmt.Fprintf(&text, "numa %d socket %d cpus %d-%d/%d-%d l3 2 memory 256Gi hugepages-2Mi 1024 hugepages-1Gi 16\n", n,
			n/4, a, a+15, 128+a, 128+a+15)
		fmt.Fprintf(&text, "distances 10 12 12 12 32 32 32 32\n")
		fmt.Fprintf(&text, "device nvidia.com/gpu GPU-0a1b2c3d-0000-0000-0000-00000000000%d numa %d\n", n, n)
		for v := range 16 {
			fmt.Fprintf(&text, "device openshift.io/sriov_net 0000:%02x:%02x.0 numa %d\n", n, v, n)
		}
	}
	m, err := topo.ParseMachine(text.String())
	if err != nil {
		t.Fatal(err)
	}
	var entries []state.Entry
	for i := range 110 {
		id := fmt.Sprintf("%08d-1111-2222-3333-444444444444", i)
		at := i % 8
		h := place.Holding{Container: "main", CPUs: idset.Of(idset.CPU(i), idset.CPU(128+i)),
			Memory: []place.Block{{Kind: topo.Memory, NUMAs: 1 << uint(at), Bytes: 8 << 30}}}
		dev := m.Resources()[1].Devices[i]
		h.Devices = []place.DeviceBlock{{Resource: "openshift.io/sriov_net", IDs: []string{dev.ID}, NUMAs: dev.NUMAs}}
		entries = append(entries, state.Entry{Pod: state.PodID{UID: id, Namespace: "a-usual-namespace",
			Name: "deployment-name-5d8f7c9b6d-" + id[:5]},
			Source: state.Observed, Holdings: []place.Holding{h, {Container: "proxy", Kind: place.Sidecar,
				Memory: []place.Block{{Kind: topo.Memory, NUMAs: 1 << uint(at), Bytes: 1 << 27}}}}})
	}
	return FromCore("node-a", m, place.Rules{}, entries, nil)
}

func TestFullNodeStaysSmall(t *testing.T) {
	l := big(t)
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) >= 64<<10 {
		t.Errorf("256 CPUs, 8 NUMA nodes and 110 pods take %d bytes, want less than 64 KiB", len(data))
	}
	t.Logf("%d bytes", len(data))
	if l.Summary != (Summary{Policy: "none", Scope: "container", NUMAs: 8, CPUs: 256, Pods: 110, FreeCPUs: 36,
		LargestFreeNUMA: 32}) {
		t.Errorf("summary is %+v", l.Summary)
	}
}

func TestBadLayoutsAreRefusedByName(t *testing.T) {
	cases := []struct {
		name string
		harm func(*NodeLayout)
		want []string
	}{
		{"numa twice", func(l *NodeLayout) { l.Machine.NUMAs[1].ID = 0 }, []string{"machine", "NUMA node 0 is named twice"}},
		{"cpu in two NUMA nodes", func(l *NodeLayout) { l.Machine.CPUs[2].CPUs[0] = "0-7" },
			[]string{"machine", "cpu 0 is in NUMA node 0 and in NUMA node 1"}},
		{"5000 cpus", func(l *NodeLayout) { l.Machine.CPUs[0].CPUs = []IDList{"0-4999"} },
			[]string{"machine", "5000", "4096"}},
		{"5000 cpus in two groups", func(l *NodeLayout) {
			l.Machine.CPUs[0].CPUs, l.Machine.CPUs[1].CPUs = []IDList{"0-2499"}, []IDList{"2500-4999"}
		}, []string{"cpus[1]", "more than 4096"}},
		{"high cpu ids", func(l *NodeLayout) {
			l.Machine.CPUs = []CPUGroup{{CPUs: []IDList{"12288-16383"}}}
		}, []string{"machine takes more than", "high ids"}},
		{"cpus with high ids that many containers hold", func(l *NodeLayout) {
			l.Machine.CPUs = append(l.Machine.CPUs, CPUGroup{CPUs: []IDList{"16383"}})
			for range 2000 {
				l.Holdings[0].Containers = append(l.Holdings[0].Containers, ContainerHolding{Name: "c", CPUs: "16383"})
			}
		}, []string{"holdings", "sets", "high ids"}},
		{"negative memory", func(l *NodeLayout) { l.Machine.NUMAs[3].Memory = -5 }, []string{"machine", "NUMA node 3", "-5"}},
		{"negative id", func(l *NodeLayout) { l.Machine.NUMAs[3].ID = -7 }, []string{"machine", "-7"}},
		{"negative pages", func(l *NodeLayout) { l.Machine.NUMAs[2].Hugepages[0].Count = -1 }, []string{"NUMA node 2", "-1"}},
		{"page size", func(l *NodeLayout) { l.Machine.NUMAs[2].Hugepages[0].Size = "2MB" },
			[]string{"NUMA node 2", "hugepages", "2MB"}},
		{"lanes", func(l *NodeLayout) { l.Machine.CPUs[0].CPUs[1] = "128-130" }, []string{"cpus[0]", "differ in length"}},
		{"own sibling", func(l *NodeLayout) { l.Machine.CPUs[0].CPUs[1] = "0-7" }, []string{"cpus[0]", "twice"}},
		{"no NUMA node", func(l *NodeLayout) { l.Machine.NUMAs = nil }, []string{"machine", "numas: 0"}},
		{"policy", func(l *NodeLayout) { l.Rules.TopologyManagerPolicy = "strict" },
			[]string{"rules", "topologyManagerPolicy", "strict"}},
		{"scope", func(l *NodeLayout) { l.Rules.TopologyManagerScope = "" }, []string{"rules", "topologyManagerScope"}},
		{"cpu policy", func(l *NodeLayout) { l.Rules.CPUManagerPolicy = "Static" }, []string{"cpuManagerPolicy", "Static"}},
		{"memory policy", func(l *NodeLayout) { l.Rules.MemoryManagerPolicy = "static" },
			[]string{"memoryManagerPolicy", "static"}},
		{"reserved cpu", func(l *NodeLayout) { l.Rules.ReservedCPUs = "900" }, []string{"reservedCPUs", "900"}},
		{"reserved NUMA node", func(l *NodeLayout) { l.Rules.ReservedMemory = []ReservedMemory{{NUMA: 9, Kind: "memory"}} },
			[]string{"reservedMemory", "NUMA node 9"}},
		{"reserved size", func(l *NodeLayout) { l.Rules.ReservedMemory = []ReservedMemory{{Kind: "memory", Bytes: -2}} },
			[]string{"reservedMemory", "-2"}},
		{"reserved kind", func(l *NodeLayout) { l.Rules.ReservedMemory = []ReservedMemory{{Kind: "cpu"}} },
			[]string{"reservedMemory", "cpu"}},
		{"device twice", func(l *NodeLayout) {
			g := l.Machine.Devices[0].Groups
			g[1].IDs = g[0].IDs
		}, []string{"nvidia.com/gpu", "twice"}},
		{"list", func(l *NodeLayout) { l.Machine.Devices[0].Groups[0].NUMAList = "later" },
			[]string{"nvidia.com/gpu", "numaList", "later"}},
		{"empty list", func(l *NodeLayout) { l.Machine.Devices[0].Groups[0].NUMAList = "empty" },
			[]string{"nvidia.com/gpu", "list of NUMA nodes"}},
		{"held cpu", func(l *NodeLayout) { l.Holdings[4].Containers[0].CPUs = "999" }, []string{"holdings", "-00000",
			"\"main\"", "999"}},
		{"held NUMA node", func(l *NodeLayout) { l.Holdings[0].Containers[0].Memory[0].NUMAs = "8" },
			[]string{"holdings", "memory", "NUMA node 8"}},
		{"held bytes", func(l *NodeLayout) { l.Holdings[0].Containers[0].Memory[0].Bytes = -1 }, []string{"holdings", "-1"}},
		{"kind", func(l *NodeLayout) { l.Holdings[0].Containers[0].Kind = "ephemeral" }, []string{"kind", "ephemeral"}},
		{"uid twice", func(l *NodeLayout) { l.Holdings[1].UID = l.Holdings[0].UID }, []string{"holdings", "uid", "twice"}},
		{"no uid", func(l *NodeLayout) { l.Holdings[1].UID = "" }, []string{"holdings", "uid"}},
		{"free twice", func(l *NodeLayout) {
			l.MemoryGroups = []MemoryGroup{{NUMA: 0, Group: "0-1", Free: []FreeMemory{{Kind: "memory"}, {Kind: "memory"}}}}
		}, []string{"memoryGroups", "NUMA node 0", "memory is named twice"}},
		{"negative free", func(l *NodeLayout) {
			l.MemoryGroups = []MemoryGroup{{NUMA: 0, Group: "0-1", Free: []FreeMemory{{Kind: "memory", Bytes: -5}}}}
		}, []string{"memoryGroups", "NUMA node 0", "-5"}},
		{"group", func(l *NodeLayout) { l.MemoryGroups = []MemoryGroup{{NUMA: 1, Group: "2-3"}} },
			[]string{"memoryGroups", "NUMA node 1", "2-3"}},
		{"sequence", func(l *NodeLayout) { l.Sequence = -1 }, []string{"sequence", "-1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := big(t)
			c.harm(l)
			_, err := l.Core()
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range append(c.want, "node-a") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func FuzzCore(f *testing.F) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3/8-11 l3 2 memory 4Gi hugepages-2Mi 4\nnuma 8 cpus 4-5 memory 1Gi\n" +
		"distances 10 20\ndistances 20 10\ndevice a/b x,y numa 0,8")
	if err != nil {
		f.Fatal(err)
	}
	l := FromCore("n", m, place.Rules{}, []state.Entry{{Pod: state.PodID{UID: "u", Namespace: "d", Name: "p"},
		Holdings: []place.Holding{
			{Container: "c", CPUs: idset.Of[idset.CPU](1, 9), Memory: []place.Block{{Kind: topo.Memory, NUMAs: 3, Bytes: 5}},
				Devices: []place.DeviceBlock{{Resource: "a/b", IDs: []string{"x"}, NUMAs: 3}}}}}}, map[int]place.MemoryGroup{0: {
		NUMAs: 3}, 1: {NUMAs: 3}})
	seed, err := json.Marshal(l)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"machine":{"numas":[{"id":0}],"cpus":[{"cpus":["0-16383","0"]}]}}`))
	f.Add([]byte(`{"machine":{"numas":[{"id":2147483647,"distances":[-1]}],"cpus":[{"numa":-1,"cpus":[""]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l NodeLayout
		if json.Unmarshal(data, &l) != nil {
			return
		}
		got, err := l.Core()
		if err != nil {
			return
		}
		again, err := FromCore(l.Name, got.Machine, got.Rules, got.Entries, got.Groups).Core()
		if err != nil {
			t.Fatalf("accepted layout is refused after a round trip: %v", err)
		}
		if !reflect.DeepEqual(again.Machine.Spec(), got.Machine.Spec()) || !reflect.DeepEqual(again.Entries, got.Entries) {
			t.Fatalf("layout changed in a round trip")
		}
	})
}
