package document

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const gi = 1 << 30

func machine(t *testing.T) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine(`
numa 0 cpus 0-7 memory 16Gi
numa 8 cpus 8-15 memory 16Gi
numa 9 cpus 16-23 memory 16Gi
device acme.com/gpu gpu-0,gpu-1 numa 8
`)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// holdings returns the holdings of an init container whose device a later container keeps.
func holdings() []place.Holding {
	gpu := place.DeviceBlock{Resource: "acme.com/gpu", IDs: []string{"gpu-0"}, NUMAs: 2}
	free := gpu
	free.Free = true
	return []place.Holding{
		{Container: "init", Kind: place.Init, Devices: []place.DeviceBlock{gpu}},
		{
			Container: "main",
			CPUs:      idset.Of[idset.CPU](8, 9, 16),
			Memory:    []place.Block{{Kind: topo.Memory, NUMAs: 6, Bytes: gi}},
			Devices:   []place.DeviceBlock{free},
		},
	}
}

func TestHoldingsAsText(t *testing.T) {
	m, hs := machine(t), holdings()
	for what, c := range map[string]struct{ got, want string }{
		"containers": {Text(m, hs), "init: acme.com/gpu gpu-0; main: cpus 8-9,16, 1Gi memory on NUMA nodes 8-9, " +
			"acme.com/gpu ~gpu-0"},
		"together": {strings.Join(Items(m, hs...), " | "), "cpus 8-9,16 | 1Gi memory on NUMA nodes 8-9 | " +
			"acme.com/gpu ~gpu-0"},
		"counted": {strings.Join(Counts(m, hs...), " | "),
			"2 cpus on NUMA node 8 | 1 cpu on NUMA node 9 | 1Gi memory on NUMA nodes 8-9 | 1 acme.com/gpu on NUMA node 8"},
		"amounts":             {Amounts(m, hs), "3 cpu, 1 acme.com/gpu, 1Gi memory on NUMA nodes 8-9"},
		"nothing":             {Text(m, nil), "nothing"},
		"no amounts":          {Amounts(m, nil), ""},
		"a machine that left": {Text(nil, hs[:1]), "init: acme.com/gpu gpu-0"},
		"positions":           {Containers(nil, hs)[1].Items()[1], "1Gi memory on NUMA nodes 1-2"},
		"a name from outside": {Container{Name: "a\x1b[2J"}.Text(), `"a\x1b[2J": `},
		"a device without one": {Containers(m,
			[]place.Holding{{Memory: []place.Block{{Kind: topo.Memory}}}})[0].Items()[0], "0 memory on no NUMA node"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
}

func TestManyIDsAreCounted(t *testing.T) {
	var ids []string
	for range 10 {
		ids = append(ids, strings.Repeat("x", 20))
	}
	if got, want := idList(ids), strings.Repeat("x", 20)+","+strings.Repeat("x", 20)+",+8 more"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A document has the sections of a NodeLayout under the same keys.
func TestANodeIsALayoutAndMore(t *testing.T) {
	m := machine(t)
	u := place.NewUsage(m, place.Rules{CPU: place.CPURules{Static: true}}).Hold(holdings()...)
	n := &state.Node{
		Name:    "a",
		Machine: m,
		Rules:   u.Rules,
		Usage:   u,
		Entries: []state.Entry{{Pod: state.PodID{UID: "u"},
			Source: state.Predicted, Holdings: holdings()}},
	}
	text, err := json.Marshal(NodeOf("a", n))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"machine":{"numas":[{"id":0,"memory":17179869184},`, `"rules":{"topologyManagerPolicy":"none",`,
		`"uid":"u","source":"predicted","numas":"8-9","containers":[{"name":"init","kind":"init","numas":"8","devices":[`,
		`"summary":{"numas":3,"cpus":24,"pods":1,"freeCPUs":21,"largestFreeNUMA":8,"observed":0,"predicted":1}`,
		`{"resource":"acme.com/gpu","ids":["gpu-0"],"numas":"8","anyOf":true}`, `"freeDevices":[{"resource":"acme.com/gpu","ids":["gpu-1"]}]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if got := NodeOf("b", nil); got.Quality != None || got.Machine != nil {
		t.Errorf("a node that is not known: %+v", got)
	}
}

func TestRulesAsText(t *testing.T) {
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.Restricted, MaxNUMAs: 16},
		CPU:      place.CPURules{Static: true, FullPCPUsOnly: true},
	}
	want := []string{
		"restricted per container",
		"CPUs static",
		"memory not pinned",
		"full-pcpus-only",
		"max-allowable-numa-nodes=16",
	}
	if got := RuleItems(r, state.Exact); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	r.Arbiter = place.ByAgent
	if got := RuleItems(r, state.Exact); got[0] != "the agent decides" || !slices.Equal(got[1:], want) {
		t.Errorf("%q, want %q after who decides", got, want)
	}
	coarse := place.Rules{Topology: r.Topology, CPU: place.CPURules{Static: true}}
	want = []string{"restricted per container", "assumed: CPUs static, memory not pinned, options at their defaults",
		"max-allowable-numa-nodes=16"}
	if got := RuleItems(coarse, state.Estimated); !slices.Equal(got, want) {
		t.Errorf("%q of a coarse node, want %q", got, want)
	}
}
