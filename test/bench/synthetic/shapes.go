package synthetic

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab/workload"
)

const (
	gpus      = "nvidia.com/gpu"
	functions = "intel.com/sriov_vf"
)

// shape is a kind of pods.
type shape struct {
	name string
	// weight is its weight among the running pods, and perBlock its number in each block of arriving pods.
	weight, perBlock int
	// unique means that no two arriving pods request equal amounts of memory, so that each has a shape of its own.
	unique   bool
	pod      *v1.Pod
	place    *place.Pod
	requests v1.ResourceList
}

// newShapes returns all shapes: services of three sizes, training with a GPU, packet processing with hugepages and
// network functions, pods without alignment, and pods that are each the only one of their kind.
func newShapes() ([]*shape, error) {
	guaranteed := func(a workload.Amounts) v1.Container { return workload.Guaranteed("app", a) }
	all := []*shape{
		{name: "svc-4", weight: 10, perBlock: 5, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "4", "memory": "8Gi"}))},
		{name: "svc-8", weight: 20, perBlock: 4, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "8", "memory": "16Gi"}))},
		{name: "svc-16", weight: 40, perBlock: 3, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "16", "memory": "32Gi"}))},
		{name: "train", weight: 20, perBlock: 2, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "16", "memory": "60Gi", gpus: "1"}))},
		{name: "upf", weight: 15, perBlock: 1, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "8", "memory": "4Gi", "hugepages-1Gi": "4Gi", functions: "1"}))},
		{name: "web", weight: 10, perBlock: 3, pod: workload.Pod("",
			workload.Burstable("web", workload.Amounts{"cpu": "1", "memory": "1Gi"}, nil))},
		{name: "once", perBlock: 2, unique: true, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "4", "memory": "8Gi"}))},
	}
	for _, s := range all {
		s.pod.Spec.SchedulerName = v1.DefaultSchedulerName
		s.pod.Spec.Priority = ptr.To[int32](0)
		for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} { // as the API server adds them
			s.pod.Spec.Tolerations = append(s.pod.Spec.Tolerations, v1.Toleration{Key: key,
				Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)})
		}
		var err error
		if s.place, err = apipod.ToPlace(s.pod); err != nil {
			return nil, fmt.Errorf("shape %s: %w", s.name, err)
		}
		s.requests = s.pod.Spec.Containers[0].Resources.Requests
	}
	return all, nil
}

// servedBy reports whether a node with these allocatable amounts has at least some of each resource that the shape
// requests.
func (s *shape) servedBy(allocatable v1.ResourceList) bool {
	for name := range s.requests {
		if q := allocatable[name]; q.IsZero() {
			return false
		}
	}
	return true
}

// runningPod returns the i-th running pod of the shape, on a node.
func (s *shape) runningPod(node string, i int) *v1.Pod {
	p := *s.pod
	p.Name, p.UID, p.CreationTimestamp = fmt.Sprintf("%s-%06d", s.name, i), uid(2, i), creationTime()
	p.Labels = map[string]string{"app": s.name}
	p.Spec.NodeName = node
	p.Status = v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSGuaranteed, StartTime: ptr.To(creationTime()),
		Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue,
			LastTransitionTime: creationTime()}}}
	if s.place.QoS != place.Guaranteed {
		p.Status.QOSClass = v1.PodQOSBurstable
	}
	return &p
}

// arrivingPod returns the i-th arriving pod of the shape.
func (s *shape) arrivingPod(i int) *v1.Pod {
	p := s.pod.DeepCopy()
	p.Name, p.UID, p.CreationTimestamp = fmt.Sprintf("new-%s-%06d", s.name, i), uid(3, i), creationTime()
	p.Labels = map[string]string{"app": s.name}
	p.Status.Phase = v1.PodPending
	if s.unique {
		q := *resource.NewQuantity((8193+int64(i))<<20, resource.BinarySI)
		c := &p.Spec.Containers[0].Resources
		c.Requests[v1.ResourceMemory], c.Limits[v1.ResourceMemory] = q, q
	}
	return p
}
