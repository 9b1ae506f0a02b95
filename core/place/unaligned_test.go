package place_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

func TestUnalignedNamesTheSettings(t *testing.T) {
	const one = "numa 0 socket 0 cpus 0-3 memory 8Gi"
	all := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA, Scope: place.PerPod},
		CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: true}}
	perContainer, bestEffort := all, all
	perContainer.Topology.Scope = place.PerContainer
	bestEffort.Topology.Policy = place.BestEffort
	for what, c := range map[string]struct {
		machine string
		rules   place.Rules
		want    []string // the settings that the texts name
		forgot  int
	}{
		"the kubelet's defaults": {hazardMachine, place.Rules{},
			[]string{"cpuManagerPolicy", "memoryManagerPolicy", "topologyManagerPolicy"}, 3},
		"the defaults on one NUMA node": {one, place.Rules{}, []string{"cpuManagerPolicy"}, 1},
		"everything on one NUMA node":   {one, all, nil, 0},
		"everything":                    {hazardMachine, all, nil, 0},
		"container scope":               {hazardMachine, perContainer, []string{"topologyManagerScope"}, 0},
		"best-effort":                   {hazardMachine, bestEffort, []string{"topologyManagerPolicy"}, 0},
	} {
		m, err := topo.ParseMachine(c.machine)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, u := range c.rules.Unaligned(m) {
			texts = append(texts, u.Text())
		}
		named := func(text, setting string) bool { return strings.Contains(text, setting) }
		if !slices.EqualFunc(texts, c.want, named) {
			t.Errorf("%s: %q, want %q", what, texts, c.want)
		}
		if got := len(c.rules.Forgotten(m)); got != c.forgot {
			t.Errorf("%s: %d settings are forgotten, want %d", what, got, c.forgot)
		}
	}
}
