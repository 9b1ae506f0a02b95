package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// clusterOf returns a cluster of nodes with two NUMA nodes that have 15 and 16 CPUs for pods, and pods.
func clusterOf(t testing.TB, nodes []string, pods ...v1.Pod) *kube.View {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-15 memory 192Gi\nnuma 1 socket 1 cpus 16-31 memory 192Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: m.CoreCPUs(0)}}
	v := &kube.View{Pods: kube.StoreAll(pods)}
	for _, name := range nodes {
		v.States = append(v.States, &state.Node{Name: name, Machine: m, Rules: rules, Usage: place.NewUsage(m, rules)})
		v.Nodes = append(v.Nodes, nodeOf(name, "31"))
	}
	return v
}

func staged(t testing.TB, v *kube.View) *stage.Stage {
	t.Helper()
	s, err := stage.Of(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func nodeOf(name, cpus string) v1.Node {
	n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse(cpus), "memory": resource.MustParse("380Gi"),
		"pods": resource.MustParse("110")}
	return n
}

// waitingPod returns a pod of Guaranteed QoS that waits.
func waitingPod(name, cpus string, change func(*v1.Pod)) v1.Pod {
	amounts := v1.ResourceList{"cpu": resource.MustParse(cpus), "memory": resource.MustParse("1Gi")}
	p := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{"app": "gang"}}}
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "i",
		Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}
	p.Status.Phase = v1.PodPending
	if change != nil {
		change(&p)
	}
	return p
}

func fourOf(change func(*v1.Pod)) (out []v1.Pod) {
	for i := range 4 {
		out = append(out, waitingPod(fmt.Sprint("gang-", i), "2", change))
	}
	return out
}

func hostPort(p *v1.Pod) {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 8080, ContainerPort: 8080}}
}

var gangSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "gang"}}

func apart(p *v1.Pod) {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname,
			LabelSelector: gangSelector}}}}
}

func spread(p *v1.Pod) {
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelHostname,
		WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: gangSelector}}
}

// simulated returns how many pods each node gets if the cluster has none yet, and simulate places the same pods of a
// file, so many at least.
func simulated(t *testing.T, v *kube.View, least int) map[string]int {
	t.Helper()
	empty := *v
	empty.Pods = nil
	s := staged(t, &empty)
	var items []*v1.Pod
	for p := range kube.EachPod(v.Pods) {
		written := p.DeepCopy()
		written.UID, written.Status = "", v1.PodStatus{}
		items = append(items, written)
	}
	file, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := s.Workloads(file, "ml")
	if err != nil {
		t.Fatal(err)
	}
	gang := whatif.Gang{Least: least}
	for _, w := range all {
		gang.Pods = append(gang.Pods, whatif.Member{ID: w.ID(1, 0), Want: w.Want})
	}
	placed, err := whatif.New(s.Nodes(), whatif.Rules{}).Together(gang, t.Context().Err)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, p := range placed.Placed {
		if p.Node != assign.Left {
			out[s.Nodes()[p.Node].Name]++
		}
	}
	return out
}

func idsOf(v *kube.View) (out []state.PodID) {
	for p := range kube.EachPod(v.Pods) {
		out = append(out, kube.ID(p))
	}
	return out
}

// Pods that wait exclude each other, as in a file: explain and simulate have one answer.
func TestWaitingPodsFitTogetherAsSimulateFindsThem(t *testing.T) {
	mixed := fourOf(apart)
	for i := range mixed[2:] {
		mixed[2+i].Spec.Affinity, mixed[2+i].Labels = nil, map[string]string{"app": "gang", "role": "launcher"}
	}
	for name, c := range map[string]struct {
		pods          []v1.Pod
		related, more bool
		want          map[string]int
	}{
		"no requirements": {fourOf(nil), false, false, map[string]int{"a": 4}},
		"host port":       {fourOf(hostPort), true, false, map[string]int{"a": 1, "b": 1}},
		"anti-affinity":   {fourOf(apart), true, false, map[string]int{"a": 1, "b": 1}},
		"spread":          {fourOf(spread), true, false, map[string]int{"a": 2, "b": 2}},
		"some of them":    {mixed, true, true, map[string]int{"a": 1, "b": 1}},
	} {
		v := clusterOf(t, []string{"a", "b"}, c.pods...)
		got, err := together(t.Context(), staged(t, v), idsOf(v), len(c.pods))
		if err != nil {
			t.Fatal(err)
		}
		on := map[string]int{}
		for _, node := range got.Nodes {
			on[node]++
		}
		if delete(on, ""); !maps.Equal(on, c.want) || got.More != c.more || got.Related != c.related {
			t.Errorf("%s: the pods fit on %v, more %t, related %t; want %v", name, on, got.More, got.Related, c.want)
		}
		if s := simulated(t, v, len(c.pods)); !maps.Equal(on, s) {
			t.Errorf("%s: the pods fit on %v, and simulate finds %v", name, on, s)
		}
	}
}

// A pod that no kubelet aligns fits on a node without a report, and another pod does not.
func TestPlainPodsFitOnNodesWithoutAReport(t *testing.T) {
	v := clusterOf(t, []string{"a"}, waitingPod("gang-0", "15", nil), waitingPod("gang-1", "15", nil),
		waitingPod("gang-launcher", "4", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }),
		waitingPod("gang-late", "4", nil))
	v.Nodes = append(v.Nodes, nodeOf("cpu", "8"))
	got, err := together(t.Context(), staged(t, v), idsOf(v), 4)
	if want := []string{"a", "a", "cpu", ""}; err != nil || !slices.Equal(got.Nodes, want) {
		t.Errorf("the pods fit on %q, %v; want %q", got.Nodes, err, want)
	}
}

// Equal pods get every place that there is: then the number is certain, however few of them are enough.
func TestTheNumberOfEqualPodsIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		cpus []string
		more bool
	}{"equal": {[]string{"15", "15", "15"}, false}, "unequal": {[]string{"3", "14", "15"}, true}} {
		var pods []v1.Pod
		for i, cpus := range c.cpus {
			pods = append(pods, waitingPod(fmt.Sprint("gang-", i), cpus, nil))
		}
		v := clusterOf(t, []string{"a"}, pods...)
		got, err := together(t.Context(), staged(t, v), idsOf(v), 2)
		if fit := len(slices.DeleteFunc(got.Nodes, func(n string) bool { return n == "" })); err != nil || fit != 2 ||
			got.More != c.more {
			t.Errorf("%s: %d fit, more %t, %v", name, fit, got.More, err)
		}
	}
}
