package live

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/kube"
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
