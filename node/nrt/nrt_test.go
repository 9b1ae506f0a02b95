package nrt_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/podfingerprint"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
	"github.com/tenon-numa/tenon/node/nrt"
)

// asks describes a Guaranteed pod with one container.
type asks struct {
	name    string
	cpus    int64
	memory  []place.Amount
	devices []place.Count
}

func (a asks) pod() *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{
		{Name: "main", MilliCPU: a.cpus * 1000, Memory: a.memory, Devices: a.devices}}}
}

func node(t *testing.T, name, machine string, r place.Rules, pods ...asks) *state.Node {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	n := &state.Node{Name: name, Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	for _, p := range pods {
		next, ok := n.With(state.PodID{UID: p.name, Namespace: "default", Name: p.name}, p.pod())
		if !ok {
			t.Fatalf("pod %s does not fit on %s", p.name, name)
		}
		n = next
	}
	return n
}

const gi = 1 << 30

// packets has hugepages, devices, and CPUs reserved on both NUMA nodes.
func packets(t *testing.T) *state.Node {
	return node(t, "packets", `
numa 0 socket 0 cpus 0-3/8-11 memory 32Gi hugepages-2Mi 0 hugepages-1Gi 8
numa 1 socket 1 cpus 4-7/12-15 memory 32Gi hugepages-2Mi 0 hugepages-1Gi 8
distances 10 21
distances 21 10
device intel.com/sriov_vf vf0,vf1 numa 0
device intel.com/sriov_vf vf2 numa 1
device intel.com/sriov_vf vf3 numa 1 unhealthy
device example.com/license seat numa none
`, place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 4, 8, 12)},
		Memory: place.MemoryRules{Static: true,
			Reserved: []place.Reserved{{NUMA: 0, Kind: "memory", Bytes: gi}, {NUMA: 1, Kind: "memory", Bytes: gi}}},
	}, asks{"dpdk-0", 2, []place.Amount{{Kind: "hugepages-1Gi", Bytes: 4 * gi}, {Kind: "memory", Bytes: 2 * gi}},
		[]place.Count{{Resource: "intel.com/sriov_vf", N: 1}}},
		asks{"dpdk-1", 5, []place.Amount{{Kind: "memory", Bytes: 3 * gi}}, nil})
}

// holes has sparse ids, a NUMA node without CPUs, a device near two NUMA nodes, and memory over two NUMA nodes.
func holes(t *testing.T) *state.Node {
	return node(t, "holes", `
numa 0 cpus 0-7 memory 16Gi
numa 8 cpus 8-15 memory 16Gi
numa 50 memory 64Gi
device nvidia.com/gpu g0 numa 0
device nvidia.com/gpu g1,g2 numa 8
device nvidia.com/gpu bridge numa 0,8
`, place.Rules{
		Topology: place.TopologyRules{Policy: place.BestEffort, Scope: place.PerPod, MaxNUMAs: 16},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0)},
		Memory:   place.MemoryRules{Static: true},
	}, asks{"wide", 10, []place.Amount{{Kind: "memory", Bytes: 20 * gi}}, nil},
		asks{"gpu", 0, nil, []place.Count{{Resource: "nvidia.com/gpu", N: 1}}})
}

// plain has managers that assign nothing.
func plain(t *testing.T) *state.Node {
	return node(t, "plain", "numa 0 cpus 0-5 memory 8Gi", place.Rules{},
		asks{"web", 2, []place.Amount{{Kind: "memory", Bytes: gi}}, nil})
}

func TestGolden(t *testing.T) {
	for _, n := range []*state.Node{packets(t), holes(t), plain(t)} {
		got, err := yaml.Marshal(nrt.FromCore(n))
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", n.Name+".yaml"), string(got))
	}
}

// pods returns a node with pods of these names; a container of each holds a CPU.
func pods(t require, names ...string) *state.Node {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 1Gi\ndevice x.io/nic a numa 0\ndevice x.io/seat s numa none")
	if err != nil {
		t.Fatal(err)
	}
	n := &state.Node{Name: "n", Machine: m, Usage: place.NewUsage(m, place.Rules{})}
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		n.Entries = append(n.Entries, state.Entry{Pod: state.PodID{Namespace: namespace, Name: name},
			Holdings: []place.Holding{{Container: "main", CPUs: idset.Of[idset.CPU](1)}}})
	}
	return n
}

// require has the methods that testing.T and rapid.T share.
type require interface{ Fatal(args ...any) }

