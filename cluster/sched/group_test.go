package sched

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// talker is a pod that shares CPUs, of an affinity group.
func talker(namespace, name, group string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	if group != "" {
		p.Annotations = map[string]string{v1alpha1.AffinityGroupAnnotation: group}
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
