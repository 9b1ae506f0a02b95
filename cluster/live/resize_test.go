package live

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// What a pod takes while it is resized is the same of the pod that the view keeps.
func TestResizedPodsTakeTheSameOnceTrimmed(t *testing.T) {
	cpus := func(n string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(n)} }
	for name, status := range map[string]v1.PodStatus{
		"as requested": {ContainerStatuses: []v1.ContainerStatus{{Name: "c", AllocatedResources: cpus("8")}}},
		"infeasible": {ContainerStatuses: []v1.ContainerStatus{{Name: "c", AllocatedResources: cpus("2")}},
			Conditions: []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}}},
		"shrinking": {ContainerStatuses: []v1.ContainerStatus{{Name: "c", AllocatedResources: cpus("8"),
			Resources: &v1.ResourceRequirements{Requests: cpus("12")}}}},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c",
			Resources: v1.ResourceRequirements{Requests: cpus("8")}}}}, Status: status}
		kept, whole := kube.Requests(trimPod(p)), kube.Requests(p)
		if kept.Cpu().Cmp(*whole.Cpu()) != 0 {
			t.Errorf("%s: %s CPUs, and %s once trimmed", name, whole.Cpu(), kept.Cpu())
		}
	}
}

// What a restart of the kubelet endangers is the same by the pod that the view keeps.
func TestTrimmedPodsAreEndangeredAsWholeOnes(t *testing.T) {
	const machine = "numa 0 cpus 0-7 memory 16Gi\ndevice example.com/nic nic-0 numa 0\n"
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	two := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	for _, s := range []v1.ContainerStatus{{State: waits}, {State: waits, AllocatedResources: two},
		{State: runs, AllocatedResources: two}, {State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}} {
		s.Name = "c"
		p := kubetest.Pod("p", "cpu=2 memory=1Gi example.com/nic=1")
		p.Spec.NodeName, p.Status.ContainerStatuses = "n", []v1.ContainerStatus{s}
		e := kubetest.Holding(p, "0-1")
		e.Holdings[0].Devices = []place.DeviceBlock{{Resource: "example.com/nic", IDs: []string{"nic-0"}, NUMAs: 1}}
		hazards := func(p *v1.Pod) []place.Hazard {
			book := ledger.New()
			f := kube.NewFeed(book, nil, nil)
			f.Begin()
			f.Layout(kubetest.Layout(t, "n", machine, place.SingleNUMA, 1, e))
			f.Pod(p)
			return book.Snapshot().Node("n").RestartHazards()
		}
		kept, whole := hazards(trimPod(p)), hazards(p)
		if !reflect.DeepEqual(kept, whole) || (len(whole) == 0) != (s.State.Running != nil) {
			t.Errorf("%+v: %v, and %v once trimmed", s.State, whole, kept)
		}
	}
}