func TestFingerprintIsTheAgreedOne(t *testing.T) {
	// The value is from the tests of NodeResourceTopologyMatch.
	if got, want := nrt.Fingerprint(pods(t, "namespace1/pod1")), "pfp0v0019e0420efb37746c6"; got != want {
		t.Errorf("fingerprint is %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-z]{1,6}/[a-z0-9]{1,6}`), rapid.ID[string]).Draw(t, "pods")
		other := podfingerprint.NewFingerprint(0)
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			namespace, name, _ := strings.Cut(name, "/")
			if err := other.Add(namespace, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Check(nrt.Fingerprint(pods(t, names...))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFingerprintIsOfWhatReadersExpect(t *testing.T) {
	block := []place.Block{{Kind: "memory", NUMAs: 1, Bytes: 1}}
	device := func(resource, id string, numas topo.Mask) place.Holding {
		return place.Holding{Devices: []place.DeviceBlock{{Resource: resource, IDs: []string{id}, NUMAs: numas}}}
	}
	for _, c := range []struct {
		name string
		h    place.Holding
		in   bool
	}{
		{"CPUs", place.Holding{CPUs: idset.Of[idset.CPU](1)}, true},
		{"memory alone", place.Holding{Memory: block}, true},
		{"a sidecar's memory", place.Holding{Kind: place.Sidecar, Memory: block}, true},
		{"memory of an init container that ended", place.Holding{Kind: place.Init, Memory: block}, false},
		{"a device near a NUMA node", device("x.io/nic", "a", 1), true},
		{"a device near none", device("x.io/seat", "s", 0), false},
	} {
		n := pods(t, "ns/pod")
		n.Entries[0].Holdings = []place.Holding{c.h}
		if in := nrt.Fingerprint(n) == nrt.Fingerprint(pods(t, "ns/pod")); in != c.in {
			t.Errorf("pod with %s: in the fingerprint %v, want %v", c.name, in, c.in)
		}
	}
}

func TestAmountsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		o := nrt.FromCore(n)
		if len(o.Zones) != len(n.Machine.NUMAs()) {
			t.Fatalf("%d zones for %d NUMA nodes", len(o.Zones), len(n.Machine.NUMAs()))
		}
		for _, z := range o.Zones {
			if len(z.Resources) != len(o.Zones[0].Resources) {
				t.Fatalf("zone %s has other resources than %s", z.Name, o.Zones[0].Name)
			}
			for k, r := range z.Resources {
				if r.Name != o.Zones[0].Resources[k].Name {
					t.Fatalf("zone %s has %s where %s has %s", z.Name, r.Name, o.Zones[0].Name, o.Zones[0].Resources[k].Name)
				}
				if r.Available.Sign() < 0 || r.Available.Cmp(r.Allocatable) > 0 || r.Allocatable.Cmp(r.Capacity) > 0 {
					t.Fatalf("%s of zone %s: available %s, allocatable %s, capacity %s",
						r.Name, z.Name, r.Available.String(), r.Allocatable.String(), r.Capacity.String())
				}
			}
		}
	})
}

// drawNode draws a random machine with holdings of random pods, and memory groups that may contradict it.
func drawNode(t *rapid.T) *state.Node {
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 255), 1, 6, rapid.ID[int]).Draw(t, "numas")
	text, next := "", 0
	for _, id := range ids {
		text += fmt.Sprintf("numa %d memory %dGi hugepages-2Mi %d", id,
			rapid.IntRange(1, 64).Draw(t, "memory"), rapid.IntRange(0, 512).Draw(t, "pages"))
		if count := rapid.IntRange(0, 8).Draw(t, "cpus"); count > 0 || next == 0 {
			text += fmt.Sprintf(" cpus %d-%d", next, next+count)
			next += count + 1
		}
		text += "\n"
	}
	for d := range rapid.IntRange(0, 6).Draw(t, "devices") {
		near := rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID[int]).Draw(t, "near")
		text += fmt.Sprintf("device x.io/dev d%d numa %s", d, list(near))
		if rapid.Bool().Draw(t, "unhealthy") {
			text += " unhealthy"
		}
		text += "\n"
	}
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.Policy(rapid.IntRange(0, 3).Draw(t, "policy"))},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of(idset.CPU(rapid.IntRange(0, next+2).Draw(t, "reserved")))},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: m.NUMAs()[0].ID, Kind: "memory",
			Bytes: int64(rapid.IntRange(0, 80).Draw(t, "kept")) * gi}}},
	}
	n := &state.Node{Name: "n", Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		p := asks{cpus: int64(rapid.IntRange(0, 10).Draw(t, "cpu"))}
		p.memory = []place.Amount{{Kind: "memory", Bytes: int64(rapid.IntRange(1, 40).Draw(t, "bytes")) * gi}}
		if len(m.Resources()) > 0 {
			p.devices = []place.Count{{Resource: "x.io/dev", N: int64(rapid.IntRange(0, 2).Draw(t, "want"))}}
		}
		n, _ = n.With(state.PodID{UID: fmt.Sprint(i), Name: fmt.Sprint(i)}, p.pod())
	}
	n.Usage = n.Usage.WithGroups(map[int]place.MemoryGroup{0: {NUMAs: m.All(),
		Free: []place.Amount{{Kind: "memory", Bytes: int64(rapid.IntRange(0, 100).Draw(t, "group")) * gi}}}})
	return n
}

func list(ids []int) string {
	if len(ids) == 0 {
		return "none"
	}
	return fmt.Sprint(idset.Of(ids...))
}
