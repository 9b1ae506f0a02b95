package manifest

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Objects of Trainer and Slurm with fields of wrong types, or without some of their fields, are refused, or read as
// pods that the API server could have. Runtimes and jobs are in any order, and some are missing.
func TestMutatedObjectsAreReadOrRefused(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const patches = "[{manager: m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {" +
		"spec: {template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {a: b}, volumes: [{name: v}], " +
		"containers: [{name: node, env: [{name: q}]}]}}}}}]}}}}]"
	sources := torch("ClusterTrainingRuntime", "{mpi: {runLauncherAsNode: true}}", node) + "---\n" +
		torch("TrainingRuntime", "{numNodes: 2, torch: {}}", node) + "---\n" +
		trainJob("{runtimeRef: {name: numa}, trainer: {numNodes: 2, image: x, resourcesPerNode: {limits: {cpu: 2}}}, "+
			"runtimePatches: "+patches+"}") + "---\n" +
		custom("slinky.slurm.net/v1beta1", "NodeSet", "{replicas: 2, slurmd: {image: i}, logfile: {image: i}, template: "+
			"{metadata: {labels: {a: b}}, spec: {initContainers: [{name: x, image: i}], tolerations: []}}}")
	read := 0
	for range 500 {
		var items []any
		if err := Documents([]byte(sources), func(_ string, text []byte) error {
			value, err := decode(text)
			o, _ := value.(object)
			o["metadata"], o["spec"] = mutated(r, o["metadata"]), mutated(r, o["spec"])
			items = append(items, o)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items[:1+r.IntN(len(items))]})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(text)
		if err != nil {
			continue
		}
		read++
		for _, x := range f.Templates {
			if err := check(x.Pod); err != nil || x.Count < 0 || x.Count > MaxPods {
				t.Fatalf("%s\nis read as %d of %+v: %v", text, x.Count, x.Pod, err)
			}
		}
	}
	if read < 10 {
		t.Errorf("%d files were read, want at least 10", read)
	}
}

// mutated returns a value in which some parts are replaced by other values or removed.
func mutated(r *rand.Rand, v any) any {
	others := []any{nil, "x", json.Number("5"), json.Number("-1"), true, []any{}, object{}, []any{nil, true}, "1e9",
		object{"name": "node"}, "trainer", "node"}
	if r.IntN(30) == 0 {
		return others[r.IntN(len(others))]
	}
	switch v := v.(type) {
	case object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if v[k] = mutated(r, v[k]); r.IntN(60) == 0 {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = mutated(r, v[i])
		}
	}
	return v
}
