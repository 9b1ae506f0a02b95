package chaos

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/lab/workload"
)

// Names of the two schedulers.
const (
	tenonScheduler   = "tenon-scheduler"
	foreignScheduler = "default-scheduler"
)

// stopSeconds is a pod's grace period when it is deleted; a deletion by force has none.
const stopSeconds = 10

// pick returns one of xs; a value that is listed twice is twice as likely.
func pick[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// shapes make pods with varied requests: small and large amounts, of one or several resources, that need one NUMA
// node or several.
var shapes = []func(r *rand.Rand, name string) *v1.Pod{
	func(r *rand.Rand, name string) *v1.Pod { // whole cores
		n := pick(r, 2, 2, 4, 6, 8, 12)
		return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(n), "memory": fmt.Sprint(n) +
			"Gi"}))
	},
	func(r *rand.Rand, name string) *v1.Pod { // most of a NUMA node
		n := pick(r, 16, 20, 24)
		return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(n), "memory": "16Gi"}))
	},
	func(r *rand.Rand, name string) *v1.Pod { // more than a NUMA node, if that is permitted
		return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": pick(r, "24", "28", "32"),
			"memory": pick(r, "20Gi", "100Gi")}))
	},
	func(r *rand.Rand, name string) *v1.Pod { // GPUs, and as many network ports
		n := pick(r, 1, 1, 2, 3)
		return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(8 * n), "memory": "32Gi",
			"nvidia.com/gpu": fmt.Sprint(n), "rdma/hca": fmt.Sprint(n)}))
	},
	func(r *rand.Rand, name string) *v1.Pod { // a device, without exclusive CPUs
		return workload.Pod(name, workload.Burstable("c", workload.Amounts{"cpu": "500m", "memory": "1Gi"},
			workload.Amounts{pick[v1.ResourceName](r, "nvidia.com/gpu", "intel.com/qat", "intel.com/sriov_vf",
				"example.com/license"): "1"}))
	},
	func(r *rand.Rand, name string) *v1.Pod { // hugepages and a network function
		n := pick(r, 1, 1, 2)
		return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(4 * n), "memory": "1Gi",
			"hugepages-1Gi": fmt.Sprint(4*n) + "Gi", "intel.com/sriov_vf": fmt.Sprint(n)}))
	},
	func(r *rand.Rand, name string) *v1.Pod { // several containers, some of them init containers
		p := workload.Pod(name, workload.Guaranteed("a", workload.Amounts{"cpu": pick(r, "2", "4"), "memory": "2Gi"}),
			workload.Guaranteed("b", workload.Amounts{"cpu": pick(r, "2", "6"), "memory": "1Gi"}))
		if r.IntN(2) == 0 {
			p.Spec.InitContainers = append(p.Spec.InitContainers,
				workload.Guaranteed("init", workload.Amounts{"cpu": "4", "memory": "3Gi"}))
		}
		if r.IntN(2) == 0 {
			side := workload.Guaranteed("side", workload.Amounts{"cpu": pick(r, "500m", "2"), "memory": "256Mi"})
			side.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, side)
		}
		return p
	},
	func(r *rand.Rand, name string) *v1.Pod { // nothing that a manager aligns
		return workload.Pod(name, workload.Burstable("c", workload.Amounts{"cpu": pick(r, "250m", "1"), "memory": "512Mi"},
			nil))
	},
}

// drawPod makes a random pod.
func drawPod(r *rand.Rand, name, scheduler string) *v1.Pod {
	p := shapes[r.IntN(len(shapes))](r, name)
	p.Spec.SchedulerName = scheduler
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](stopSeconds)
	return p
}

// probePod makes a small pod that only the named node can take.
func probePod(name, node string) *v1.Pod {
	p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "256Mi"}))
	p.Spec.SchedulerName = tenonScheduler
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	return p
}
