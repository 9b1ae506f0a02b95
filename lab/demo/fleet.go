package demo

import (
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

//go:embed machines
var files embed.FS

// machineFiles has the demonstration's own machines. They are small, so that maps of them fit beside each other.
func machineFiles() fs.FS {
	sub, err := fs.Sub(files, "machines")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

const (
	gpu       = "nvidia.com/gpu"
	functions = "intel.com/sriov_vf"
)

// fleet returns the nodes of the cluster. The acts about few pods use the first two nodes of each machine.
func fleet() (out []lab.Node) {
	for _, machine := range []string{"gpu", "dpdk"} {
		for i := range 3 {
			out = append(out, lab.Node{Name: fmt.Sprintf("%s-%d", machine, i+1), Machine: machine})
		}
	}
	return out
}

// spare returns the nodes that only the busy cluster uses.
func spare() []string { return []string{"gpu-3", "dpdk-3"} }

// pod returns a Guaranteed pod of one container.
func pod(name, cpu, memory string, more workload.Amounts) *v1.Pod {
	a := workload.Amounts{"cpu": cpu, "memory": memory}
	for k, v := range more {
		a[k] = v
	}
	return workload.Pod(name, workload.Guaranteed("main", a))
}

// residents returns the pods that run before the story begins, bound by hand, one after the other. They leave two free
// GPUs on each GPU node: on gpu-1 one at each socket, on gpu-2 both at one. On dpdk-1 the free network functions are at
// the socket whose CPUs are taken.
func residents() []*v1.Pod {
	bind := func(node string, p *v1.Pod) *v1.Pod {
		p.Spec.NodeName = node
		return p
	}
	return []*v1.Pod{
		bind("gpu-1", pod("train-a", "18", "74Gi", workload.Amounts{gpu: "3"})),
		bind("gpu-1", pod("train-b", "18", "74Gi", workload.Amounts{gpu: "3"})),
		bind("gpu-2", pod("train-c", "24", "100Gi", workload.Amounts{gpu: "4"})),
		bind("gpu-2", pod("train-d", "20", "82Gi", workload.Amounts{gpu: "2"})),
		bind("dpdk-1", pod("upf-a", "6", "4Gi", workload.Amounts{"hugepages-1Gi": "4Gi", functions: "4"})),
		bind("dpdk-1", pod("cache-a", "26", "100Gi", nil)),
		bind("dpdk-2", pod("upf-b", "6", "4Gi", workload.Amounts{"hugepages-1Gi": "4Gi", functions: "4"})),
		bind("dpdk-2", pod("cache-b", "22", "90Gi", nil)),
		bind("dpdk-2", pod("api-b", "12", "50Gi", nil)),
	}
}

// arrivals returns the pods of the story. Each fits two nodes by amounts, and one by alignment.
func arrivals() []*v1.Pod {
	return []*v1.Pod{
		pod("trainer", "8", "32Gi", workload.Amounts{gpu: "2"}),
		pod("upf", "8", "4Gi", workload.Amounts{"hugepages-1Gi": "4Gi", functions: "2"}),
		pod("postgres", "7", "20Gi", nil),
	}
}

// latecomer returns the pod that waits: the GPUs that it requests are free, but not at one socket.
func latecomer() *v1.Pod { return pod("trainer-2", "4", "16Gi", workload.Amounts{gpu: "2"}) }

// busyPods returns pods that are created at once. They request all GPUs and network functions of the cluster and nine
// tenths of its CPUs, and all fit if every pod gets the right place. The seed determines the order of arrival.
func busyPods(seed uint64) (out []*v1.Pod) {
	add := func(count int, name, cpu, memory string, more workload.Amounts) {
		for i := range count {
			out = append(out, pod(fmt.Sprintf("%s-%d", name, i+1), cpu, memory, more))
		}
	}
	gpus := func(n string) workload.Amounts { return workload.Amounts{gpu: n} }
	packets := func(vfs, pages string) workload.Amounts {
		return workload.Amounts{functions: vfs, "hugepages-1Gi": pages}
	}
	add(2, "train-4gpu", "20", "64Gi", gpus("4"))
	add(2, "train-3gpu", "16", "48Gi", gpus("3"))
	add(3, "train-2gpu", "10", "32Gi", gpus("2"))
	add(4, "infer", "4", "16Gi", gpus("1"))
	add(4, "upf-3vf", "12", "8Gi", packets("3", "8Gi"))
	add(3, "upf-2vf", "8", "4Gi", packets("2", "4Gi"))
	add(6, "dns", "4", "2Gi", packets("1", "2Gi"))
	add(4, "solver", "10", "16Gi", nil)
	add(5, "render", "8", "16Gi", nil)
	add(10, "app", "4", "8Gi", nil)
	for i := range 10 {
		out = append(out, workload.Pod(fmt.Sprintf("web-%d", i+1),
			workload.Burstable("web", workload.Amounts{"cpu": "500m", "memory": "512Mi"}, nil)))
	}
	r := rand.New(rand.NewPCG(seed, 2))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
