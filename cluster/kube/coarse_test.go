package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// topologyOf returns the object of a node of two NUMA nodes with 8 CPUs and 16Gi each, under single-numa-node by
// container; free has the number of free CPUs of each.
func topologyOf(node string, version int, free ...int64) *v1alpha2.NodeResourceTopology {
	o := &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: node, ResourceVersion: fmt.Sprint(version)},
		Attributes: v1alpha2.AttributeList{{Name: "topologyManagerPolicy", Value: "single-numa-node"},
			{Name: "topologyManagerScope", Value: "container"}}}
	for i, n := range free {
		o.Zones = append(o.Zones, zoneOf(fmt.Sprintf("node-%d", i), n))
	}
	return o
}

func zoneOf(name string, free int64) v1alpha2.Zone {
	number := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
	return v1alpha2.Zone{Name: name, Type: "Node", Resources: v1alpha2.ResourceInfoList{
		{Name: "cpu", Capacity: number(8), Allocatable: number(8), Available: number(free)}}}
}

// signed adds a fingerprint of all pods of the node.
func signed(o *v1alpha2.NodeResourceTopology, pods ...string) *v1alpha2.NodeResourceTopology {
	fp := podfingerprint.NewFingerprint(len(pods))
	for _, p := range pods {
		_ = fp.Add("default", p)
	}
	o.Attributes = append(o.Attributes, v1alpha2.AttributeInfo{Name: podfingerprint.Attribute, Value: fp.Sign()},
		v1alpha2.AttributeInfo{Name: podfingerprint.AttributeMethod, Value: podfingerprint.MethodAll})
	return o
}

// amounts returns how many CPUs each NUMA node of a node has free in all states, and which pods hold how many.
func amounts(b *ledger.Book, node string) string {
	n := b.Snapshot().Node(node)
	if n == nil {
		return "unknown"
	}
	out := []string{n.Quality.String(), "free"}
	for _, numa := range n.Machine.NUMAs() {
		out = append(out, fmt.Sprint(numa.CPUs.AndLen(n.Usage.FreeCPUs())))
	}
	for _, e := range n.Entries {
		cpus := 0
		for _, h := range e.Holdings {
			cpus += h.CPUs.Len()
		}
		name := e.Pod.Name
		if name == "" {
			name = "somebody"
		}
		out = append(out, fmt.Sprintf("%s=%d(%s)", name, cpus, [...]string{"predicted", "observed", "counted"}[e.Source]))
	}
	if n.Unsettled {
		out = append(out, "unsettled")
	}
	return strings.Join(out, " ")
}

func wantAmounts(t *testing.T, b *ledger.Book, node, want string) {
	t.Helper()
	if got := amounts(b, node); got != want {
		t.Errorf("node %s: %q, want %q", node, got, want)
	}
}

// start returns the pod as its kubelet reports it after admission.
func start(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Status.StartTime = &metav1.Time{Time: noon}
	return p
}

func cpus(name string, n int) *v1.Pod {
	return bind(podtest.Pod(name, podtest.Exact("c", fmt.Sprintf("cpu=%d memory=1Gi", n))), "n", noon)
}

func web(name string) *v1.Pod {
	return bind(podtest.Pod(name, podtest.Box("c", "cpu=500m", "")), "n", noon)
}

// A valid layout takes precedence over the NodeResourceTopology. When the layout is deleted, the other is used at once,
// without another event.
func TestALayoutTakesPrecedenceOverATopology(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Topology(topologyOf("n", 1, 8, 5))
	wantAmounts(t, book, "n", "coarse free 8 5 somebody=3(counted)")
	f.Layout(layoutOf(t, "n", 2))
	wantAmounts(t, book, "n", "exact free 7 7")
	f.Topology(topologyOf("n", 3, 4, 4))
	wantAmounts(t, book, "n", "exact free 7 7")
	f.Layout(broken(t, "n", 4))
	wantAmounts(t, book, "n", "coarse free 4 4 somebody=8(counted)")
	if f.Problem("n") == "" {
		t.Error("nobody says why the layout does not count")
	}
	f.Layout(layoutOf(t, "n", 5))
	wantAmounts(t, book, "n", "exact free 7 7")
	f.LayoutGone(layoutOf(t, "n", 6))
	wantAmounts(t, book, "n", "coarse free 4 4 somebody=8(counted)")
	f.TopologyGone(topologyOf("n", 7))
	wantAmounts(t, book, "n", "unknown")
}

