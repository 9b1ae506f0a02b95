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
	b.claim(pod, rather("a", "b"))
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

// Scoring is skipped for exactly the pods without claims, to which the wrapped plugin gives the score 0 everywhere.
func TestPodsWithoutClaimsAreNotScored(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1)
	pods := map[bool]*v1.Pod{true: podNamed("plain"), false: podNamed("claims")}
	b.claim(pods[false], rather("a", "b"))
	for skipped, pod := range pods {
		cs := framework.NewCycleState()
		if _, status := b.plugin.PreFilter(t.Context(), cs, pod, nil); !status.IsSuccess() && !status.IsSkip() {
			t.Fatal(status.Message())
		}
		if status := b.plugin.PreScore(t.Context(), cs, pod, nil); status.IsSkip() != skipped {
			t.Errorf("pod %s: PreScore returns %v", pod.Name, status)
		}
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		if n, status := b.plugin.Score(t.Context(), cs, pod, info); skipped && (n != 0 || !status.IsSuccess()) {
			t.Errorf("pod %s, whose scoring is skipped, gets %d, %v", pod.Name, n, status)
		}
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

// rather asks for a device of the first model, or else of the second one.
func rather(models ...string) resourcev1.DeviceClaim {
	request := resourcev1.DeviceRequest{Name: "r"}
	for _, model := range models {
		request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{Name: model,
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: selector(`device.attributes["gpu.example.com"].model == "` + model + `"`)})
	}
	return resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}
}

// A pod without CPUs of its own may get its device from any NUMA node, so it gets the model that it prefers.
func TestAPodThatIsNowhereGetsWhatItPrefers(t *testing.T) {
	b := newBench(t)
	devices := b.gpus(0, 1, 1)
	for i, model := range []string{"b", "a", "a"} {
		devices[i].Attributes["model"] = resourcev1.DeviceAttribute{StringValue: &model}
	}
	pod := podNamed("picky")
	b.claim(pod, rather("a", "b"))
	b.gets(t, pod, "1")
}
