package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	nrtapi "github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/node/nrt"
)

// The agent's NodeResourceTopology agrees with its layout about the node with the pod, and kubectl shows it.
func zones(ctx context.Context, t *testing.T, c *lab.Cluster, user kubernetes.Interface) {
	topologies, err := nrtapi.NewClient(c.RESTConfig())
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
		if got := fmt.Sprint(row.Cells[:3]); got != "[holes best-effort container]" &&
			got != "[net single-numa-node container]" {
			t.Errorf("kubectl shows %s", got)
		}
	}
	if len(table.Rows) != 2 {
		t.Errorf("kubectl shows %d rows, want 2", len(table.Rows))
	}
}

// If another writer changes an agent's published objects, the agent restores them, and labels follow the Node, as fast
// as a watch reports: the next reading of everything else is minutes away.
func mended(ctx context.Context, t *testing.T, c *lab.Cluster, user kubernetes.Interface) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	topologies, err := nrtapi.NewClient(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	layouts, err := client.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	const node = "holes"
	until := func(what string, ok func(*v1alpha1.NodeLayout, *v1alpha2.NodeResourceTopology) bool) {
		t.Helper()
		err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			l, err := layouts.Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return false, missing(err)
			}
			o, err := topologies.Get(ctx, node, metav1.GetOptions{})
			return err == nil && ok(l, o), missing(err)
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	label := func(value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, lab.ShardLabel, value)
		if _, err := user.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"a"`)
	until("labelled", func(l *v1alpha1.NodeLayout, o *v1alpha2.NodeResourceTopology) bool {
		return l.Labels[lab.ShardLabel] == "a" && o.Labels[lab.ShardLabel] == "a"
	})
	damage := []byte(`{"metadata":{"ownerReferences":null,"labels":{"` + lab.ShardLabel + `":"b"}}}`)
	if _, err := layouts.Patch(ctx, node, types.MergePatchType, damage, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := topologies.Patch(ctx, node, types.MergePatchType, []byte(`{"zones":[]}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until("damage is undone", func(l *v1alpha1.NodeLayout, o *v1alpha2.NodeResourceTopology) bool {
		return l.Labels[lab.ShardLabel] == "a" && len(l.OwnerReferences) == 1 && len(o.Zones) > 0
	})
	if err := topologies.Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := layouts.Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("what was deleted is back", func(l *v1alpha1.NodeLayout, o *v1alpha2.NodeResourceTopology) bool { return true })
	label("null")
	until("without the label", func(l *v1alpha1.NodeLayout, o *v1alpha2.NodeResourceTopology) bool {
		return len(l.Labels) == 0 && len(o.Labels) == 0
	})
}

// missing returns nil for an error about a missing object, and other errors unchanged.
func missing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// published returns the state of a node in its layout.
func published(ctx context.Context, t *testing.T, c *lab.Cluster, name string) *state.Node {
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
	return &state.Node{Name: name, Machine: core.Machine, Rules: core.Rules, Entries: core.Entries,
		Usage: u.WithGroups(core.Groups)}
}

// facts returns everything of an object except its metadata.
func facts(t *testing.T, o *v1alpha2.NodeResourceTopology) string {
	t.Helper()
	data, err := json.MarshalIndent(v1alpha2.NodeResourceTopology{
		Zones: o.Zones, Attributes: o.Attributes, TopologyPolicies: o.TopologyPolicies}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
