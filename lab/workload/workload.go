// Package workload makes the pods for a lab cluster: training and inference on GPUs, packet processing with hugepages
// and a network function, services and batch work.
//
// Invariant: the same seed gives the same pods in the same order. The package does not name nodes: a pod states its
// requests, and the scheduler finds a node.
package workload

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Amounts are quantities by resource name, such as "2" or "4Gi".
type Amounts map[v1.ResourceName]string

func (a Amounts) list() v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range a {
		out[name] = resource.MustParse(q)
	}
	return out
}

// Guaranteed returns a container whose limits equal its requests.
func Guaranteed(name string, a Amounts) v1.Container {
	return v1.Container{Name: name, Image: "lab.invalid/" + name + ":1",
		Resources: v1.ResourceRequirements{Requests: a.list(), Limits: a.list()}}
}

// Burstable returns a container that requests the amounts a, without limits. It also requests devices, which have
// limits, because Kubernetes requires that.
func Burstable(name string, a, devices Amounts) v1.Container {
	c := v1.Container{Name: name, Image: "lab.invalid/" + name + ":1",
		Resources: v1.ResourceRequirements{Requests: a.list(), Limits: devices.list()}}
	for r, q := range devices.list() {
		c.Resources.Requests[r] = q
	}
	return c
}

// Pod returns a pod of the containers, in the default namespace, with a grace period of 0.
func Pod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{
			Containers:                    containers,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			RestartPolicy:                 v1.RestartPolicyNever,
		},
	}
}

// kind is a kind of work. share is how many of 100 pods are of this kind, on average.
type kind struct {
	name  string
	share int
	make  func(r *rand.Rand, name string) *v1.Pod
}

func pick[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// kinds returns the kinds of work; shares add up to 100.
func kinds() []kind {
	return []kind{
		{"train", 8, func(r *rand.Rand, name string) *v1.Pod {
			n := pick(r, 2, 3, 4)
			return Pod(name, Guaranteed("trainer", Amounts{"cpu": fmt.Sprint(8 * n), "memory": fmt.Sprint(32*n) + "Gi",
				"nvidia.com/gpu": fmt.Sprint(n), "rdma/hca": fmt.Sprint(n)}))
		}},
		{"infer", 10, func(r *rand.Rand, name string) *v1.Pod {
			return Pod(name, Burstable("model", Amounts{"cpu": "2", "memory": "8Gi"}, Amounts{"nvidia.com/gpu": "1"}))
		}},
		{"dpdk", 12, func(r *rand.Rand, name string) *v1.Pod {
			n := pick(r, 1, 1, 2, 3)
			return Pod(name, Guaranteed("upf", Amounts{"cpu": fmt.Sprint(4 * n), "memory": "2Gi",
				"hugepages-1Gi": fmt.Sprint(2*n) + "Gi", "intel.com/sriov_vf": fmt.Sprint(n)}))
		}},
		{"batch", 20, func(r *rand.Rand, name string) *v1.Pod {
			n := pick(r, 12, 16, 20, 24)
			return Pod(name, Guaranteed("solver", Amounts{"cpu": fmt.Sprint(n), "memory": fmt.Sprint(n) + "Gi"}))
		}},
		{"svc", 26, func(r *rand.Rand, name string) *v1.Pod {
			n := pick(r, 2, 4, 6, 8)
			p := Pod(name, Guaranteed("app", Amounts{"cpu": fmt.Sprint(n), "memory": fmt.Sprint(2*n) + "Gi"}))
			if r.IntN(3) == 0 {
				p.Spec.InitContainers = append(p.Spec.InitContainers, Guaranteed("migrate", Amounts{"cpu": "2", "memory": "1Gi"}))
			}
			if r.IntN(3) == 0 {
				side := Guaranteed("proxy", Amounts{"cpu": "500m", "memory": "256Mi"})
				side.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
				p.Spec.InitContainers = append(p.Spec.InitContainers, side)
			}
			return p
		}},
		{"web", 24, func(r *rand.Rand, name string) *v1.Pod {
			return Pod(name, Burstable("web", Amounts{"cpu": pick(r, "250m", "500m", "1"), "memory": "512Mi"}, nil))
		}},
	}
}

// Mix returns n pods, each of a kind that is drawn by its share. Pods of one call have different names, which begin
// with prefix.
func Mix(seed uint64, prefix string, n int) []*v1.Pod {
	r := rand.New(rand.NewPCG(seed, 1))
	all := kinds()
	out := make([]*v1.Pod, 0, n)
	for i := range n {
		at, k := r.IntN(100), 0
		for ; k < len(all)-1 && at >= all[k].share; k++ {
			at -= all[k].share
		}
		out = append(out, all[k].make(r, fmt.Sprintf("%s%s-%03d", prefix, all[k].name, i)))
	}
	return out
}
