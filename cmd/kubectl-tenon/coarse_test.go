package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab/coarse"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A cluster of four nodes: with a layout, with only a NodeResourceTopology, with a malformed object, and with nothing.
func TestNodesWithOnlyATopologyAreShown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "coarse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := coarse.StartBare(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	nodes(ctx, t, c, "exact", "edge", "twice", "silent")
	if out := says(ctx, t, c, "map"); !strings.Contains(words(out), "edge no layout: is the agent running?") {
		t.Errorf("where there are no NodeResourceTopologies, map says:\n%s", out)
	}
	if err := c.Define(ctx, crd.NodeResourceTopology()); err != nil {
		t.Fatal(err)
	}
	edge := coarse.Topology("edge", "single-numa-node/container", "12:14:16/8Gi 14:14:16/8Gi")
	edge.Attributes = append(edge.Attributes, v1alpha2.AttributeInfo{Name: "topologyManagerOptionNew", Value: "1"})
	twice := coarse.Topology("twice", "single-numa-node/container", "4/8Gi 4/8Gi")
	twice.Zones[1].Name = "node-0"
	for _, o := range []*v1alpha2.NodeResourceTopology{edge, twice} {
		if err := c.Report(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	out := says(ctx, t, c, "map")
	for _, want := range []string{"edge coarse single-numa-node container 2 26/32 0+",
		"silent no layout: is the agent running?",
		`twice refused: NodeResourceTopology of node "twice": zone "node-0": NUMA node 0 is named twice`,
		"edge NodeResourceTopology: attribute topologyManagerOptionNew is not understood"} {
		if !strings.Contains(words(out), want) {
			t.Errorf("map does not say %q:\n%s", want, out)
		}
	}
	pod := workload.Pod("waits", workload.Guaranteed("c", workload.Amounts{"cpu": "13", "memory": "1Gi"}))
	if err := workload.Create(ctx, c.Client, pod); err != nil {
		t.Fatal(err)
	}
	if out := says(ctx, t, c, "explain", "pod", "waits"); !strings.Contains(words(out),
		"edge (coarse) c 1 13 cpus on NUMA node 1") {
		t.Errorf("explain does not judge the coarse node:\n%s", out)
	}
	var doc struct {
		Nodes []struct{ Name, Quality, From string }
	}
	if err := json.Unmarshal([]byte(says(ctx, t, c, "map", "edge", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Nodes) != 1 || doc.Nodes[0].Quality != "coarse" || doc.Nodes[0].From != "NodeResourceTopology" {
		t.Errorf("JSON says %+v", doc.Nodes)
	}
}

// nodes makes nodes, the first of them with a layout.
func nodes(ctx context.Context, t *testing.T, c *coarse.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			"cpu": resource.MustParse("28"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}}}
		if _, err := c.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := topo.ParseMachine("numa 0 cpus 0-11 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	if _, err := c.Layouts.Apply(ctx, v1alpha1.FromCore(names[0], m, r, nil, nil)); err != nil {
		t.Fatal(err)
	}
}

// words returns the words of a table, separated by one blank.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// says runs a command that must succeed, and returns its output.
func says(ctx context.Context, t *testing.T, c *coarse.Cluster, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(ctx, append(args, "--kubeconfig", c.Kubeconfig), &out, &errs, setup("test")); code != 0 ||
		errs.Len() > 0 {
		t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}
