package stage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/node/nrt"
)

func node(name string, change func(*v1.Node)) v1.Node {
	n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"),
		"pods": resource.MustParse("110")}
	if change != nil {
		change(&n)
	}
	return n
}

func running(name, on, cpu string, change func(*v1.Pod)) v1.Pod {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.NodeName = on
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	p.Status.Phase = v1.PodRunning
	if change != nil {
		change(&p)
	}
	return p
}

func made(t testing.TB, nodes []v1.Node, pods ...v1.Pod) *Stage {
	t.Helper()
	s, err := assemble(nodes, nil, kube.StoreAll(pods), &Requests{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns the workload of one object.
func read(t testing.TB, s *Stage, text string) *whatif.Workload {
	t.Helper()
	all, _, err := s.Workloads([]byte(text), "default")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d workloads, want 1", len(all))
	}
	return all[0]
}

func pod(spec string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]` + spec +
		`}}`
}

func texts(all []place.Reason) string {
	var out []string
	for _, r := range all {
		out = append(out, r.Text())
	}
	return strings.Join(out, "; ")
}

func TestWherePodsMayNotGo(t *testing.T) {
	s := made(t, []v1.Node{
		node("plain", nil),
		node("cordoned", func(n *v1.Node) { n.Spec.Unschedulable = true }),
		node("gpu", func(n *v1.Node) {
			n.Labels["kind"] = "gpu"
			n.Spec.Taints = []v1.Taint{{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule},
				{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}}
		}),
		node("lost", func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}}
		}),
	})
	const all, taint, cordon = "", "pod does not tolerate the taint gpu=yes:NoSchedule", "node is cordoned"
	const affinity, selector = "node does not match the pod's required node affinity",
		"node has no label kind=gpu, which the pod's node selector wants"
	const other = "pod names another node (plain)"
	const unreachable = "pod does not tolerate the taint node.kubernetes.io/unreachable:NoExecute"
	// In order of names: cordoned, gpu, lost, plain.
	for text, want := range map[string][4]string{
		pod(""): {cordon, taint, unreachable, all},
		pod(`, "tolerations": [{"key": "gpu", "operator": "Exists"}]`): {cordon, all, unreachable, all},
		pod(`, "tolerations": [{"operator": "Exists"}]`):               {all, all, all, all},
		pod(`, "tolerations": [{"operator": "Exists"}], "nodeSelector": {"kind": "gpu"}`): {selector, all,
			selector, selector},
		pod(`, "tolerations": [{"operator": "Exists"}], "nodeName": "plain"`): {other, other, other, all},
		pod(`, "nodeName": "plain", "nodeSelector": {"kind": "gpu"}`): {other + "; " + cordon + "; " + selector,
			other + "; " + taint, other + "; " + unreachable + "; " + selector, selector},
		pod(`, "hostNetwork": true, "tolerations": [{"operator": "Exists"}]`): {all, all, all, all},
		pod(
			`, "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kind", "operator": "DoesNotExist"}]}]}}}`): {all, affinity, all, all},
		`{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}`: {all, taint, all, all},
	} {
		var got []string
		for _, why := range read(t, s, text).Want.Bars.Why {
			got = append(got, texts(why))
		}
		if !slices.Equal(got, want[:]) {
			t.Errorf("%s\nis barred %q\nwant %q", text, got, want)
		}
	}
	if a, b := read(t, s, pod("")), read(t, s, pod(`, "priority": 3`)); a.Want.Bars != b.Want.Bars {
		t.Error("pods with the same wishes do not share where they are barred")
	}
}

func TestWhatIsLeftOfNodes(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil), node("b", nil)},
		running("p", "a", "1500m", nil), running("q", "a", "2", nil),
		running("done", "a", "2", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
		running("waits", "", "2", nil))
	a, b := s.Nodes()[0], s.Nodes()[1]
	if a.Left("cpu") != 4500 || a.Left("pods") != 108 || b.Left("cpu") != 8000 || b.Left("memory") != 16<<30 ||
		b.State != nil {
		t.Errorf("left of a: %d cpu, %d pods; of b: %d cpu, %d memory", a.Left("cpu"), a.Left("pods"), b.Left("cpu"),
			b.Left("memory"))
	}
	if s.Waiting() != 1 {
		t.Errorf("%d pods wait, want 1", s.Waiting())
	}
	w, err := s.Like("ml", "p")
	if err != nil || w.Want.Needs["cpu"] != 1500 || w.Want.Needs["pods"] != 1 || w.Count != 1 {
		t.Errorf("one more of p: %+v, %v", w, err)
	}
	_, err = s.Like("ml", "nobody")
	if err == nil || !strings.HasPrefix(err.Error(), "pod ml/nobody is not there; there are done, p") {
		t.Errorf("one more of nobody: error %v", err)
	}
}

// Expanding 1e2000000000 to digits takes practically forever.
func TestPodsWithWildAmountsAreNamedAndHarmNoOthers(t *testing.T) {
	wild := running("wild", "", "1e2000000000", nil)
	s := made(t, []v1.Node{node("n", nil), node("liar", func(n *v1.Node) {
		n.Status.Allocatable["cpu"] = resource.MustParse("1e2000000000")
	})}, wild, running("bound", "n", "1e2000000000", func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0], running("x", "", "0e2000000000",
			nil).Spec.Containers[0])
	}), running("small", "n", "1", nil))
	if _, err := s.Like("ml", "wild"); err == nil ||
		!strings.Contains(err.Error(), "cpu: quantity 9223372036854775807 is outside") {
		t.Errorf("one more of a pod that asks for 1e2000000000 CPUs: %v", err)
	}
	if _, err := s.Like("ml", "small"); err != nil {
		t.Errorf("one more of a pod beside it: %v", err)
	}
	if got := s.Nodes()[1].Used["cpu"]; got != whatif.MaxAmount {
		t.Errorf("the node of such a pod has %d millicpu in use, want the bound", got)
	}
}

// Pods leave in the order in which the scheduler would take them. Pods of DaemonSets and static pods stay.
func TestPodsThatLoseTheirNode(t *testing.T) {
	at := func(minute int, priority int32) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
			p.Spec.Priority = &priority
		}
	}
	yes := true
	s := made(t, []v1.Node{node("a", nil), node("b", nil)},
		running("late", "a", "1", at(3, 0)), running("early", "a", "1", at(1, 0)), running("important", "a", "1", at(9, 100)),
		running("elsewhere", "b", "1", nil),
		running("odd", "a", "1", func(p *v1.Pod) {
			at(9, 0)(p)
			p.Annotations = map[string]string{
				"tenon.sh/numa-policy": "sometimes"}
		}),
		running("daemon", "a", "1", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
		}),
		running("static", "a", "1", func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }))
	moved, stay, err := s.On("a")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range moved {
		names = append(names, w.Name)
	}
	if want := []string{"important", "early", "late", "odd"}; !slices.Equal(names, want) || stay != 2 {
		t.Errorf("moved %v, %d stay; want %v, 2", names, stay, want)
	}
	if why := texts(moved[3].Want.Bars.Why[1]); !strings.Contains(why, `unknown value "sometimes"`) {
		t.Errorf("a pod that no scheduler takes may go to b, or not because of %q", why)
	}
	if _, _, err := s.On("c"); err == nil {
		t.Error("the pods of a node that is not there are known")
	}
}

func TestWhatIsNotJudgedIsNamed(t *testing.T) {
	labelled, bareStage := made(t, []v1.Node{node("a", nil)}), &Stage{bars: map[string]*whatif.Bars{}}
	for spec, want := range map[string]string{
		"":                             "",
		`, "nodeSelector": {"a": "b"}`: "",
		`, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": ["hash"]}]`:      "label hash, which a controller gives to pods",
		`, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "namespaceSelector": {"matchLabels": {"a": "b"}}}]}}`: "pod anti-affinity by labels of namespaces",
		`, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}]`:                                                        "volumes",
		`, "volumes": [{"name": "w", "emptyDir": {}}]`:                  "",
		`, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]`: "resource claims",
		`, "schedulingGates": [{"name": "g"}]`:                          "scheduling gates",
	} {
		if got := strings.Join(read(t, labelled, pod(spec)).Unjudged, ", "); got != want {
			t.Errorf("%s: %q is not judged, want %q", spec, got, want)
		}
	}
	if got := read(t, bareStage, pod(`, "nodeSelector": {"a": "b"}`)).Unjudged; len(got) != 1 ||
		!strings.HasPrefix(got[0], "node selector") {
		t.Errorf("without labels: %q is not judged", got)
	}
	spread := pod(`, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]`)
	if got := read(t, bareStage, spread).Unjudged; len(got) != 1 || !strings.HasPrefix(got[0], "topology spread by z") {
		t.Errorf("without labels: %q is not judged", got)
	}
	vague := made(t, []v1.Node{node("a", nil)}, running("p", "a", "1", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "z",
				LabelSelector:     &metav1.LabelSelector{},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}}
	}))
	want := []string{"anti-affinity of pod ml/p by labels of namespaces"}
	if got := read(t, vague, pod("")).Unjudged; !slices.Equal(got, want) {
		t.Errorf("beside a pod that excludes others by labels of namespaces: %q is not judged", got)
	}
}

