package place_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Two NUMA nodes of four cores with two threads; CPUs 0 and 8 are reserved.
const hazardMachine = `
numa 0 socket 0 cpus 0-3/8-11 memory 8Gi
numa 1 socket 1 cpus 4-7/12-15 memory 8Gi
device acme.com/gpu g0 numa 0
`

func hazards(t *testing.T, rules func(*place.Rules), groups map[int]place.MemoryGroup, hs ...place.Holding) (
	out []place.HazardCode) {
	t.Helper()
	m, err := topo.ParseMachine(hazardMachine)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)},
		Memory: place.MemoryRules{Static: true}}
	rules(&r)
	u := place.NewUsage(m, r).Hold(hs...).WithGroups(groups)
	for _, h := range u.RestartHazards() {
		if !strings.Contains(h.Text(), "restart") || strings.Contains(h.Text(), string(h.Code)) {
			t.Errorf("%s: the text for people is %q", h.Code, h.Text())
		}
		out = append(out, h.Code)
	}
	return out
}

func cpusOf(t *testing.T, list string) place.Holding {
	t.Helper()
	set, err := idset.Parse[idset.CPU](list)
	if err != nil {
		t.Fatal(err)
	}
	return place.Holding{Container: "c", CPUs: set}
}

func blocksOn(masks ...topo.Mask) (h place.Holding) {
	for _, m := range masks {
		h.Memory = append(h.Memory, place.Block{Kind: topo.Memory, NUMAs: m, Bytes: 1 << 30})
	}
	return h
}

func TestRestartHazards(t *testing.T) {
	strict := func(r *place.Rules) { r.CPU.StrictReservation = true }
	whole := func(r *place.Rules) { r.Release, r.CPU.FullPCPUsOnly = 36, true }
	plain := func(*place.Rules) {}
	socket := func(r *place.Rules) { r.CPU.AlignBySocket, r.Topology.Policy = true, place.Restricted }
	full := cpusOf(t, "1-7,9-15")
	for _, c := range []struct {
		name   string
		rules  func(*place.Rules)
		groups map[int]place.MemoryGroup
		hs     []place.Holding
		want   []place.HazardCode
	}{
		{"an empty node", strict, nil, nil, nil},
		{"strict, one CPU is left", strict, nil, []place.Holding{cpusOf(t, "1-7,9-14")}, nil},
		{"strict, no CPU is left", strict, nil, []place.Holding{full}, []place.HazardCode{place.NoSharedCPU}},
		{"reserved CPUs keep the shared pool", plain, nil, []place.Holding{full}, nil},
		{"a reserved CPU is held", plain, nil, []place.Holding{cpusOf(t, "0-1")}, []place.HazardCode{place.ReservedCPUHeld}},
		{"whole cores, as many are free", whole, nil, []place.Holding{cpusOf(t, "1-3,9-11")}, nil},
		{"whole cores, fewer are free", whole, nil, []place.Holding{cpusOf(t, "1-3,9-11"), cpusOf(t, "4-6,12-14")},
			[]place.HazardCode{place.SMTReadmission}},
		{"memory on one NUMA node each", plain, nil, []place.Holding{blocksOn(1), blocksOn(2)}, nil},
		{"memory of one group", plain, nil, []place.Holding{blocksOn(3), blocksOn(3)}, nil},
		{"memory of a group over that of one NUMA node", plain, nil, []place.Holding{blocksOn(1), blocksOn(3)},
			[]place.HazardCode{place.MemoryState}},
		{"a group is left over from a pod that has ended", plain, map[int]place.MemoryGroup{0: {NUMAs: 3}},
			[]place.Holding{blocksOn(1)}, []place.HazardCode{place.MemoryState}},
		{"bytes moved inside a group", plain, map[int]place.MemoryGroup{
			0: {NUMAs: 3, Free: []place.Amount{{Kind: topo.Memory, Bytes: 8 << 30}}},
			1: {NUMAs: 3, Free: []place.Amount{{Kind: topo.Memory, Bytes: 7 << 30}}}}, []place.Holding{blocksOn(3)}, nil},
		{"CPUs and memory apart", socket, nil,
			[]place.Holding{{Container: "c", CPUs: cpusOf(t, "4-5").CPUs, Memory: blocksOn(1).Memory}},
			[]place.HazardCode{place.TopologyReadmission}},
		{"devices of an init container", plain, nil, []place.Holding{{Container: "i", Kind: place.Init,
			Devices: []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"g0"}, NUMAs: 1}}}},
			[]place.HazardCode{place.InitDevices}},
		{"the agent decides, so the kubelet's managers keep nothing", func(r *place.Rules) {
			whole(r)
			r.Arbiter, r.CPU.StrictReservation = place.ByAgent, true
		}, nil, []place.Holding{full, blocksOn(1), blocksOn(3)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := hazards(t, c.rules, c.groups, c.hs...); !slices.Equal(got, c.want) {
				t.Errorf("hazards %v, want %v", got, c.want)
			}
		})
	}
}
