package nrt_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// written returns an object as an informer gets it from the API server: a Go client has written quantities that were
// never set as "0".
func written(t *testing.T, o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	u.Object = map[string]any{}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	typed, err := nrt.Typed(u)
	if err != nil {
		t.Fatal(err)
	}
	return typed.(*v1alpha2.NodeResourceTopology)
}

// asked returns a pod whose containers have requests such as "init 4 10Gi", "2 6Gi hp500Mi nic16" or "2 - gpu1".
func asked(t *testing.T, q place.QoS, containers ...string) *place.Pod {
	t.Helper()
	p := &place.Pod{QoS: q}
	for i, text := range containers {
		c := place.Container{Name: fmt.Sprint("c", i)}
		words := strings.Fields(text)
		if words[0] == "init" {
			c.Kind, words = place.Init, words[1:]
		}
		for k, w := range words {
			if w == "-" {
				continue
			}
			pages, isPages := strings.CutPrefix(w, "hp")
			kind, size := topo.Memory, w
			if isPages {
				kind, size = "hugepages-2Mi", pages
			}
			switch cut := strings.IndexAny(w, "0123456789"); {
			case k == 0:
				cpus := resource.MustParse(w)
				c.MilliCPU = cpus.MilliValue()
			case k == 1 || isPages:
				bytes := resource.MustParse(size)
				c.Memory = append(c.Memory, place.Amount{Kind: kind, Bytes: bytes.Value()})
			default:
				n := resource.MustParse(w[cut:])
				c.Devices = append(c.Devices, place.Count{Resource: "vendor/" + w[:cut], N: n.Value()})
			}
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// The zones of the nodes, as capacity and available amounts; allocatable is never set.
const (
	wideZone0 = "cpu 32 30,memory 64Gi 60Gi,hugepages-2Mi 384Mi 384Mi,vendor/nic 16 16"
	wideZone1 = "cpu 32 32,memory 64Gi 64Gi,hugepages-2Mi 512Mi 512Mi,vendor/nic 32 32"
	fullZone0 = "cpu 32 0,memory 64Gi 0,hugepages-2Mi 384Mi 0,vendor/nic 16 0"
	fullZone1 = "cpu 32 0,memory 64Gi 0,hugepages-2Mi 512Mi 0,vendor/nic 32 0"
)

// Other schedulers that read this format are tested with objects whose allocatable was never set. Capacity then counts
// as allocatable, so that a pod finds exactly what is available.
func TestPodsWhereAllocatableWasNeverSet(t *testing.T) {
	container, pod := v1alpha2.SingleNUMANodeContainerLevel, v1alpha2.SingleNUMANodePodLevel
	bestEffort := v1alpha2.BestEffortContainerLevel
	g, b, e := place.Guaranteed, place.Burstable, place.BestEffortQoS
	wide, full := [2]string{wideZone0, wideZone1}, [2]string{fullZone0, fullZone1}
	partial := [2]string{"cpu 20 4,memory 8Gi 8Gi", "cpu 30 8,memory 8Gi 8Gi"}
	little := [2]string{"cpu 20 2,memory 8Gi 4Gi", "cpu 30 4,memory 8Gi 4Gi"}
	nics := [2]string{"cpu 20 2,vendor/nic 30 5", "cpu 30 4,vendor/nic 30 2"}
	noGPU := [2]string{"cpu 4 4,vendor/gpu 0 0", "cpu 4 4,vendor/gpu 0 0"}
	for _, c := range []struct {
		what   string
		policy v1alpha2.TopologyManagerPolicy
		zones  [2]string
		pod    *place.Pod
		fits   bool
	}{
		{"a NUMA node has it", container, [2]string{"cpu 4 4,memory 8Gi 8Gi", "cpu 0 0,memory 8Gi 8Gi"},
			asked(t, g, "4 5Gi"), true},
		{"only both have it", container, [2]string{"cpu 2 2,memory 8Gi 8Gi", "cpu 2 2,memory 8Gi 8Gi"},
			asked(t, g, "4 5Gi"), false},
		{"Burstable CPUs are not aligned", container, [2]string{"cpu 4 4", "cpu 4 0"}, asked(t, b, "4"), true},
		{"memory that no zone has is not aligned", container, [2]string{"foo 2 2", "foo 2 2"},
			asked(t, b, "1 5Gi"), true},
		{"half is available", container, partial, asked(t, g, "8 8Gi"), true},
		{"more than is available", container, partial, asked(t, g, "9 1Gi"), false},
		{"devices of a BestEffort pod", container, nics, asked(t, e, "0 - nic5"), true},
		{"too many devices of a BestEffort pod", container, nics, asked(t, e, "0 - nic6"), false},
		{"too many devices of a Burstable pod", pod, nics, asked(t, b, "2 - nic6"), false},
		{"containers together", pod, little, asked(t, g, "1 1Gi", "1 1Gi", "1 1Gi"), true},
		{"too many together", pod, little, asked(t, g, "3 1Gi", "3 1Gi", "3 1Gi"), false},

		{"devices and hugepages", container, wide, asked(t, g, "2 6Gi hp500Mi nic16", "2 6Gi hp50Mi nic8"), true},
		{"hugepages of the second container", container, wide, asked(t, g, "2 6Gi hp400Mi", "2 6Gi hp400Mi"), false},
		{"devices of the second container", container, wide,
			asked(t, g, "2 6Gi hp50Mi nic20", "2 6Gi hp500Mi nic20"), false},
		{"an init container that is too large", container, wide, asked(t, g, "init 40 40Gi", "1 4Gi", "1 4Gi"), false},
		{"a small init container", container, wide, asked(t, g, "init 4 10Gi", "20 40Gi", "20 40Gi"), true},
		{"a third container", container, wide, asked(t, g, "init 4 10Gi", "20 40Gi", "20 40Gi", "20 10Gi"), false},
		// What the init containers leave ties the second container to the first NUMA node.
		{"init containers that leave CPUs", container, wide,
			asked(t, g, "init 30 10Gi", "init 30 10Gi", "20 40Gi", "20 40Gi"), false},
		{"one NUMA node for the whole pod", pod, wide, asked(t, g, "2 2Gi", "4 8Gi", "26 32Gi hp512Mi nic26"), true},

		{"a full node", container, full, asked(t, g, "1 1Gi"), false},
		{"devices of a full node", container, full, asked(t, b, "1 - nic1"), false},
		{"a pod of shared CPUs on a full node", container, full, asked(t, b, "1 1Gi"), true},

		{"a device that no zone has any of", bestEffort,
			[2]string{"cpu 4 4,memory 8Gi 8Gi,vendor/gpu 0 0", "cpu 4 4,memory 8Gi 3Gi,vendor/gpu 0 0"},
			asked(t, g, "4 4Gi gpu2"), false},
		{"one device of which no zone has any", container, noGPU, asked(t, e, "0 - gpu1"), false},
		{"a device that one zone has", container, [2]string{"cpu 4 4,vendor/gpu 0 0", "cpu 4 4,vendor/gpu 1 1"},
			asked(t, e, "0 - gpu1"), true},
		{"a pod beside a resource that is not there", container, noGPU, asked(t, e, "0"), true},
	} {
		o := former(c.policy, [2]string{"node-0", "node-1"}, c.zones[0], c.zones[1])
		forms := map[string]*v1alpha2.NodeResourceTopology{"not in the object": o, "0 in the object": written(t, o)}
		for how, o := range forms {
			r, err := nrt.Read(o)
			if err != nil {
				t.Errorf("%s, allocatable %s: %v", c.what, how, err)
				continue
			}
			if v := place.Place(usage(r), c.pod); v.Fits() != c.fits {
				t.Errorf("%s, allocatable %s: fits %v, want %v (%v)", c.what, how, v.Fits(), c.fits, v.Reasons)
			}
		}
	}
}

// A kubelet without a static CPU manager assigns no CPUs. Its exporter then deliberately lists none as allocatable.
func TestCPUsOfWhichNoneIsAllocatable(t *testing.T) {
	o := former(v1alpha2.SingleNUMANodeContainerLevel, [2]string{"node-0", "node-1"}, "cpu 8 0,vendor/gpu 2 2", "cpu 8 0")
	for i := range o.Zones {
		for k, r := range o.Zones[i].Resources {
			o.Zones[i].Resources[k].Allocatable = r.Available
		}
	}
	r, err := nrt.Read(written(t, o))
	if err != nil {
		t.Fatal(err)
	}
	if r.Rules.CPU.Static || len(r.Conditions) > 0 {
		t.Errorf("CPU manager static %v, conditions %q", r.Rules.CPU.Static, r.Conditions)
	}
}

// A correction is reported once, not for every zone.
func TestMissingAllocatableIsReportedOnce(t *testing.T) {
	const zone = "cpu 4 4,memory 8Gi 8Gi"
	r, err := nrt.Read(written(t, former(v1alpha2.None, [2]string{"node-0", "node-1"}, zone, zone)))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"no zone has anything allocatable; capacity counts as allocatable"}
	if !slices.Equal(r.Conditions, want) {
		t.Errorf("conditions %q, want %q", r.Conditions, want)
	}
}

// Texts of objects reach events, logs and terminals: unprintable ones are refused, and quoted in messages.
func TestTextsThatCannotBePrintedAreRefused(t *testing.T) {
	const red = "\x1b[31m"
	type (
		object = v1alpha2.NodeResourceTopology
		zone   = v1alpha2.Zone
	)
	for what, spoil := range map[string]func(*object, *zone){
		`zone name "node-0\x1b[31m"`:                 func(_ *object, z *zone) { z.Name += red },
		`zone "node-0": type "Node\x1b[31m"`:         func(_ *object, z *zone) { z.Type += red },
		`zone "node-0": parent "\x1b[31m"`:           func(_ *object, z *zone) { z.Parent = red },
		`zone "node-0": resource name "foo\x1b[31m"`: func(_ *object, z *zone) { z.Resources[0].Name = "foo" + red },
		`zone "node-0": resource name "a\u202eb"`:    func(_ *object, z *zone) { z.Resources[0].Name = "a\u202eb" },
		`zone "node-0": name of a cost "\n"`:         func(_ *object, z *zone) { z.Costs = v1alpha2.CostList{{Name: "\n"}} },
		`topologyPolicies "None\x1b[31m"`:            func(o *object, _ *zone) { o.TopologyPolicies = []string{"None" + red} },
		`attribute topologyManagerScope "pod\x00"`:   func(o *object, _ *zone) { attributed(o, "topologyManagerScope", "pod\x00") },
		`attribute nodeTopologyPodsFingerprint "pfp0v001\a"`: func(o *object, _ *zone) {
			attributed(o, "nodeTopologyPodsFingerprint", "pfp0v001\x07")
		},
	} {
		o := former(v1alpha2.None, [2]string{"node-0", "node-1"}, "cpu 4 4", "cpu 4 4")
		o.ObjectMeta = metav1.ObjectMeta{Name: "bad"}
		spoil(o, &o.Zones[0])
		_, err := nrt.Read(o)
		want := `NodeResourceTopology of node "bad": ` + what +
			" has a character that cannot be printed; its exporter has to write plain text"
		if err == nil || err.Error() != want {
			t.Errorf("error is %v\nwant %s", err, want)
		}
	}
	o := former(v1alpha2.None, [2]string{"node-0", "node-1"}, "cpu 4 4", "cpu 4 4")
	attributed(o, "somebody-else.example/notes", "two\nlines")
	if _, err := nrt.Read(o); err != nil {
		t.Errorf("an attribute that nobody reads: %v", err)
	}
}

func attributed(o *v1alpha2.NodeResourceTopology, name, value string) {
	o.Attributes = append(o.Attributes, v1alpha2.AttributeInfo{Name: name, Value: value})
}
