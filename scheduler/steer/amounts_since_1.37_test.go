//go:build !upto1.36

package steer_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// A device takes memory of its node. kube-scheduler reads how much when it assumes the pod, which is before Reserve.
func TestMemoryThatDevicesTake(t *testing.T) {
	gates := utilfeature.DefaultFeatureGate
	featuregatetesting.SetFeatureGateDuringTest(t, gates, features.DRANodeAllocatableResources, true)
	b := newBench(t)
	devices := b.gpus(0, 1)
	for i := range devices {
		devices[i].NodeAllocatableResources = map[v1.ResourceName]resourcev1.NodeAllocatableResource{
			v1.ResourceMemory: {Overhead: &resourcev1.NodeAllocatableOverhead{PerPod: new(resource.MustParse("1Gi"))}}}
	}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("one")
	b.claim(pod, counted(1))
	ctx, cs, info := t.Context(), framework.NewCycleState(), framework.NewNodeInfo()
	node := &v1.Node{}
	node.Name = "node"
	node.Status.Allocatable = v1.ResourceList{"memory": resource.MustParse("8Gi"), "pods": resource.MustParse("9")}
	info.SetNode(node)
	if _, status := b.plugin.PreFilter(ctx, cs, pod, []fwk.NodeInfo{info}); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	if status := b.plugin.Filter(ctx, cs, pod, info); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	logger := klog.FromContext(ctx)
	if got := dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(logger, cs, "node"); len(got) != 1 {
		t.Errorf("kube-scheduler counts %+v", got)
	}
}
