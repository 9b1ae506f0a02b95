package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/arrange"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// sized returns a node of 32 CPUs with so much local storage, and its layout in the ledger.
func sized(t *testing.T, p *Plugin, name, disk string) fwk.NodeInfo {
	t.Helper()
	p.Feed.Layout(layout(t, name, two, place.SingleNUMA, 1))
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse(disk), v1.ResourcePods: resource.MustParse("10")}}})
	return info
}

func onDisk(p *v1.Pod, amount string) *v1.Pod {
	r := &p.Spec.Containers[0].Resources
	q := resource.MustParse(amount)
	r.Requests[v1.ResourceEphemeralStorage], r.Limits[v1.ResourceEphemeralStorage] = q, q
	return p
}

func claiming(p *v1.Pod, template string) *v1.Pod {
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	return p
}

// Nodes judge pods of equal containers differently if they request other amounts, name other claims, or are bound to
// other nodes. Without a plan, the first of them gets the node that only the second one fits. What controllers write
// into each pod of a gang makes no difference.
func TestPodsThatNodesJudgeDifferentlyAreUnequal(t *testing.T) {
	with := func(change func(*v1.Pod)) *v1.Pod {
		p := cpus("b", 4)
		change(p)
		return p
	}
	p := newPlugin(t, refuse)
	for name, c := range map[string]struct {
		a, b *v1.Pod
		want bool
	}{
		"equal": {cpus("a", 4), cpus("b", 4), false},
		"of an indexed Job": {cpus("a", 4), with(func(p *v1.Pod) {
			p.Labels = map[string]string{"batch.kubernetes.io/job-completion-index": "1"}
			p.Annotations = map[string]string{"batch.kubernetes.io/job-completion-index": "1"}
			p.Spec.Hostname, p.Spec.Volumes = "train-1", []v1.Volume{{Name: "kube-api-access-x7d2f"}}
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "1"}}
		}), false},
		"the same amount in other words": {onDisk(cpus("a", 4), "1Gi"), onDisk(cpus("b", 4), "1024Mi"), false},
		"storage":                        {onDisk(cpus("a", 4), "10Gi"), onDisk(cpus("b", 4), "100Gi"), true},
		"overhead": {cpus("a", 4), with(func(p *v1.Pod) {
			p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
		}), true},
		"claims": {claiming(cpus("a", 4), "small"), claiming(cpus("b", 4), "large"), true},
		"CPUs":   {cpus("a", 4), cpus("b", 5), true},
		"a container more": {cpus("a", 4), with(func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init", Resources: p.Spec.Containers[0].Resources}}
		}), true},
		"selector":  {cpus("a", 4), with(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), true},
		"affinity":  {cpus("a", 4), with(func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{} }), true},
		"tolerance": {cpus("a", 4), with(func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "gpu"}} }), true},
		"demand":    {cpus("a", 4), noted(cpus("b", 4), apipod.PolicyAnnotation, "single-numa-node"), true},
		"related": {noted(cpus("a", 4), apipod.ApartAnnotation, "g"), noted(cpus("b", 4), apipod.ApartAnnotation, "g"),
			true},
	} {
		pods := []*v1.Pod{c.a, c.b}
		if got := (places{p.Shared, profileOf(p.handle)}).Gang(pods) != nil; got != c.want {
			t.Errorf("%s: the pods are unequal: %t", name, got)
		}
		g, err := newGang(pods)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if sure := surelyEqual(pods); sure == g.unequal() {
			t.Errorf("%s: surely equal: %t, and by what they ask of nodes: %t", name, sure, !g.unequal())
		}
	}
}

// Two pods of equal CPUs and memory need different amounts of local storage, and come in the order in which the smaller
// one takes the large disk. There is a plan, with each pod on the disk that it fits, and none if no disk is large.
func TestPlansCountLocalStorage(t *testing.T) {
	p := newPlugin(t, refuse)
	g := places{p.Shared, profileOf(p.handle)}.Gang([]*v1.Pod{onDisk(cpus("a", 12), "30Gi"),
		onDisk(cpus("b", 12), "100Gi")})
	never := func(string, string) bool { return false }
	plan := func(small, large string) (arrange.Plan, error) {
		out, _, err := g.Plan([]fwk.NodeInfo{sized(t, p, "m", large), sized(t, p, "n", small)}, 2, 1000, never)
		return out, err
	}
	out, err := plan("40Gi", "120Gi")
	if err != nil || fmt.Sprint(out.At) != fmt.Sprint(map[string]string{"uid-a": "n", "uid-b": "m"}) {
		t.Errorf("the pods get nodes %v: %v", out.At, err)
	}
	if out, err := plan("40Gi", "90Gi"); err == nil {
		t.Errorf("the pods get nodes %v, and no disk is large enough", out.At)
	}
}

// The affinity of a pod is read once, not for every node: it may have thousands of terms. Comparing them counts.
func TestPlansReadAffinityOnce(t *testing.T) {
	p := newPlugin(t, refuse)
	pods := []*v1.Pod{cpus("a", 4), cpus("b", 5)}
	var terms []v1.NodeSelectorTerm
	for i := range 500 {
		terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "rack",
			Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint(i)}}}})
	}
	for _, pod := range pods {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	g, err := newGang(pods)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []fwk.NodeInfo{sized(t, p, "m", "1Gi")}
	nodes[0].Node().Labels = map[string]string{"rack": "0"}
	problem := p.problem(g, nodes, 2, func(string, string) bool { return false })
	if problem.Barred(0, 0) {
		t.Error("the pod is kept from a node that its affinity names")
	}
	if n := testing.AllocsPerRun(10, func() { problem.Barred(0, 0) }); n > 50 {
		t.Errorf("%.0f allocations for a node, with %d terms", n, len(terms))
	}
	if n := problem.Pods[0].Effort; n < 5 {
		t.Errorf("comparing %d terms counts as much as %d containers", len(terms), n)
	}
}
