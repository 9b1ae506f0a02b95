package nrt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
)

const gi = 1 << 30

// Every file in testdata/read is an object of some producer; the file .txt beside it is the expected reading.
func TestProducersAreUnderstood(t *testing.T) {
	files, err := filepath.Glob("testdata/read/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		got := "refused: "
		if r, err := nrt.Read(typed(t, file)); err != nil {
			got += err.Error() + "\n"
		} else {
			got = describe(r)
		}
		golden.Check(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
	}
}

// typed returns a file as an informer's transform converts it.
func typed(t *testing.T, file string) *v1alpha2.NodeResourceTopology {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	o, err := nrt.Typed(u)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o.(*v1alpha2.NodeResourceTopology)
}

// describe shows a reading: for every resource the capacity, what pods may have, and what is free.
func describe(r *nrt.Reading) string {
	var b strings.Builder
	t, u := r.Rules.Topology, usage(r)
	fmt.Fprintf(&b, "topology %s by %s, at most %d NUMA nodes, closest %v\n", t.Policy, t.Scope, t.MaxNUMAs,
		t.PreferClosest)
	fmt.Fprintf(&b, "cpu manager static %v, memory manager static %v\n", r.Rules.CPU.Static, r.Rules.Memory.Static)
	for i, numa := range r.Machine.NUMAs() {
		free := numa.CPUs.Minus(r.Rules.CPU.Reserved)
		fmt.Fprintf(&b, "numa %d distances %v\n  cpu %s: %d of %d, free %d\n", numa.ID, numa.Distances, numa.CPUs,
			free.Len(), numa.CPUs.Len(), free.AndLen(u.FreeCPUs()))
		for _, k := range r.Machine.Kinds() {
			fmt.Fprintf(&b, "  %s: %d of %d, free %d\n", k, u.Allocatable(i, k), numa.Capacity(k), u.FreeMemory(i, k))
		}
		for _, res := range r.Machine.Resources() {
			near := func(d topo.Device) bool { return d.NUMAs.Has(i) }
			all, able := 0, 0
			for _, d := range res.Devices {
				if near(d) {
					all++
					if !d.Unhealthy {
						able++
					}
				}
			}
			notNear := func(d topo.Device) bool { return !near(d) }
			free := slices.DeleteFunc(u.FreeDevices(res.Name), notNear)
			fmt.Fprintf(&b, "  %s: %d of %d, free %d\n", res.Name, able, all, len(free))
		}
	}
	fmt.Fprintf(&b, "fingerprint %q method %q\n", r.Fingerprint, r.Method)
	for _, c := range r.Conditions {
		fmt.Fprintf(&b, "condition: %s\n", c)
	}
	return b.String()
}

func usage(r *nrt.Reading) *place.Usage { return place.NewUsage(r.Machine, r.Rules).Hold(r.Held...) }

// former returns an object in the form of NodeResourceTopologyMatch's tests: amounts of two zones as "resource capacity
// available", allocatable missing.
func former(policy v1alpha2.TopologyManagerPolicy, names [2]string, zones ...string) *v1alpha2.NodeResourceTopology {
	o := &v1alpha2.NodeResourceTopology{
		ObjectMeta:       metav1.ObjectMeta{Name: "former"},
		TopologyPolicies: []string{string(policy)},
	}
	for i, text := range zones {
		z := v1alpha2.Zone{Name: names[i], Type: "Node"}
		for part := range strings.SplitSeq(text, ",") {
			w := strings.Fields(part)
			z.Resources = append(z.Resources, v1alpha2.ResourceInfo{Name: w[0],
				Capacity: resource.MustParse(w[1]), Available: resource.MustParse(w[2])})
		}
		o.Zones = append(o.Zones, z)
	}
	return o
}

// The nodes and some of the pods of scheduler-plugins' filter_test.go, TestNodeResourceTopology.
func TestFormerNodesJudgePodsAsTheyShould(t *testing.T) {
	two := [2]string{"node-0", "node-1"}
	nodes := map[string]*v1alpha2.NodeResourceTopology{
		"N1": former(v1alpha2.SingleNUMANodeContainerLevel, two,
			"cpu 20 4,memory 8Gi 8Gi,vendor/nic1 30 10", "cpu 30 8,memory 8Gi 8Gi,vendor/nic1 30 10"),
		"N2": former(v1alpha2.SingleNUMANodeContainerLevel, two,
			"cpu 20 2,memory 8Gi 4Gi,hugepages-2Mi 128Mi 128Mi,vendor/nic1 30 5",
			"cpu 30 4,memory 8Gi 4Gi,hugepages-2Mi 128Mi 128Mi,vendor/nic1 30 2"),
		"N3": former(v1alpha2.SingleNUMANodePodLevel, two,
			"cpu 20 2,memory 8Gi 4Gi,vendor/nic1 30 5", "cpu 30 4,memory 8Gi 4Gi,vendor/nic1 30 2"),
		"N4": former(v1alpha2.SingleNUMANodePodLevel, [2]string{"node-0", "node-50"},
			"cpu 20 2,memory 8Gi 4Gi,vendor/nic1 30 5", "cpu 30 4,memory 8Gi 4Gi,vendor/nic1 30 2"),
		"N4, as a kubelet cannot have it": former(v1alpha2.SingleNUMANodePodLevel, [2]string{"node-0", "node-75"},
			"cpu 20 2,memory 8Gi 4Gi,vendor/nic1 30 5", "cpu 30 4,memory 8Gi 4Gi,vendor/nic1 30 2"),
		"N5": former(v1alpha2.SingleNUMANodeContainerLevel, two, "cpu 20 4,memory 4Gi 4Gi", "cpu 20 4,memory 4Gi 4Gi"),
		// TestNodeResourceTopologyMultiContainerPodScope, and node 1 of the tests of its cache.
		"host": former(v1alpha2.SingleNUMANodePodLevel, two,
			"cpu 30 30,memory 60Gi 60Gi,hugepages-2Mi 384Mi 384Mi,vendor/nic1 16 16",
			"cpu 32 32,memory 64Gi 64Gi,hugepages-2Mi 512Mi 512Mi,vendor/nic1 32 32"),
		"n1": former(v1alpha2.SingleNUMANodeContainerLevel, two, "cpu 30 30,memory 60Gi 60Gi", "cpu 30 30,memory 62Gi 62Gi"),
		// TestTopologyMatchPlugin: memory that no zone lists.
		"foo": former(v1alpha2.SingleNUMANodeContainerLevel, two, "foo 2 2", "foo 2 2"),
	}
	guaranteed := func(kind string, memory int64, cpus ...int64) *place.Pod {
		p := &place.Pod{QoS: place.Guaranteed}
		for i, n := range cpus {
			p.Containers = append(p.Containers, place.Container{Name: fmt.Sprint("c", i), MilliCPU: 1000 * n,
				Memory: []place.Amount{{Kind: kind, Bytes: memory}}})
		}
		return p
	}
	nics := func(resource string, n int64) *place.Pod {
		return &place.Pod{Containers: []place.Container{{Name: "c", Devices: []place.Count{{Resource: resource, N: n}}}}}
	}
	for _, c := range []struct {
		node, what string
		pod        *place.Pod
		fits       bool
	}{
		{"N1", "all of a NUMA node", guaranteed("memory", 8*gi, 8), true},
		{"N1", "a CPU more than a NUMA node has", guaranteed("memory", gi, 9), false},
		{"N1", "two containers, one on each NUMA node", guaranteed("memory", 2*gi, 4, 8), true},
		{"N2", "hugepages of a NUMA node", guaranteed("hugepages-2Mi", 64<<20, 2), true},
		{"N2", "hugepages of both NUMA nodes", guaranteed("hugepages-2Mi", 256<<20, 2), false},
		{"N2", "devices of a NUMA node", nics("vendor/nic1", 5), true},
		{"N2", "more devices than a NUMA node has", nics("vendor/nic1", 6), false},
		{"N2", "devices that only the node has", nics("vendor.com/nicNoNUMA", 3), true},
		{"N3", "a pod within a NUMA node", guaranteed("memory", gi, 1, 1, 1), true},
		{"N3", "a pod beyond a NUMA node", guaranteed("memory", gi, 3, 3, 3), false},
		{"N3", "devices of both NUMA nodes", nics("vendor/nic1", 6), false},
		{"N4", "a pod within the NUMA node with the high id", guaranteed("memory", gi, 1, 1, 1), true},
		{"N4", "a pod beyond it", guaranteed("memory", gi, 2, 2, 1), false},
		{"N4, as a kubelet cannot have it", "a pod where the kubelet panics", guaranteed("memory", gi, 1, 1, 1), false},
		{"N5", "devices that no zone lists", nics("vendor/nic1", 20), true},
		{"host", "a pod that fills a NUMA node", guaranteed("memory", 10*gi, 2, 4, 26), true},
		{"host", "a pod beyond every NUMA node", guaranteed("memory", 10*gi, 2, 8, 26), false},
		{"host", "more memory than a NUMA node has", guaranteed("memory", 24*gi, 1, 1, 1), false},
		{"host", "hugepages of the second NUMA node", guaranteed("hugepages-2Mi", 512<<20, 1), true},
		{"host", "devices of the second NUMA node", nics("vendor/nic1", 26), true},
		{"host", "devices beyond every NUMA node", nics("vendor/nic1", 52), false},
		{"n1", "two containers of which one NUMA node takes one", guaranteed("memory", 24*gi, 16, 16), true},
		{"foo", "CPUs and memory of managers that are off", guaranteed("memory", 5*gi, 4), true},
	} {
		r, err := nrt.Read(nodes[c.node])
		if err != nil {
			t.Errorf("%s: %v", c.node, err)
			continue
		}
		if fits := place.Place(usage(r), c.pod).Fits(); fits != c.fits {
			t.Errorf("%s: %s: fits %v, want %v", c.node, c.what, fits, c.fits)
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	zone := func(name, kind, amounts string) string {
		return fmt.Sprintf(`{"name":%q,"type":%q,"resources":[%s]}`, name, kind, amounts)
	}
	some := func(name, amount string) string {
		return fmt.Sprintf(`{"name":%q,"capacity":%[2]q,"allocatable":%[2]q,"available":%[2]q}`, name, amount)
	}
	policy := func(value string) string {
		return `],"attributes":[{"name":"topologyManagerPolicy","value":"` + value + `"}`
	}
	many := ""
	for i := range topo.MaxNUMAs {
		many += zone(fmt.Sprint("node-", i), "Node", "") + ","
	}
	for _, c := range []struct{ zones, want string }{
		{"", "object has no zone"},
		{zone("foo", "Node", ""), `zone "foo": want a name of the form node-N`},
		{zone("node--1", "Node", ""), `zone "node--1"`},
		{zone("node-01", "Node", ""), `zone "node-01"`},
		{zone("node-99999", "Node", ""), `zone "node-99999"`},
		{zone("core-0", "Core", ""), `zone "core-0": type "Core"`},
		{zone("node-0", "Node", "") + "," + zone("node-0", "Node", ""), "NUMA node 0 is named twice"},
		{many + zone("node-64", "Node", ""), "65 NUMA nodes, the most is 64"},
		{zone("socket #0", "socket", ""), "no zone stands for a NUMA node"},
		{zone("node-0", "Node", some("cpu", "1")+","+some("cpu", "1")), `resource "cpu": named twice`},
		{zone("node-0", "Node", some("hugepages-1024Mi", "1Gi")+","+some("hugepages-1Gi", "1Gi")),
			`resource "hugepages-1Gi": named twice`},
		{zone("node-0", "Node", some("hugepages-big", "1Gi")), `resource "hugepages-big"`},
		{zone("node-0", "Node", some("cpu", "-1")), `resource "cpu": capacity is outside`},
		{zone("node-0", "Node", some("cpu", "5k")), "more than 4096 CPUs"},
		{zone("node-0", "Node", some("memory", "2Pi")), `resource "memory": capacity is outside`},
		{zone("node-0", "Node", some("memory", "900Ti")+","+some("hugepages-1Gi", "900Ti")), "NUMA node 0: memory of"},
		{zone("node-0", "Node", some("cpu", "1e-1000000000")),
			`zone "node-0": resource "cpu": capacity "1e-1000000000" is no amount`},
		{zone("node-0", "Node", some("cpu", "1e99")), `resource "cpu": capacity is outside`},
		{zone("node-0", "Node", some("cpu", "many")), "object does not decode"},
		{zone("node-0", "Node", some("cpu", "1")) + policy("strict"),
			`attribute topologyManagerPolicy: unknown value "strict"`},
	} {
		u := &unstructured.Unstructured{}
		text := `{"apiVersion":"topology.node.k8s.io/v1alpha2","kind":"NodeResourceTopology",` +
			`"metadata":{"name":"bad"},"zones":[` + c.zones + `]}`
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		o, err := nrt.Typed(u)
		if err != nil {
			t.Fatal(err)
		}
		_, err = nrt.Read(o.(*v1alpha2.NodeResourceTopology))
		const object = `NodeResourceTopology of node "bad": `
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), object) {
			t.Errorf("error is %v, want one with %q", err, c.want)
		}
	}
}

// A resource that cannot be read costs only itself: the rest of the node is read, and the resource is named.
func TestResourcesThatAreLeftOut(t *testing.T) {
	const good = "cpu 4 4,memory 8Gi 8Gi,x.io/nic 2 1"
	kinds := good
	for i := range topo.MaxKinds {
		kinds += fmt.Sprintf(",y.io/r%02d 0 0", i)
	}
	sum := good
	for i := range 5 {
		sum += fmt.Sprintf(",y.io/r%d 4000 4000", i)
	}
	for _, c := range []struct{ zone, omitted, why string }{
		{good + ",smarter-devices/fuse 20475 20475", "smarter-devices/fuse", "20475 devices, the most is 4096"},
		{good + ",y.io/a -1 0", "y.io/a", `zone "node-0": capacity is outside 0..1125899906842624`},
		{good + ",y.io/a 2Pi 0", "y.io/a", `zone "node-0": capacity is outside 0..1125899906842624`},
		{good + ",y.io/a 1 1,y.io/a 1 1", "y.io/a", `zone "node-0": named twice`},
		{kinds, "y.io/r63", "more than 64 resources have devices"},
		{sum, "y.io/r4", "more than 16384 devices of all resources"},
		{good + ",y.io/\u00e4 1 1", "", ""}, // Kubernetes has no such resource: no pod can request it
	} {
		r, err := nrt.Read(former(v1alpha2.SingleNUMANodePodLevel, [2]string{"node-0", "node-1"}, c.zone, good))
		if err != nil {
			t.Errorf("%s: %v", c.omitted, err)
			continue
		}
		if got := r.Omitted[c.omitted]; got != c.why {
			t.Errorf("%s is left out: %q, want %q", c.omitted, got, c.why)
		}
		if _, has := r.Machine.Resource(c.omitted); has {
			t.Errorf("%s: the machine has devices of it", c.omitted)
		}
		if c.omitted == "" && (len(r.Omitted) > 0 || len(r.Conditions) != 1) {
			t.Errorf("a name that no resource has: left out %v, conditions %q", r.Omitted, r.Conditions)
		}
		if nics, _ := r.Machine.Resource("x.io/nic"); len(nics.Devices) != 4 || usage(r).FreeCPUs().Len() != 8 {
			t.Errorf("%s: %d NICs and CPUs %s, want all that the object has", c.omitted, len(nics.Devices), usage(r).FreeCPUs())
		}
	}
}

func TestNumasOfARunningKubeletAreNeverTooMany(t *testing.T) {
	o := former(v1alpha2.SingleNUMANodePodLevel, [2]string{"node-0", "node-1"}, "cpu 4 4", "cpu 4 4")
	for i := 2; i < 36; i++ {
		o.Zones = append(o.Zones, v1alpha2.Zone{Name: fmt.Sprint("node-", i), Type: "Node"})
	}
	r, err := nrt.Read(o)
	if err != nil {
		t.Fatal(err)
	}
	pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 4000}}}
	if v := place.Place(usage(r), pod); !v.Fits() {
		t.Errorf("pod is refused on a machine with 36 NUMA nodes, 2 of them with CPUs: %v", v.Reasons)
	}
}

