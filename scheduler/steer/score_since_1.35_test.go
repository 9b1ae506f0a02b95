//go:build !upto1.34

package steer_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// A claim prefers model a to model b. Nodes with devices near the pod come first, and among them those with model a, by
// as much as without Tenon where all nodes are alike.
func TestScoresKeepWhatAClaimPrefers(t *testing.T) {
	b := newBench(t)
	var nodes []fwk.NodeInfo
	for _, n := range []struct {
		name, model string
		numas       []int64
	}{{"near-a", "a", []int64{0, 1}}, {"near-b", "b", []int64{0, 1}}, {"far-a", "a", []int64{0, 0}}} {
		devices := b.gpus(n.numas...)
		s := b.slices[len(b.slices)-1]
		s.Name, s.Spec.NodeName, s.Spec.Pool.Name = n.name, &n.name, n.name
		for i := range devices {
			devices[i].Attributes["model"] = resourcev1.DeviceAttribute{StringValue: &n.model}
		}
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}})
		nodes = append(nodes, info)
	}
	pod := podNamed("picky")
	request := resourcev1.DeviceRequest{Name: "r"}
	for _, model := range []string{"a", "b"} {
		request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{Name: model,
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: selector(`device.attributes["gpu.example.com"].model == "` + model + `"`)})
	}
	b.claim(pod, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}})
	b.near = steer.Near{NUMAs: []int{1}}
	all := b.scores(t, pod, nodes, 3)
	if a, bb, far := all[0], all[1], all[2]; a <= bb+1 || bb <= far {
		t.Errorf("near with model a %d, near with model b %d, far with model a %d", a, bb, far)
	}
	// The third node is filtered out by another plugin.
	if left := b.scores(t, pod, nodes, 2); left[0] != 100 || left[1] != 87 {
		t.Errorf("of two nodes that are alike, model a gets %d and model b %d; want 100 and 87", left[0], left[1])
	}
}

// scores returns the scores of the first nodes, after all of them were filtered.
func (b *bench) scores(t *testing.T, pod *v1.Pod, nodes []fwk.NodeInfo, first int) (out []int64) {
	t.Helper()
	ctx, cs := t.Context(), framework.NewCycleState()
	if _, status := b.plugin.PreFilter(ctx, cs, pod, nodes); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	for _, n := range nodes {
		if status := b.plugin.Filter(ctx, cs, pod, n); !status.IsSuccess() {
			t.Fatal(status.Message())
		}
	}
	var list fwk.NodeScoreList
	for _, n := range nodes[:first] {
		score, status := b.plugin.Score(ctx, cs, pod, n)
		if !status.IsSuccess() {
			t.Fatal(status.Message())
		}
		list = append(list, fwk.NodeScore{Name: n.Node().Name, Score: score})
	}
	if status := b.plugin.ScoreExtensions().NormalizeScore(ctx, cs, pod, list); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	for _, s := range list {
		out = append(out, s.Score)
	}
	return out
}