func TestBadWorkloadsAreNamed(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)})
	for text, want := range map[string]string{
		strings.Replace(pod(""), `{"name": "c", "image": "i"}`, `{"name": "c", "image": "i", "resources": {"limits": {"cpu": "9P"}}}`,
			1): "quantity 9P is outside",
		strings.Replace(pod(""), `{"name": "c", "image": "i"}`, `{"name": "c", "image": "i", "resources": {"limits": {"ephemeral-storage": "9P"}}}`,
			1): "ephemeral-storage: 9P is more than any node has",
	} {
		if _, _, err := s.Workloads([]byte(text), "default"); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "Pod default/x: ") {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// layout returns the object of a node with two NUMA nodes of eight CPUs, one of them held by a pod.
func layout(t testing.TB, name string) *v1alpha1.NodeLayout {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 8Gi\nnuma 1 socket 1 cpus 8-15 memory 8Gi\n" +
		"device acme.com/nic n0 numa 0\n")
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true,
		Reserved: m.CoreCPUs(0)}}
	v := place.Place(place.NewUsage(m, r), &place.Pod{QoS: place.Guaranteed,
		Containers: []place.Container{{Name: "c", MilliCPU: 8000}}})
	return v1alpha1.FromCore(name, m, r, []state.Entry{
		{Pod: state.PodID{UID: "uid-holder", Namespace: "ml", Name: "holder"}, Source: state.Observed,
			Holdings: v.Holdings}}, nil)
}