func TestTypedTakesEveryForm(t *testing.T) {
	first := &v1alpha1.NodeResourceTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			Annotations: map[string]string{"node.koordinator.sh/cpu-topology": "large"}},
		TopologyPolicies: []string{"BestEffortPodLevel"},
		Zones: v1alpha1.ZoneList{{Name: "node-3", Type: "Node", Costs: v1alpha1.CostList{{Name: "node-3", Value: 11}},
			Resources: v1alpha1.ResourceInfoList{{Name: "cpu", Capacity: resource.MustParse("2"),
				Allocatable: resource.MustParse("2"), Available: resource.MustParse("1")}}}},
	}
	want := ""
	for _, o := range []any{first.DeepCopy(), nrt.Upgrade(first)} {
		got, err := nrt.Typed(o)
		if err != nil {
			t.Fatal(err)
		}
		o := got.(*v1alpha2.NodeResourceTopology)
		if o.ManagedFields != nil || len(o.Annotations) > 0 {
			t.Errorf("kept managedFields %v, annotations %v", o.ManagedFields, o.Annotations)
		}
		r, err := nrt.Read(o)
		if err != nil {
			t.Fatal(err)
		}
		text := describe(r)
		if !strings.Contains(text, "topology best-effort by pod") ||
			!strings.Contains(text, "numa 3 distances [11]\n  cpu 0-1: 2 of 2, free 1\n") {
			t.Errorf("reads\n%s", text)
		}
		if want != "" && text != want {
			t.Errorf("reads\n%s\nas v1alpha1\n%s", text, want)
		}
		want = text
	}
	if _, err := nrt.Typed("no object"); err == nil {
		t.Error("a string is taken for an object")
	}
	for _, r := range nrt.Resources() {
		if r.Group != "topology.node.k8s.io" || r.Resource != "noderesourcetopologies" {
			t.Errorf("resource %v", r)
		}
	}
}