// The data of a topology that Tenon's agent wrote are asked for when the node has no valid layout, and only then. Only
// an object of the version that arrived last takes its place, so that no deletion is missed.
func TestTheAgentsTopologyIsReadWhenItIsNeeded(t *testing.T) {
	book, asked := ledger.New(), 0
	f := NewFeed(book, nil, nil)
	f.OnLeftOut(func(string) { asked++ })
	wantAsked := func(want int, when string) {
		t.Helper()
		if asked != want {
			t.Errorf("%s: asked %d times, want %d", when, asked, want)
		}
	}
	f.Layout(layoutOf(t, "n", 1))
	f.Topology(agents(t, topologyOf("n", 2, 8, 5)))
	f.Topology(agents(t, topologyOf("bare", 2, 8, 5)))
	if got := fmt.Sprint(f.LeftOut()); got != "[bare]" {
		t.Errorf("the topologies of %s are needed", got)
	}
	if !f.Complete(topologyOf("bare", 2, 8, 5)) {
		t.Error("a topology that was read before Begin is not used")
	}
	f.Begin()
	wantAmounts(t, book, "bare", "coarse free 8 5 somebody=3(counted)")
	wantAsked(0, "with a layout")
	f.Layout(broken(t, "n", 3))
	wantAsked(1, "without a layout")
	wantAmounts(t, book, "n", "exact free 7 7")
	f.Unreadable("n")
	wantAmounts(t, book, "n", "unknown")
	f.Topology(agents(t, topologyOf("n", 2, 8, 5)))
	wantAsked(1, "the same object again")
	complete := func(want bool, o *v1alpha2.NodeResourceTopology) {
		t.Helper()
		if used := f.Complete(o); used != want {
			t.Errorf("version %s is used: %v", o.ResourceVersion, used)
		}
	}
	complete(true, topologyOf("n", 2, 8, 5))
	wantAmounts(t, book, "n", "coarse free 8 5 somebody=3(counted)")
	f.Topology(agents(t, topologyOf("n", 2, 8, 5)))
	wantAmounts(t, book, "n", "coarse free 8 5 somebody=3(counted)")
	f.Topology(agents(t, topologyOf("n", 4, 4, 4)))
	wantAsked(2, "a later object")
	wantAmounts(t, book, "n", "coarse free 8 5 somebody=3(counted)")
	complete(false, topologyOf("n", 5, 4, 4)) // it will arrive, too
	wantAmounts(t, book, "n", "coarse free 8 5 somebody=3(counted)")
	complete(true, topologyOf("n", 4, 4, 4))
	complete(false, topologyOf("n", 4, 1, 1))
	wantAmounts(t, book, "n", "coarse free 4 4 somebody=8(counted)")
	f.Layout(layoutOf(t, "n", 6))
	f.Topology(agents(t, topologyOf("n", 7, 1, 1)))
	wantAmounts(t, book, "n", "exact free 7 7")
	wantAsked(2, "with a layout again")
	f.Unreadable("n")
	wantAmounts(t, book, "n", "exact free 7 7")
	f.LayoutGone(layoutOf(t, "n", 8))
	wantAmounts(t, book, "n", "exact free 7 7")
	wantAsked(3, "after the layout")
	f.TopologyGone(topologyOf("n", 9))
	complete(false, topologyOf("n", 7, 1, 1))
	wantAmounts(t, book, "n", "unknown")
}

// agents returns an object as a scheduler receives it if Tenon's agent wrote it.
func agents(t *testing.T, o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	t.Helper()
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: client.FieldManager}}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := nrt.TypedOthers(&unstructured.Unstructured{Object: fields})
	if err != nil {
		t.Fatal(err)
	}
	return out.(*v1alpha2.NodeResourceTopology)
}

