package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab"
)

// The agent's NodeResourceTopology says of the node with the pod what its layout says, and kubectl
// shows it.
func zones(ctx context.Context, t *testing.T, c *lab.Cluster, user kubernetes.Interface) {
	topologies, err := nrt.NewClient(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var seen *v1alpha2.NodeResourceTopology
	follow(ctx, t, &v1alpha2.NodeResourceTopology{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return topologies.List(ctx, o)
		},
		WatchFuncWithContext: topologies.Watch,
	}, func(e watch.Event) (bool, error) {
		o, ok := e.Object.(*v1alpha2.NodeResourceTopology)
		if !ok || o.Name != "net" || len(o.Zones) != 2 {
			return false, nil
		}
		seen = o
		// Of 56 CPUs one core of two is the system's, and two cores are the pod's.
		cpu := o.Zones[0].Resources[0]
		return cpu.Capacity.Value() == 56 && cpu.Allocatable.Value() == 54 && cpu.Available.Value() == 50, nil
	})
	if got, want := facts(t, seen), facts(t, nrt.FromCore(published(ctx, t, c, "net"))); got != want {
		t.Errorf("NodeResourceTopology says\n%s\nlayout says\n%s", got, want)
	}
	if o := seen.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "net" {
		t.Errorf("owners are %+v", o)
	}
	var table metav1.Table
	data, err := user.CoreV1().RESTClient().Get().AbsPath("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		if got := fmt.Sprint(row.Cells[:3]); got != "[holes best-effort container]" && got != "[net single-numa-node container]" {
			t.Errorf("kubectl shows %s", got)
		}
	}
	if len(table.Rows) != 2 {
		t.Errorf("kubectl shows %d rows, want 2", len(table.Rows))
	}
}

// published is the state of a node as its layout says.
func published(ctx context.Context, t *testing.T, c *lab.Cluster, name string) *ledger.Node {
	t.Helper()
	layouts, err := client.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	l, err := layouts.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	core, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(core.Machine, core.Rules)
	for _, e := range core.Entries {
		u = u.Hold(e.Holdings...)
	}
	return &ledger.Node{Name: name, Machine: core.Machine, Rules: core.Rules, Entries: core.Entries, Usage: u.WithGroups(core.Groups)}
}

// facts is everything of an object but its metadata.
func facts(t *testing.T, o *v1alpha2.NodeResourceTopology) string {
	t.Helper()
	data, err := json.MarshalIndent(v1alpha2.NodeResourceTopology{
		Zones: o.Zones, Attributes: o.Attributes, TopologyPolicies: o.TopologyPolicies}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
