package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
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

// The affinity of a pod is read once, not for every node: it may have thousands of terms.
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
}
