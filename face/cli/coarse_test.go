package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// noted is a cluster with warnings about reports.
type noted struct {
	cluster
	notes []document.Problem
}

func (n noted) Notes() []document.Problem { return n.notes }

// mixed is a cluster with an exact node, a coarse node, and a node without any report. Three pods are on the coarse
// node: a predicted pod, an older pod that keeps CPUs of its init container, and a pod of an unknown owner.
func mixed(t *testing.T) noted {
	m := machine(t, `
numa 0 cpus 0-15 memory 64Gi
numa 1 socket 1 cpus 16-31 memory 64Gi
device vendor.example/nic 0-0000,0-0001 numa 0
device vendor.example/nic 1-0000,1-0001 numa 1
distances 10 21
distances 21 10
`)
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true,
		Reserved: idset.Of[idset.CPU](0, 16)},
		Memory: place.MemoryRules{Static: true}}
	holds := func(cpus ...idset.CPU) []place.Holding {
		return []place.Holding{{CPUs: idset.Of(cpus...), Memory: []place.Block{{Kind: topo.Memory, NUMAs: 2, Bytes: gi}}}}
	}
	l := state.Layout{Machine: m, Rules: r, Amounts: &state.Amounts{Held: holds(17, 18, 19),
		Counts: map[string]bool{"uid-old": true}}}
	l.Amounts.Held = append(l.Amounts.Held, place.Holding{Devices: []place.DeviceBlock{{Resource: "vendor.example/nic",
		IDs: []string{"1-0000"}, NUMAs: 2}}})
	memory := []place.Amount{{Kind: topo.Memory, Bytes: gi}}
	old := pod(place.Guaranteed, place.Container{Name: "prepare", Kind: place.Init, MilliCPU: 6000, Memory: memory},
		place.Container{Name: "serve", MilliCPU: 2000, Memory: memory})
	b := ledger.New()
	id := func(name string) state.PodID { return state.PodID{UID: "uid-" + name, Namespace: "ml", Name: name} }
	b.Recover("edge", id("old"), old)
	b.Admitted("uid-old")
	b.Report("edge", l)
	fresh := pod(place.Guaranteed, place.Container{Name: "c", MilliCPU: 12000, Memory: memory,
		Devices: []place.Count{{Resource: "vendor.example/nic", N: 2}}})
	b.Begun("uid-old")
	if v, ok := b.Reserve("edge", id("fresh"), fresh, place.Demand{}); !ok || !v.Fits() {
		t.Fatalf("the pod is refused: %v", v.Reasons)
	}
	of := func(name, node string, p *place.Pod) view.Pod {
		return view.Pod{ID: id(name), Pod: p, Node: node, Phase: "Running"}
	}
	small := pod(place.Guaranteed, place.Container{Name: "c", MilliCPU: 2000, Memory: memory})
	return noted{cluster{
		nodes:    []*state.Node{node(t, "exact", xeon, place.SingleNUMA), b.Snapshot().Node("edge")},
		problems: []document.Problem{{Node: "new", Reason: "no layout: is the agent running?"}},
		pods: map[string]view.Pod{"ml/old": of("old", "edge", old), "ml/fresh": of("fresh", "edge", fresh),
			"ml/else": of("else", "edge", small), "ml/waits": of("waits", "", small)},
	}, []document.Problem{{Node: "edge", Reason: "NodeResourceTopology: resource example/odd is passed over"},
		{Node: "exact", Reason: "not asked for"}}}
}

func pod(q place.QoS, cs ...place.Container) *place.Pod { return &place.Pod{QoS: q, Containers: cs} }

func TestCoarseNodesAreMarked(t *testing.T) {
	c := mixed(t)
	for file, line := range map[string]string{
		"coarse-map.txt":    "map",
		"coarse-node.txt":   "map edge",
		"coarse-node.json":  "map edge -o json",
		"coarse-waits.txt":  "explain pod ml/waits",
		"coarse-fresh.txt":  "explain pod ml/fresh",
		"coarse-old.txt":    "explain pod ml/old",
		"coarse-else.txt":   "explain pod ml/else",
		"coarse-waits.json": "explain pod ml/waits -o json",
	} {
		answers(t, c, file, line)
	}
}

// filed is a stage that reads one workload from any file.
type filed struct{ plain }

func (f filed) Workloads([]byte, string) ([]*whatif.Workload, whatif.Left, error) {
	return []*whatif.Workload{f.pod}, whatif.Left{}, nil
}

// A pod that passes only on an estimated node passes under assumptions, and check names these assumptions.
func TestCheckNamesCoarseNodes(t *testing.T) {
	edge := node(t, "edge", xeon, place.SingleNUMA)
	edge.Quality = state.Estimated
	needs := whatif.Amounts{"cpu": 2000, "memory": gi, "pods": 1}
	s := filed{plain{
		nodes: []whatif.Node{{Name: "edge", State: edge, Allocatable: whatif.Amounts{"cpu": 62000, "memory": 380 * gi,
			"pods": 110}}},
		pod: &whatif.Workload{Kind: "Pod", Namespace: "ml", Name: "x", Count: 1, Asked: true,
			Want: &whatif.Want{Pod: wanting(2, 1, 0), Needs: needs}},
	}}
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	from := Setup{Stages: Stages{Cluster: func(context.Context, Kubeconfig) (Stage, []document.Problem, string, error) {
		return s, nil, "ml", nil
	}}}
	for args, want := range map[string]string{
		"": "\n1 node is estimated by amounts: policies and options of CPU and memory managers are assumed, and\n" +
			"  kubelets there may refuse the pods: edge\n",
		"-o json": "\"coarse\": [\n    \"edge\"\n  ]",
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"check", "-f", file}, strings.Fields(args)...), &out, &errs, from)
		if code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("check %s: exit code %d, no %q in\n%s%s", args, code, want, &out, &errs)
		}
	}
}