// A pod in a layout is not lost when only amounts are left: a pod that the amounts are too old to contain stays
// charged.
func TestAPodThatOldAmountsLackStaysCharged(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Topology(signed(topologyOf("n", 1, 8, 8)))
	f.Layout(layoutOf(t, "n", 2))
	f.Pod(start(cpus("p", 4)))
	f.Layout(layoutOf(t, "n", 3, book.Snapshot().Node("n").Entries...))
	wantAmounts(t, book, "n", "exact free 3 7 p=4(observed)")
	f.LayoutGone(layoutOf(t, "n", 4))
	if got := amounts(book, "n"); !strings.HasPrefix(got, "coarse free 4 8 p=4(predicted)") {
		t.Errorf("node n: %q", got)
	}
	f.Topology(signed(topologyOf("n", 5, 4, 8), "p"))
	wantAmounts(t, book, "n", "coarse free 4 8 somebody=4(counted)")
}

func TestOldVersionsOfATopologyChangeNothing(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Topology(topologyOf("n", 10, 8, 5))
	f.Topology(topologyOf("n", 9, 8, 8))
	f.Topology(topologyOf("n", 10, 8, 8))
	f.Topologies().OnDelete(topologyOf("n", 9))
	wantAmounts(t, book, "n", "coarse free 8 5 somebody=3(counted)")
	f.Topologies().OnDelete(topologyOf("n", 11))
	wantAmounts(t, book, "n", "unknown")
	f.Topologies().OnUpdate(nil, topologyOf("n", 10, 8, 5)) // a late hint
	wantAmounts(t, book, "n", "unknown")
	f.Topologies().OnAdd(topologyOf("n", 12, 8, 8), false)
	wantAmounts(t, book, "n", "coarse free 8 8")
}

// NUMA nodes appear and disappear under any ids, and an unreadable report affects only its own node.
func TestATopologyMayChangeItsNUMANodes(t *testing.T) {
	book := ledger.New()
	f := NewFeed(book, nil, nil)
	var told []string
	f.OnRefusedTopology(func(node string, err error) { told = append(told, err.Error()) })
	f.Begin()
	f.Topology(topologyOf("other", 1, 8))
	sparse := topologyOf("n", 2)
	sparse.Zones = v1alpha2.ZoneList{zoneOf("node-0", 8), zoneOf("node-8", 3)}
	f.Topology(sparse)
	wantAmounts(t, book, "n", "coarse free 8 3 somebody=5(counted)")
	f.Pod(cpus("p", 4))
	wantAmounts(t, book, "n", "coarse free 4 3 somebody=5(counted) p=4(predicted)")
	high := topologyOf("n", 3)
	high.Zones = v1alpha2.ZoneList{zoneOf("node-46", 8), zoneOf("node-50", 4)}
	high.Attributes[0].Value = "restricted"
	f.Topology(high)
	wantAmounts(t, book, "n", "coarse free 4 4 somebody=4(counted) p=4(predicted)")
	if got := book.Snapshot().Node("n").Rules.Topology.Policy; got != place.Restricted {
		t.Errorf("policy %v", got)
	}
	for version, spoil := range []func(*v1alpha2.NodeResourceTopology){
		func(o *v1alpha2.NodeResourceTopology) { o.Zones = nil },
		func(o *v1alpha2.NodeResourceTopology) { o.Zones = nil },
		func(o *v1alpha2.NodeResourceTopology) { o.Zones[1].Name = "node-0" },
	} {
		bad := topologyOf("n", 4+version, 8, 8)
		spoil(bad)
		f.Topology(bad)
		wantAmounts(t, book, "n", "unknown")
	}
	want := []string{`NodeResourceTopology of node "n": object has no zone`,
		`NodeResourceTopology of node "n": zone "node-0": NUMA node 0 is named twice`}
	if !slices.Equal(told, want) || f.TopologyProblem("n") != want[1] {
		t.Errorf("told %q, problem %q, want %q", told, f.TopologyProblem("n"), want)
	}
	wantAmounts(t, book, "other", "coarse free 8")
	f.Topology(topologyOf("n", 9, 8, 8))
	if f.TopologyProblem("n") != "" {
		t.Errorf("problem of the mended object: %q", f.TopologyProblem("n"))
	}
	if got := amounts(book, "n"); !strings.HasPrefix(got, "coarse free 4 8 p=4(predicted)") {
		t.Errorf("node n: %q", got)
	}
}

