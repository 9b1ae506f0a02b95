package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/ops/rollout"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const machine = `
numa 0 socket 0 cpus 0-3/16-19 memory 64Gi
numa 1 socket 1 cpus 4-7/20-23 memory 64Gi
`

// bestEffort are rules that allow a pod on both NUMA nodes.
func bestEffort() place.Rules {
	return place.Rules{Topology: place.TopologyRules{Policy: place.BestEffort},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 16)}, Memory: place.MemoryRules{Static: true,
			Reserved: []place.Reserved{{NUMA: 0, Kind: topo.Memory, Bytes: 1 << 30}}}}
}

// world is nodes of one machine with the same rules.
type world struct {
	rules   place.Rules
	version string
	pods    []v1.Pod
	on      map[string][]state.Entry
	budgets []policyv1.PodDisruptionBudget
}

// run runs a pod on a node, with the holdings that the node would give it.
func (w *world) run(t *testing.T, node string, pod *v1.Pod) {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(m, w.rules)
	for _, e := range w.on[node] {
		u = u.Hold(e.Holdings...)
	}
	quantity := pod.Spec.Containers[0].Resources.Limits.Cpu().MilliValue()
	memory := pod.Spec.Containers[0].Resources.Limits.Memory().Value()
	v := place.Place(u, &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: quantity,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: memory}}}}})
	if !v.Fits() {
		t.Fatalf("pod %s does not run on %s: %v", pod.Name, node, v.Reasons)
	}
	w.pods = append(w.pods, *kubetest.Admitted(pod, node))
	if w.on == nil {
		w.on = map[string][]state.Entry{}
	}
	w.on[node] = append(w.on[node], state.Entry{Pod: kube.ID(pod), Holdings: v.Holdings})
}

func (w *world) scene(t *testing.T) *rollout.Scene {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	var layouts []v1alpha1.NodeLayout
	var nodes []v1.Node
	for _, name := range []string{"a", "b"} {
		l := v1alpha1.FromCore(name, m, w.rules, w.on[name], nil)
		l.ResourceVersion = "100"
		layouts = append(layouts, *l)
		capacity := v1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("128Gi"),
			"pods": resource.MustParse("110")}
		allocatable := capacity.DeepCopy()
		allocatable["cpu"], allocatable["memory"] = resource.MustParse("14"), resource.MustParse("127Gi")
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
			Status: v1.NodeStatus{Capacity: capacity, Allocatable: allocatable}}
		n.Status.NodeInfo.KubeletVersion = w.version
		nodes = append(nodes, n)
	}
	s, err := rollout.SceneOf(kube.ViewOf(layouts, nodes, w.pods, nil, noon), w.budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) plan(t *testing.T, selector string, change func(*place.Rules)) document.KubeletPlan {
	t.Helper()
	p, err := w.scene(t).Plan(whatif.Variation{Selector: selector, Alter: func(r place.Rules) (place.Rules, error) {
		change(&r)
		return r, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func single(r *place.Rules) { r.Topology.Policy = place.SingleNUMA }

// A pod on both NUMA nodes is refused by a strict kubelet, and goes to a node that is not strict.
func TestPodsThatWouldBeRefusedGoElsewhere(t *testing.T) {
	w := &world{rules: bestEffort(), version: "v1.36.3"}
	w.run(t, "a", kubetest.CPUs("first", 4))
	w.run(t, "a", kubetest.CPUs("wide", 10)) // on both NUMA nodes
	w.run(t, "b", kubetest.CPUs("other", 4))
	p := w.plan(t, "name=a", single)
	if len(p.Nodes) != 1 || p.Nodes[0].Name != "a" {
		t.Fatalf("nodes %+v", p.Nodes)
	}
	n := p.Nodes[0]
	if len(n.Pods) != 2 || !n.Pods[0].Starts || n.Pods[1].Starts || n.Pods[1].Error != "TopologyAffinityError" {
		t.Errorf("pods start again: %+v", n.Pods)
	}
	want := []string{"- topologyManagerPolicy: best-effort", "+ topologyManagerPolicy: single-numa-node"}
	if !slices.Equal(n.Diff, want) {
		t.Errorf("diff %v, want %v", n.Diff, want)
	}
	if len(n.StateFiles) > 0 || len(n.Errors) > 0 {
		t.Errorf("state files %v, errors %v; want none", n.StateFiles, n.Errors)
	}
	if len(p.Moves) != 1 || p.Moves[0].Name != "wide" || p.Moves[0].To != "b" || p.Moves[0].Why == "" {
		t.Errorf("moves %+v; want the wide pod to go to b", p.Moves)
	}
	both := w.plan(t, "", single)
	if len(both.Nodes) != 2 || len(both.Moves) != 1 || both.Moves[0].To != "" {
		t.Errorf("with both nodes strict the wide pod goes to %+v; want nowhere", both.Moves)
	}
}

func TestStateFilesAreThoseThatTheKubeletRefuses(t *testing.T) {
	cpus, memory := "cpu_manager_state", "memory_manager_state"
	for name, c := range map[string]struct {
		change func(*place.Rules)
		files  []string
	}{
		"policy alone":    {single, []string{}},
		"no static CPUs":  {func(r *place.Rules) { r.CPU.Static = false }, []string{cpus}},
		"no memory":       {func(r *place.Rules) { r.Memory = place.MemoryRules{} }, []string{memory}},
		"reserved CPUs":   {func(r *place.Rules) { r.CPU.Reserved = idset.Of[idset.CPU](0, 1, 16, 17) }, []string{}},
		"strict":          {func(r *place.Rules) { r.CPU.StrictReservation = true }, []string{cpus}},
		"reserved memory": {func(r *place.Rules) { r.Memory.Reserved = nil }, []string{memory}},
	} {
		w := &world{rules: bestEffort(), version: "v1.36.3"}
		if got := w.plan(t, "name=a", c.change).Nodes[0].StateFiles; !slices.Equal(got, c.files) {
			t.Errorf("%s: %v, want %v", name, got, c.files)
		}
	}
}

// A plan refuses a configuration with which a kubelet would not start.
func TestWhatAKubeletDoesNotAcceptIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		change  func(*place.Rules)
		want    string
	}{
		"no reserved CPUs": {"v1.36.3", func(r *place.Rules) { r.CPU.Reserved = idset.Set[idset.CPU]{} },
			"needs reservedSystemCPUs"},
		"a CPU that is not there": {"v1.36.3", func(r *place.Rules) { r.CPU.Reserved = idset.Of[idset.CPU](99) },
			"does not have"},
		"reservations do not add up": {"v1.36.3", func(r *place.Rules) { r.Memory.Reserved[0].Bytes = 2 << 30 },
			"must be equal"},
		"older release": {"v1.31.2", func(r *place.Rules) { r.CPU.StrictReservation = true }, "since 1.32"},
		"alpha option":  {"v1.36.3", func(r *place.Rules) { r.CPU.AlignBySocket = true }, "CPUManagerPolicyAlphaOptions"},
		"alpha then":    {"v1.33.0", func(r *place.Rules) { r.CPU.PreferAlignByUncoreCaches = true }, "AlphaOptions"},
		"options exclude each other": {"v1.36.3", func(r *place.Rules) {
			r.CPU.DistributeAcrossNUMA, r.CPU.PreferAlignByUncoreCaches = true, true
		}, "exclude each other"},
	} {
		w := &world{rules: bestEffort(), version: c.version}
		w.rules.Memory.Reserved = slices.Clone(w.rules.Memory.Reserved)
		got := w.plan(t, "name=a", func(r *place.Rules) {
			r.Memory.Reserved = slices.Clone(r.Memory.Reserved)
			c.change(r)
		}).Nodes[0].Errors
		if !strings.Contains(strings.Join(got, "\n"), c.want) {
			t.Errorf("%s: errors %q, want one with %q", name, got, c.want)
		}
	}
}

// Under full-pcpus-only, reserving one thread of a core loses the other thread. The plan warns of it.
func TestLostHalvesOfCoresAreWarnedOf(t *testing.T) {
	for reserved, want := range map[idset.CPU]string{0: "1 CPU (16) is on a core with reserved ones", 16: ""} {
		w := &world{rules: bestEffort(), version: "v1.36.3"}
		n := w.plan(t, "name=a", func(r *place.Rules) {
			r.CPU.FullPCPUsOnly, r.CPU.Reserved = true, idset.Of(0, reserved)
		}).Nodes[0]
		if text := strings.Join(n.Warnings, "\n"); !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("with 0 and %d reserved: warnings %q, want %q", reserved, text, want)
		}
	}
}

// Nodes that cannot be drained come last, and so do nodes whose pods find no place meanwhile.
func TestNodesAreChangedInAnOrderThatHarmsNobody(t *testing.T) {
	w := &world{rules: bestEffort(), version: "v1.36.3"}
	guarded := kubetest.CPUs("guarded", 4)
	guarded.Labels = map[string]string{"app": "db"}
	w.run(t, "a", guarded)
	w.run(t, "b", kubetest.CPUs("b-1", 6))
	w.run(t, "b", kubetest.CPUs("b-2", 6))
	w.budgets = []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}}
	p := w.plan(t, "", single)
	if p.Nodes[0].Name != "b" || p.Nodes[0].Waiting != 1 || p.Nodes[0].Evicted != 2 {
		t.Errorf("first is %+v; want b, with one of two pods without a place meanwhile", p.Nodes[0])
	}
	if n := p.Nodes[1]; !slices.Equal(n.Blocked, []string{"default/db"}) {
		t.Errorf("node a is blocked by %v, want default/db", n.Blocked)
	}
	w.budgets[0].Status.DisruptionsAllowed = 1
	if p = w.plan(t, "", single); p.Nodes[0].Name != "a" || len(p.Nodes[0].Blocked) > 0 {
		t.Errorf("with evictions allowed, first is %+v; want a", p.Nodes[0])
	}
}

// The drop-in file disables options that earlier files enabled.
func TestTheDropInFileMakesTheChange(t *testing.T) {
	w := &world{rules: bestEffort(), version: "v1.36.3"}
	w.rules.CPU.FullPCPUsOnly = true
	n := w.plan(t, "name=a", func(r *place.Rules) {
		r.CPU.FullPCPUsOnly, r.CPU.StrictReservation = false, true
		r.CPU.Reserved = idset.Of[idset.CPU](0, 1)
	}).Nodes[0]
	var got struct {
		APIVersion              string             `json:"apiVersion"`
		Kind                    string             `json:"kind"`
		ReservedSystemCPUs      string             `json:"reservedSystemCPUs"`
		CPUManagerPolicyOptions map[string]*string `json:"cpuManagerPolicyOptions"`
	}
	if err := yaml.UnmarshalStrict([]byte(n.DropIn), &got); err != nil {
		t.Fatalf("the drop-in file has something else: %v\n%s", err, n.DropIn)
	}
	off, named := got.CPUManagerPolicyOptions["full-pcpus-only"]
	on := got.CPUManagerPolicyOptions["strict-cpu-reservation"]
	if got.Kind != "KubeletConfiguration" || got.ReservedSystemCPUs != "0-1" || !named || off != nil ||
		on == nil || *on != "true" {
		t.Errorf("drop-in file:\n%s", n.DropIn)
	}
}

// Two reservations that are written as the same text are different configurations. The drop-in has the amount of the
// second one to the byte.
func TestADropInHasExactAmounts(t *testing.T) {
	for _, bytes := range []int64{10050 << 20, 1329<<20 + 5000, 1<<30 + 1, 1536 << 20} {
		w := &world{rules: bestEffort(), version: "v1.37.2"}
		w.rules.Memory.Reserved[0].Bytes = bytes - 20<<10 // the texts stay the same: "9.8Gi", "1.3Gi", ...
		n := w.plan(t, "name=a", func(r *place.Rules) {
			r.Memory.Reserved = []place.Reserved{{NUMA: 0, Kind: topo.Memory, Bytes: bytes - 4096},
				{NUMA: 1, Kind: topo.Memory, Bytes: 4096}}
		}).Nodes[0]
		var got struct {
			ReservedMemory []struct {
				NUMANode int             `json:"numaNode"`
				Limits   v1.ResourceList `json:"limits"`
			} `json:"reservedMemory"`
		}
		if err := yaml.Unmarshal([]byte(n.DropIn), &got); err != nil {
			t.Fatal(err)
		}
		sum := resource.Quantity{}
		for _, x := range got.ReservedMemory {
			sum.Add(x.Limits[v1.ResourceMemory])
		}
		if sum.CmpInt64(bytes) != 0 || len(got.ReservedMemory) != 2 {
			t.Errorf("%d bytes: the drop-in reserves %s:\n%s", bytes, sum.AsDec(), n.DropIn)
		}
	}
}

func TestAPlanSaysHowManyPodsFitAfterwards(t *testing.T) {
	w := &world{rules: bestEffort(), version: "v1.36.3"}
	w.run(t, "a", kubetest.CPUs("usual", 5))
	p := w.plan(t, "name=a", single)
	if len(p.Shapes) != 1 || p.Shapes[0].Before != 2 || p.Shapes[0].After != 2 {
		t.Errorf("shapes %+v", p.Shapes)
	}
	p = w.plan(t, "name=a", func(r *place.Rules) { r.CPU.Reserved = idset.Of[idset.CPU](0, 1, 16, 17, 4, 5, 20, 21) })
	if p.Shapes[0].After != 1 {
		t.Errorf("with half of the CPUs reserved: %+v; want room for 1", p.Shapes)
	}
}
