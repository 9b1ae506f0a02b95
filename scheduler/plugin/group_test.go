package plugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// talker is a pod that shares CPUs, of an affinity group.
func talker(namespace, name, group string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	if group != "" {
		p.Annotations = map[string]string{apipod.AffinityGroupAnnotation: group}
	}
	return p
}

func TestPodsPreferNodesWithTheirAffinityGroup(t *testing.T) {
	p := newPlugin(t, refuse)
	var nodes []fwk.NodeInfo
	for node, pods := range [][]*v1.Pod{
		{talker("shop", "a", "cart"), talker("shop", "b", "cart"), talker("shop", "x", "")},
		{talker("shop", "c", "cart"), talker("other", "d", "cart"), talker("shop", "e", "mail")},
		{talker("shop", "y", "")},
	} {
		info := framework.NewNodeInfo(pods...)
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", node)}})
		nodes = append(nodes, info)
	}
	cs := framework.NewCycleState()
	pod := talker("shop", "new", "cart")
	if _, status := p.PreFilter(t.Context(), cs, pod, nodes); !status.IsSkip() {
		t.Fatalf("PreFilter: %v, want a pod that shares CPUs to be skipped", status)
	}
	fits(t, p.PreScore(t.Context(), cs, pod, nodes))
	var list fwk.NodeScoreList
	for _, info := range nodes {
		raw, status := p.Score(t.Context(), cs, pod, info)
		fits(t, status)
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: raw})
	}
	fits(t, p.ScoreExtensions().NormalizeScore(t.Context(), cs, pod, list))
	var got []int64
	for _, s := range list {
		got = append(got, s.Score)
	}
	if !slices.Equal(got, []int64{100, 50, 0}) {
		t.Errorf("scores %v, want [100 50 0]", got)
	}
	if _, status := p.SignPod(t.Context(), pod); status.IsSuccess() {
		t.Error("a pod whose node depends on others of its group is batched")
	}
	for _, alone := range []*v1.Pod{talker("shop", "new", ""), talker("shop", "new", "unknown")} {
		if s := p.PreScore(t.Context(), framework.NewCycleState(), alone, nodes); !s.IsSkip() {
			t.Errorf("PreScore of a pod whose group is nowhere: %v", s)
		}
	}
}

// A node whose agent has room for the pod beside its group is better than one with as many pods of the group and none.
func TestPodsPreferRoomOnTheNUMANodeOfTheirGroup(t *testing.T) {
	p := newPlugin(t, refuse)
	var nodes []fwk.NodeInfo
	for i, milli := range []int64{1000, 100} {
		node := fmt.Sprint("n", i)
		l := layout(t, node, "numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi", place.None, 1)
		l.Rules.Arbiter = "agent"
		p.Feed.Layout(l)
		var pods []*v1.Pod
		for n := range 3 {
			o := talker("shop", fmt.Sprint(node, n), "cart")
			o.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
			pods = append(pods, o)
		}
		ends := talker("shop", node+"ends", "cart") // it is no company
		ends.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		info := framework.NewNodeInfo(append(pods, ends)...)
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		nodes = append(nodes, info)
	}
	cs := framework.NewCycleState()
	pod := talker("shop", "new", "cart")
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	fits(t, p.PreScore(t.Context(), cs, pod, nodes))
	for i, want := range []int64{3, 6} {
		if got, status := p.Score(t.Context(), cs, pod, nodes[i]); got != want || !status.IsSuccess() {
			t.Errorf("node n%d: score %d (%v), want %d", i, got, status, want)
		}
	}
}