// At the start the pods come first, whatever order the informers deliver in. The amounts contain running pods. They do
// not contain a pod that its kubelet has not started yet, unless the fingerprint does.
func TestAtTheStartPodsGoBeforeReadings(t *testing.T) {
	for name, c := range map[string]struct {
		object *v1alpha2.NodeResourceTopology
		want   string
	}{
		"no fingerprint": {
			topologyOf("n", 1, 4, 8),
			"coarse free 0 8 somebody=4(counted) next=4(predicted) unsettled",
		},
		"a fingerprint of one pod": {
			signed(topologyOf("n", 1, 4, 8), "runs", "web"),
			"coarse free 0 8 somebody=4(counted) next=4(predicted) unsettled",
		},
		"a fingerprint of both": {
			signed(topologyOf("n", 1, 0, 8), "runs", "web", "next"),
			"coarse free 0 8 somebody=8(counted)",
		},
	} {
		book := ledger.New()
		f := NewFeed(book, nil, nil)
		f.Topology(c.object)
		f.Pod(start(cpus("runs", 4)))
		f.Pod(start(web("web")))
		f.Pod(cpus("next", 4))
		wantAmounts(t, book, "n", "unknown")
		f.Begin()
		if got := amounts(book, "n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A fingerprint shows which pods the amounts contain when amounts alone do not: the two pods are of one shape.
func TestAFingerprintShowsWhichPodsAreCounted(t *testing.T) {
	book := ledger.New()
	var told []string
	f := NewFeed(book, func(o state.Outcome) { told = append(told, o.Pod.Name+" "+string(o.Result)) }, nil)
	f.Begin()
	f.Topology(signed(topologyOf("n", 1, 8, 8)))
	f.Pod(start(cpus("a", 4)))
	f.Pod(start(web("w")))
	f.Pod(start(cpus("b", 4)))
	wantAmounts(t, book, "n", "coarse free 0 8 a=4(predicted) b=4(predicted)")
	f.Topology(signed(topologyOf("n", 2, 4, 8), "a", "w"))
	wantAmounts(t, book, "n", "coarse free 0 8 a=4(counted) b=4(predicted)")
	f.PodGone(start(cpus("a", 4)))
	wantAmounts(t, book, "n", "coarse free 4 8 b=4(predicted)")
	f.Topology(signed(topologyOf("n", 3, 0, 8), "a", "b", "w")) // the exporter has not seen the end of a
	wantAmounts(t, book, "n", "coarse free 4 8 b=4(counted)")
	f.Topology(signed(topologyOf("n", 4, 4, 8), "b", "w"))
	wantAmounts(t, book, "n", "coarse free 4 8 b=4(counted)")
	if want := []string{"a confirmed", "b confirmed"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// With the method that contains only pods with exclusive resources, other pods do not matter.
func TestPodsThatHoldNothingAreInNoFingerprintOfTheirMethod(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	exclusively := func(o *v1alpha2.NodeResourceTopology, pods ...string) *v1alpha2.NodeResourceTopology {
		o = signed(o, pods...)
		o.Attributes[len(o.Attributes)-1].Value = podfingerprint.MethodWithExclusiveResources
		return o
	}
	f.Topology(exclusively(topologyOf("n", 1, 8, 8)))
	for i := range 3 * maxUncertain {
		f.Pod(start(web(fmt.Sprint("w", i))))
	}
	f.Pod(start(cpus("a", 4)))
	f.Pod(start(cpus("b", 4)))
	f.Topology(exclusively(topologyOf("n", 2, 4, 8), "a"))
	wantAmounts(t, book, "n", "coarse free 0 8 a=4(counted) b=4(predicted)")
}

// A pod was created again under its name between two readings. The fingerprint cannot distinguish the two, but what is
// free is right.
func TestAPodCreatedAgainUnderItsName(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Topology(signed(topologyOf("n", 1, 8, 8)))
	f.Pod(start(cpus("web-0", 6)))
	f.Topology(signed(topologyOf("n", 2, 2, 8), "web-0"))
	f.PodGone(start(cpus("web-0", 6)))
	anew := cpus("web-0", 6)
	anew.UID = types.UID("uid-anew")
	f.Pod(start(anew))
	wantAmounts(t, book, "n", "coarse free 2 8 web-0=6(predicted)")
	f.Topology(signed(topologyOf("n", 3, 2, 8), "web-0"))
	if got := book.Snapshot().Node("n").Usage.FreeCPUs().Len(); got != 10 {
		t.Errorf("%d CPUs are free, want 10: %s", got, amounts(book, "n"))
	}
}

// The search for an exporter's fingerprints ends if they never match the present pods, and its amounts count.
func TestFingerprintsThatNeverMatch(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	for i := range 4 * maxUncertain {
		f.Pod(start(web(fmt.Sprint("w", i))))
	}
	for version := range 2 * maxMisses {
		f.Topology(signed(topologyOf("n", 1+version, 8, 8), "a-pod-that-nobody-knows"))
	}
	f.Pod(start(cpus("p", 4)))
	f.Topology(signed(topologyOf("n", 50, 4, 8), "p"))
	wantAmounts(t, book, "n", "coarse free 4 8 p=4(counted)")
	if c := f.coarse["n"]; c.misses != maxMisses {
		t.Errorf("%d misses in a row", c.misses)
	}
	names := []string{"p"}
	for i := range 4 * maxUncertain {
		names = append(names, fmt.Sprint("w", i))
	}
	f.Topology(signed(topologyOf("n", 51, 4, 8), names...))
	if c := f.coarse["n"]; c.misses != 0 {
		t.Error("the exporter has come to its senses, and nobody notices")
	}
}

// The last known state of a deleted pod may be older than its binding.
func TestADeletedPodWithoutANodeIsReleased(t *testing.T) {
	book := ledger.New()
	f := NewFeed(book, nil, nil)
	f.Pod(cpus("p", 4))
	f.PodGone(podtest.Pod("p", podtest.Exact("c", "cpu=4 memory=1Gi")))
	f.Topology(topologyOf("n", 1, 8, 8))
	f.Begin()
	wantAmounts(t, book, "n", "coarse free 8 8")
}

// A resource with more devices than a machine can have costs only itself. The node is inexact because of it, and a
// fingerprint of pods with exclusive resources still contains the pods that hold such devices.
func TestAResourceThatIsLeftOut(t *testing.T) {
	const name = "smarter-devices/fuse"
	book := ledger.New()
	f := begun(book)
	p := cpus("p", 0)
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Limits:   v1.ResourceList{name: resource.MustParse("1")},
		Requests: v1.ResourceList{name: resource.MustParse("1")}}
	p.Spec.NodeName = "n"
	f.Pod(p)
	o := signed(topologyOf("n", 1, 8, 3), "p")
	for i, a := range o.Attributes {
		if a.Name == podfingerprint.AttributeMethod {
			o.Attributes[i].Value = podfingerprint.MethodWithExclusiveResources
		}
	}
	many := *resource.NewQuantity(20475, resource.DecimalSI)
	o.Zones[0].Resources = append(o.Zones[0].Resources,
		v1alpha2.ResourceInfo{Name: name, Capacity: many, Allocatable: many, Available: many})
	f.Topology(o)
	n := book.Snapshot().Node("n")
	if n == nil {
		t.Fatalf("nothing is known of the node: %s", f.TopologyProblem("n"))
	}
	want := []state.Inexact{{Code: state.DevicesOmitted,
		Message: "resource " + name + " is left out: 20475 devices, the most is 4096"}}
	if !slices.Equal(n.Inexact, want) {
		t.Errorf("inexact is %v, want %v", n.Inexact, want)
	}
	if c := f.coarse["n"]; !c.accounted {
		t.Error("the fingerprint's pods are not found")
	}
	if got := n.Usage.FreeCPUs().Len(); got != 11 {
		t.Errorf("%d CPUs are free, want 11", got)
	}
}
