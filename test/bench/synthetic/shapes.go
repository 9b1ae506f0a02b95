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
	// stays is its weight among the running pods. comes is its number in each block of arriving pods.
	stays, comes int
	// once means that no two arriving pods request equal amounts of memory, so that each has a shape of its own.
	once     bool
	pod      *v1.Pod
	place    *place.Pod
	requests v1.ResourceList
}

// running returns all shapes: services of three sizes, training with a GPU, packet processing with hugepages and
// network functions, pods without alignment, and pods that are each the only one of their kind.
func running() ([]*shape, error) {
	guaranteed := func(a workload.Amounts) v1.Container { return workload.Guaranteed("app", a) }
	all := []*shape{
		{name: "svc-4", stays: 10, comes: 5, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "4", "memory": "8Gi"}))},
		{name: "svc-8", stays: 20, comes: 4, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "8", "memory": "16Gi"}))},
		{name: "svc-16", stays: 40, comes: 3, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "16", "memory": "32Gi"}))},
		{name: "train", stays: 20, comes: 2, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "16", "memory": "60Gi", gpus: "1"}))},
		{name: "upf", stays: 15, comes: 1, pod: workload.Pod("",
			guaranteed(workload.Amounts{"cpu": "8", "memory": "4Gi", "hugepages-1Gi": "4Gi", functions: "1"}))},
		{name: "web", stays: 10, comes: 3, pod: workload.Pod("",
			workload.Burstable("web", workload.Amounts{"cpu": "1", "memory": "1Gi"}, nil))},
		{name: "once", comes: 2, once: true, pod: workload.Pod("",
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

// runs returns the i-th running pod of the shape, on a node.
func (s *shape) runs(node string, i int) *v1.Pod {
	p := *s.pod
	p.Name, p.UID, p.CreationTimestamp = fmt.Sprintf("%s-%06d", s.name, i), uid(2, i), began()
	p.Labels = map[string]string{"app": s.name}
	p.Spec.NodeName = node
	p.Status = v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSGuaranteed, StartTime: ptr.To(began()),
		Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: began()}}}
	if s.place.QoS != place.Guaranteed {
		p.Status.QOSClass = v1.PodQOSBurstable
	}
	return &p
}

// arrives returns the i-th arriving pod of the shape.
func (s *shape) arrives(i int) *v1.Pod {
	p := s.pod.DeepCopy()
	p.Name, p.UID, p.CreationTimestamp = fmt.Sprintf("new-%s-%06d", s.name, i), uid(3, i), began()
	p.Labels = map[string]string{"app": s.name}
	p.Status.Phase = v1.PodPending
	if s.once {
		q := *resource.NewQuantity((8193+int64(i))<<20, resource.BinarySI)
		c := &p.Spec.Containers[0].Resources
		c.Requests[v1.ResourceMemory], c.Limits[v1.ResourceMemory] = q, q
	}
	return p
}