// FuzzRead checks that no object from an API server does harm, and that readings are consistent.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/read/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if data, err = yaml.YAMLToJSON(data); err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(data) != nil {
			return
		}
		o, err := nrt.Typed(u)
		if err != nil {
			t.Fatal(err)
		}
		r, err := nrt.Read(o.(*v1alpha2.NodeResourceTopology))
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		check(t, r)
	})
}

// check checks that held resources exist, each once.
func check(t *testing.T, r *nrt.Reading) {
	before := place.NewUsage(r.Machine, r.Rules)
	for _, h := range r.Held {
		if !h.CPUs.SubsetOf(before.FreeCPUs()) {
			t.Errorf("CPUs %s are held, %s can be", h.CPUs, before.FreeCPUs())
		}
		for _, b := range h.Memory {
			if b.NUMAs.Len() != 1 || b.Bytes <= 0 || b.Bytes > before.FreeMemory(b.NUMAs.First(), b.Kind) {
				t.Errorf("block %v, free %d", b, before.FreeMemory(b.NUMAs.First(), b.Kind))
			}
		}
		for _, d := range h.Devices {
			free := before.FreeDevices(d.Resource)
			for _, id := range d.IDs {
				if !slices.ContainsFunc(free, func(x topo.Device) bool { return x.ID == id }) {
					t.Errorf("device %s %s is held, and was not free", d.Resource, id)
				}
			}
		}
	}
	if r.Machine.CPUs().Len() != int(r.Machine.CPUs().Max())+1 || r.Machine.CPUs().Len() > idset.Max {
		t.Errorf("CPUs %s", r.Machine.CPUs())
	}
	for _, c := range r.Conditions {
		if len(c) > 500 || strings.ContainsAny(c, "\n\x00") {
			t.Errorf("condition %q", c)
		}
	}
}
