package place_test

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

func validPod() *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{
		{Name: "i", Kind: place.Init, MilliCPU: 1000},
		{Name: "s", Kind: place.Sidecar},
		{Name: "a", MilliCPU: 1500,
			Memory:  []place.Amount{{Kind: "hugepages-2Mi", Bytes: 2 << 20}, {Kind: "memory", Bytes: 1}},
			Devices: []place.Count{{Resource: "acme.com/gpu", N: 1}, {Resource: "acme.com/nic"}}},
		{Name: "b"},
	}}
}

func TestPodValidate(t *testing.T) {
	if err := validPod().Validate(); err != nil {
		t.Errorf("valid pod: %v", err)
	}
	if err := new(place.Pod).Validate(); err != nil {
		t.Errorf("empty pod: %v", err)
	}
	for want, change := range map[string]func(p *place.Pod){
		"unknown QoS class 3":                                    func(p *place.Pod) { p.QoS = 3 },
		`container "": it has no name`:                           func(p *place.Pod) { p.Containers[3].Name = "" },
		`container "a": a container before it has the same name`: func(p *place.Pod) { p.Containers[3].Name = "a" },
		`container "b": unknown container kind -1`:               func(p *place.Pod) { p.Containers[3].Kind = -1 },
		`container "b": an app container comes before this init container`: func(p *place.Pod) {
			p.Containers[3].Kind = place.Init
		},
		`container "b": an app container comes before this sidecar container`: func(p *place.Pod) {
			p.Containers[3].Kind = place.Sidecar
		},
		`container "i": -1 thousandths of a CPU are outside 0..`: func(p *place.Pod) { p.Containers[0].MilliCPU = -1 },
		`container "i": 9223372036854775807 thousandths`:         func(p *place.Pod) { p.Containers[0].MilliCPU = 1<<63 - 1 },
		`unknown kind of memory "ram"`: func(p *place.Pod) {
			p.Containers[2].Memory[0].Kind = "ram"
		},
		"memory: -1 bytes are outside 0..": func(p *place.Pod) { p.Containers[2].Memory[1].Bytes = -1 },
		"memory: 1125899906842625 bytes are outside": func(p *place.Pod) {
			p.Containers[2].Memory[1].Bytes = topo.MaxBytes + 1
		},
		"hugepages-1Gi follows memory": func(p *place.Pod) {
			m := p.Containers[2].Memory
			m[0], m[1].Kind = m[1], "hugepages-1Gi"
		},
		"memory follows memory":                   func(p *place.Pod) { p.Containers[2].Memory[0].Kind = "memory" },
		"a resource has no name":                  func(p *place.Pod) { p.Containers[2].Devices[0].Resource = "" },
		"acme.com/nic: -4 devices are outside 0.": func(p *place.Pod) { p.Containers[2].Devices[1].N = -4 },
		"acme.com/gpu follows acme.com/gpu: want": func(p *place.Pod) {
			p.Containers[2].Devices[1].Resource = "acme.com/gpu"
		},
	} {
		p := validPod()
		change(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestRulesValidate(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 8 cpus 4-7 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rules place.Rules
		want  string
	}{
		{place.Rules{}, ""},
		{place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA, Scope: place.PerPod, MaxNUMAs: 9},
			CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 7)},
			Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 8, Kind: "memory", Bytes: 1 << 40},
				{NUMA: 8, Kind: "hugepages-1Gi"}}}}, ""},
		{place.Rules{Arbiter: place.ByAgent}, ""},
		{place.Rules{Arbiter: 2}, "unknown arbiter 2"},
		{place.Rules{Topology: place.TopologyRules{Policy: 4}}, "unknown topology manager policy 4"},
		{place.Rules{Topology: place.TopologyRules{Scope: -1}}, "unknown topology manager scope -1"},
		{place.Rules{Topology: place.TopologyRules{MaxNUMAs: -1}}, "max-allowable-numa-nodes is -1"},
		{place.Rules{CPU: place.CPURules{Reserved: idset.Of[idset.CPU](3, 8, 9)}},
			"reserved CPUs 8-9: the machine does not have them"},
		{reserve(place.Reserved{NUMA: 1, Kind: "memory"}), "the machine has no NUMA node 1"},
		{reserve(place.Reserved{NUMA: 8, Kind: "gpu"}), `reserved memory of NUMA node 8: unknown kind "gpu"`},
		{reserve(place.Reserved{NUMA: 8, Kind: "memory", Bytes: -1}),
			"reserved memory of NUMA node 8: -1 bytes are outside 0.."},
		{reserve(place.Reserved{Kind: "memory"}, place.Reserved{Kind: "memory"}),
			"reserved memory of NUMA node 0 is there twice"},
	} {
		err := c.rules.Validate(m)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func reserve(r ...place.Reserved) place.Rules {
	return place.Rules{Memory: place.MemoryRules{Reserved: r}}
}

func TestDemandValidate(t *testing.T) {
	for _, c := range []struct {
		demand place.Demand
		want   string
	}{
		{place.Demand{}, ""},
		{place.Demand{Policy: place.Restricted, Scope: place.PerPod, Align: place.NamesOf("memory", "cpu")}, ""},
		{place.Demand{Policy: -1}, "unknown policy -1"},
		{place.Demand{Scope: 2}, "unknown scope 2"},
		{place.Demand{Align: "cpu", Ignore: "memory"}, "want one of them"},
		{place.Demand{Ignore: "memory,cpu"}, `resources "memory,cpu" are not in ascending order`},
	} {
		err := c.demand.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// NUMA nodes have sparse ids, and masks have positions: a text must make clear which of the two it means.
func TestTextsNameNUMANodes(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 8 cpus 4-7 memory 8Gi\nnuma 250 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	h := place.Holding{Container: "c", CPUs: idset.Of[idset.CPU](4, 5), Memory: []place.Block{
		{Kind: "memory", NUMAs: 0b110, Bytes: 3 << 29}, {Kind: "hugepages-2Mi", NUMAs: 0b010, Bytes: 2 << 20}},
		Devices: []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"g0", "g1"}, NUMAs: 0b001, Free: true},
			{Resource: "acme.com/nic", IDs: []string{"n"}}}}
	const withIDs = "c: CPUs 4-5, 1536Mi memory on NUMA nodes 8,250, 2Mi hugepages-2Mi on NUMA node 8, " +
		"2 acme.com/gpu (g0,g1 or others) on NUMA node 0, 1 acme.com/nic (n)"
	const withPositions = "c: CPUs 4-5, 1536Mi memory at NUMA positions 1-2, 2Mi hugepages-2Mi at NUMA position 1, " +
		"2 acme.com/gpu (g0,g1 or others) at NUMA position 0, 1 acme.com/nic (n)"
	empty := place.Holding{Container: "d", Kind: place.Init}
	verdict := place.Verdict{Holdings: []place.Holding{h, empty}}
	refusal := place.Verdict{Refusal: place.TopologyAffinityError, Reasons: []place.Reason{
		{Code: place.OneNUMA, Container: "c", Resource: "cpu", Want: 9, Have: 4}, {Code: place.Unsettled}}}
	for _, c := range []struct{ got, want string }{
		{h.Text(m), withIDs}, {h.String(), withPositions}, {empty.String(), "init d: nothing"},
		{topo.Mask(0).String(), "no position"},
		{verdict.Text(m), "fits: " + withIDs + "; init d: nothing"},
		{verdict.String(), "fits: " + withPositions + "; init d: nothing"},
		{place.Verdict{}.String(), "fits: nothing of the pod is aligned"},
		{refusal.String(),
			"does not fit (TopologyAffinityError): " + refusal.Reasons[0].Text() + "; " + refusal.Reasons[1].Text()},
		{validPod().String(),
			"Guaranteed: init container i: 1 CPUs; sidecar container s: nothing; app container a: 1.5 CPUs, " +
				"2Mi hugepages-2Mi, 1 memory, 1 acme.com/gpu, 0 acme.com/nic; app container b: nothing"},
		{place.Policy(9).String(), "policy 9"}, {place.Scope(-1).String(), "scope -1"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