func exported(t testing.TB, objects ...any) []byte {
	t.Helper()
	var items []json.RawMessage
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, text)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func withKind(n v1.Node) v1.Node {
	n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	return n
}

func TestExportedClusters(t *testing.T) {
	l := layout(t, "a")
	l.TypeMeta = metav1.TypeMeta{APIVersion: "tenon.sh/v1alpha1", Kind: "NodeLayout"}
	refused := layout(t, "c")
	refused.TypeMeta, refused.Rules.CPUManagerPolicy = l.TypeMeta, "odd"
	p := running("holder", "a", "8", nil)
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	other := running("other", "a", "2", nil)
	other.TypeMeta = p.TypeMeta
	for name, c := range map[string]struct {
		objects []any
		nodes   int
		cpu     int64 // left of a
		known   bool
		why     string
	}{
		"layouts":          {[]any{l}, 1, 7000, true, ""},
		"layouts and pods": {[]any{l, p, other}, 1, 5000, true, ""},
		"layouts and nodes": {[]any{l, withKind(node("a", nil)), withKind(node("b", nil))}, 2, 0, true,
			"b: no layout in the file"},
		"layouts, nodes and pods": {[]any{l, withKind(node("a", nil)), withKind(node("b", nil)), other}, 2, 6000, true,
			"b: no layout in the file"},
		"a layout that is refused": {[]any{l, refused}, 1, 7000, true, "c: layout refused: "},
	} {
		s, problems, err := Export(exported(t, c.objects...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a := s.Nodes()[0]
		if len(s.Nodes()) != c.nodes || a.Left("cpu") != c.cpu || (a.State != nil) != c.known {
			t.Errorf("%s: %d nodes, %d cpu left of a, known %v; want %d, %d, %v", name, len(s.Nodes()), a.Left("cpu"),
				a.State != nil, c.nodes, c.cpu, c.known)
		}
		if a.State != nil && a.State.Usage.FreeCPUs().String() != "1-7" {
			t.Errorf("%s: CPUs %s of a are free, want 1-7", name, a.State.Usage.FreeCPUs())
		}
		if a.State != nil && (a.State.Unsettled || len(c.objects) == 1 && len(a.State.Others) > 0) {
			t.Errorf("%s: unsettled %v, %d other states: no report is awaited", name, a.State.Unsettled, len(a.State.Others))
		}
		if got := fmt.Sprint(problems); c.why != "" && !strings.Contains(got, strings.Replace(c.why, ": ", " ", 1)) ||
			c.why == "" && len(problems) > 0 {
			t.Errorf("%s: problems %s, want %q", name, got, c.why)
		}
	}
	for text, want := range map[string]string{
		"{}": "no Nodes",
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": 3}`: `document 1: Node "x": `,
		"3": "not an object",
		string(exported(t, withKind(node("a", nil)), withKind(node("a", nil)))): `two nodes are named "a"`,
		string(exported(t, withKind(node("a", nil)), map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{
			map[string]any{"metadata": map[string]any{"namespace": "ml", "name": "p"}},
			map[string]any{"metadata": map[string]any{"namespace": "db", "name": "p"}},
			map[string]any{"metadata": map[string]any{"namespace": "ml", "name": "p"}},
		}})): `document 1, item 2, item 3: Pod "p": two pods of namespace "ml" have this name`,
	} {
		if _, _, err := Export([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want %q", text, err, want)
		}
	}
}

// Extended resources of classes of devices do not count as amounts. Without the classes they do, and the stage names
// what is not known.
func TestResourcesThatDRAServesAreNotCounted(t *testing.T) {
	class := map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
		"metadata": map[string]any{"name": "served"}, "spec": map[string]any{"extendedResourceName": "example.com/served"}}
	list := map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClassList", "items": []any{class}}
	n := withKind(node("a", nil))
	for name, c := range map[string]struct {
		objects  []any
		resource string
		lacks    bool
		unjudged string
	}{
		"by the name of the class": {[]any{n, class}, "deviceclass.resource.kubernetes.io/served", false,
			"devices that DRA allocates for"},
		"by the name in the class": {[]any{n, list}, "example.com/served", false,
			"devices that DRA allocates for example.com/served"},
		"another name":               {[]any{n, class}, "example.com/other", true, ""},
		"no classes in the file":     {[]any{n}, "example.com/served", true, "whether DRA serves example.com/served"},
		"a resource that nodes have": {[]any{n, class}, "cpu", false, ""},
	} {
		s, _, err := Export(exported(t, c.objects...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w, _, err := s.Workloads([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": `+
			`[{"name": "c", "image": "i", "resources": {"limits": {"`+c.resource+`": "1"}}}]}}`), "default")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if lacks := s.Nodes()[0].Lacks(w[0].Want.Needs); len(lacks) > 0 != c.lacks {
			t.Errorf("%s: the node lacks %v", name, lacks)
		}
		if said := strings.Join(w[0].Unjudged, "; "); c.unjudged == "" && strings.Contains(said, "DRA") ||
			!strings.Contains(said, c.unjudged) {
			t.Errorf("%s: not judged: %q, want %q", name, said, c.unjudged)
		}
	}
}

// A node with a NodeResourceTopology and no layout is judged by its amounts.
func TestExportedTopologies(t *testing.T) {
	c, err := layout(t, "a").Core()
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(c.Machine, c.Rules).Hold(c.Entries[0].Holdings...)
	o := nrt.FromCore(&state.Node{Name: "a", Machine: c.Machine, Rules: c.Rules, Entries: c.Entries, Usage: u})
	o.APIVersion, o.Kind = "topology.node.k8s.io/v1alpha2", "NodeResourceTopology"
	bad := o.DeepCopy()
	bad.Name, bad.Zones = "b", nil
	s, problems, err := Export(exported(t, withKind(node("a", nil)), withKind(node("b", nil)), o, bad))
	if err != nil {
		t.Fatal(err)
	}
	n := s.Nodes()[0].State
	if n == nil || n.Quality != state.Estimated || n.Usage.FreeCPUs().Len() != 7 {
		t.Errorf("node a is known as %+v, want coarse with 7 free CPUs", n)
	}
	if len(problems) != 1 || problems[0].Node != "b" ||
		!strings.HasPrefix(problems[0].Reason, "NodeResourceTopology refused: ") {
		t.Errorf("problems %v, want one of node b", problems)
	}
}

func TestExportsAreBounded(t *testing.T) {
	text := strings.Replace(string(exported(t, withKind(node("a", nil)))), `"16Gi"`, `"1e-1000000000"`, 1)
	if _, _, err := Export([]byte(text)); err == nil ||
		!strings.Contains(err.Error(),
			`document 1, item 1: Node "a": status.allocatable.memory: "1e-1000000000" is not an amount`) {
		t.Errorf("error %v", err)
	}
	if _, _, err := Export([]byte(strings.Repeat(`{"apiVersion": "v1", "kind": "List", "items": [`,
		9) + strings.Repeat("]}", 9))); err == nil || !strings.Contains(err.Error(), "lists in lists") {
		t.Errorf("error %v", err)
	}
}

func TestCopiesOfAMachine(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	x := whatif.Machine{Name: "m", Machine: m, Copies: 12, Allocatable: whatif.Amounts{"cpu": 6500}}
	s, err := Machines([]whatif.Machine{x, {Name: "b", Machine: m, Copies: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range s.Nodes() {
		names = append(names, n.Name)
	}
	if len(names) != 13 || names[0] != "b" || names[1] != "m-01" || names[12] != "m-12" {
		t.Errorf("nodes are %v", names)
	}
	if b, m := s.Nodes()[0], s.Nodes()[1]; b.Left("cpu") != 8000 || m.Left("cpu") != 6500 || m.Left("memory") != 8<<30 ||
		m.Left("pods") != 110 {
		t.Errorf("left of b: %v; of m-01: %v", b.Allocatable, m.Allocatable)
	}
	for _, n := range []int{0, MaxNodes + 1} {
		if _, err := Machines([]whatif.Machine{{Name: "m", Machine: m, Copies: n}}); err == nil {
			t.Errorf("%d copies were made", n)
		}
	}
	twice := []whatif.Machine{{Name: "m", Machine: m, Copies: 1}, {Name: "m", Machine: m, Copies: 1}}
	if _, err := Machines(twice); err == nil || !strings.Contains(err.Error(), `two nodes are named "m"`) {
		t.Errorf("two machines of one name: error %v", err)
	}
}

func FuzzExport(f *testing.F) {
	f.Add(exported(f, withKind(node("a", nil)), withKind(node("b", nil))))
	l := layout(f, "a")
	l.TypeMeta = metav1.TypeMeta{APIVersion: "tenon.sh/v1alpha1", Kind: "NodeLayout"}
	f.Add(exported(f, l))
	f.Add(
		[]byte(
			`{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "x"}, "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, _, err := Export(text)
		if err != nil {
			return
		}
		if len(s.Nodes()) == 0 {
			t.Fatalf("%q has no nodes", text)
		}
		for _, n := range s.Nodes() {
			for name := range n.Allocatable {
				if n.Left(name) < 0 || n.Left(name) > whatif.MaxAmount {
					t.Errorf("%q: %d of %s is left of node %s", text, n.Left(name), name, n.Name)
				}
			}
			if _, _, err := s.On(n.Name); err != nil && len(s.pods) > 0 {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// A pod whose annotations no scheduler accepts goes nowhere, and the other pods of its file are judged all the same.
func TestBadAnnotationsBarOnlyTheirPod(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)})
	burst := strings.Replace(pod(""), `"image": "i"`, `"image": "i", "resources": {"requests": {"cpu": 2},
		"limits": {"nvidia.com/gpu": 1}}`, 1)
	for annotation, want := range map[string]string{
		`"tenon.sh/numa-policy": "sometimes"`:      `annotation tenon.sh/numa-policy: unknown value "sometimes"`,
		`"tenon.sh/scoring-strategy": "sometimes"`: `annotation tenon.sh/scoring-strategy: unknown value "sometimes": want one of Tenon`,
		`"tenon.sh/align": "nvidia.com/gpu,cpu"`: "no kubelet gives the pod cpu of its own, since the pod is not Guaranteed or " +
			"asks for no whole number of CPUs",
	} {
		text := strings.Replace(burst, `"name": "x"`, `"name": "x", "annotations": {`+annotation+`}`, 1)
		all, _, err := s.Workloads([]byte(`{"apiVersion": "v1", "kind": "List", "items": [`+text+`, `+pod("")+`]}`), "default")
		if err != nil {
			t.Fatal(err)
		}
		if why := texts(all[0].Want.Bars.Why[0]); !strings.Contains(why, want) || len(all[1].Want.Bars.Why[0]) > 0 {
			t.Errorf("%s: barred by %q and %v; want %q, and nothing", annotation, why, all[1].Want.Bars.Why[0], want)
		}
	}
}

func TestAnnotationsOfKatalystAreNamedAsNotRead(t *testing.T) {
	s := made(t, []v1.Node{node("a", nil)})
	text := strings.Replace(pod(""), `"name": "x"`, `"name": "x", "annotations": {"katalyst.kubewharf.io/qos_level": "dedicated_cores"}`,
		1)
	if got := strings.Join(read(t, s, text).Unjudged, ", "); got != "annotations of Katalyst (Tenon does not read them)" {
		t.Errorf("%q is not judged", got)
	}
}
