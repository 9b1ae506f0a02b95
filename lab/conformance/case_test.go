package conformance_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tenon-numa/tenon/lab/conformance"
)

const small = `level: live
why: A reason.
source: https://example.com
machine: two-halves
kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: "0", topologyManagerPolicy: restricted}
nodes:
- {name: a}
- {name: b, kubelet: {topologyManagerPolicy: null}}
steps:
- create:
  - {name: app, count: 2, spec: {containers: [{resources: {limits: {cpu: "1", memory: 1Gi}}}]}}
- end: [app-2]
`

// gpuClaim is a part of a specification with a claim of a container x.
const gpuClaim = "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu-1}], initContainers: [{name: y, " +
	"resources: {claims: [{name: gpu}]}}], "

// Mistakes in a case's file are errors that name the place.
func TestMistakesInCasesAreNamed(t *testing.T) {
	if _, err := conformance.Parse("small", []byte(small)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, mistake, want string }{
		"unknown field":      {"level: live", "levels: live", "levels"},
		"unknown level":      {"level: live", "level: best", `level "best"`},
		"no reason":          {"why: A reason.", "why: ' '", "why or source"},
		"unknown machine":    {"machine: two-halves", "machine: no-such", `no machine "no-such"`},
		"unknown setting":    {"cpuManagerPolicy: static", "cpuManagerPolcy: static", "cpuManagerPolcy"},
		"node twice":         {"name: b", "name: a", `node "a"`},
		"foreign node":       {"count: 2", "node: c", `no node "c"`},
		"too many pods":      {"count: 2", "count: 41", "count is outside"},
		"no containers":      {"containers: [{resources: {limits: {cpu: \"1\", memory: 1Gi}}}]", "", "no containers"},
		"unknown pod":        {"end: [app-2]", "end: [app-3]", `no pod "app-3"`},
		"two things at once": {"- end: [app-2]", "- end: [app-2]\n  restart: {node: a}", "2 fields are set"},
		"foreign in burst":   {"- create:\n  - {name: app, count: 2", "- burst:\n  - {name: app, node: a", "would race"},
		"no release":         {"level: live", "level: live\nsince: one", `since "one" is no release`},
		"unknown area":       {"level: live", "level: live\narea: best", `area "best"`},
		"unknown class":      {"{containers: [{", "{" + gpuClaim + "containers: [{name: x, ", `class "gpu"`},
		"no template":        {"{containers: [{", "{containers: [{" + `name: x, resources: {claims: [{name: gpu}]}}, {`, "no template"},
		"unknown NUMA node":  {"name: b", "name: b, claimable: {gpu: [7]}", "NUMA node 7"},
		"gangs at a level":   {"nodes:", "gangs: {g: 1}\nnodes:", "have the area gangs"},
		"unknown data":       {"- end: [app-2]", "- publish: {node: a, what: lies}", `"lies" is unknown`},
	} {
		_, err := conformance.Parse("small", []byte(strings.Replace(small, c.old, c.mistake, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "small") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// Mistakes about gangs are errors too.
func TestMistakesInGangsAreNamed(t *testing.T) {
	gang := strings.NewReplacer("level: live", "level: exact\narea: gangs", "nodes:", "gangs: {g: 2}\nnodes:", "count: 2",
		"count: 2, gang: g").Replace(small)
	if _, err := conformance.Parse("small", []byte(gang)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, mistake, want string }{
		"unknown gang":     {"gang: g", "gang: h", `no gang "h"`},
		"too few pods":     {"gangs: {g: 2}", "gangs: {g: 3}", "needs 3 of 2 pods"},
		"no pods":          {"gangs: {g: 2}", "gangs: {g: 2, h: 1}", "needs 1 of 0 pods"},
		"too many pods":    {"count: 2, gang", "count: 6, gang", "at most 5 pods"},
		"needs nothing":    {"gangs: {g: 2}", "gangs: {g: 0}", "needs 0"},
		"foreign pods":     {"gang: g", "gang: g, node: a", `no gang "g"`},
		"long name":        {"gangs: {g: 2}", "gangs: {g: 2, ninebytes: 1}", `gang "ninebytes"`},
		"level of no gang": {"gangs: {g: 2}\n", "", "have the area gangs"},
	} {
		_, err := conformance.Parse("small", []byte(strings.Replace(gang, c.old, c.mistake, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A node's settings are added to the case's settings, and null removes one.
func TestNodesHaveTheSettingsOfTheCase(t *testing.T) {
	c, err := conformance.Parse("small", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"restricted", ""} {
		m, err := c.MachineOf(c.Nodes[i])
		if err != nil {
			t.Fatal(err)
		}
		if m.Kubelet.TopologyManagerPolicy != want || m.Kubelet.CPUManagerPolicy != "static" {
			t.Errorf("node %s: %+v, want the topology policy %q and the CPU policy static", c.Nodes[i].Name, m.Kubelet, want)
		}
	}
}

// Strangers add a case as one file.
func TestCasesAreReadFromFiles(t *testing.T) {
	fsys := fstest.MapFS{"mine/b.yaml": {Data: []byte(small)}, "mine/a.yaml": {Data: []byte(small)},
		"mine/notes.txt": {Data: []byte("no case")}}
	cases, err := conformance.Read(fsys, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 2 || cases[0].Name != "a" || cases[1].Name != "b" {
		t.Errorf("cases %+v, want a and b", cases)
	}
	if _, err := conformance.Read(fsys, "none"); err == nil {
		t.Error("a folder without cases is no error")
	}
}

// The short form has cases of every level.
func TestTheShortFormHasAllLevels(t *testing.T) {
	all, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[conformance.Level]int{}
	for _, c := range conformance.Short(all) {
		seen[c.Level]++
	}
	for _, l := range conformance.Levels() {
		if seen[l] == 0 {
			t.Errorf("no case of level %s in the short form", l)
		}
	}
}
