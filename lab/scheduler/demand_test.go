package scheduler_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const pairs = `
source made up: a GPU and a NIC on each of two numas
numa 0 socket 0 cpus 0-15 memory 62Gi
numa 1 socket 1 cpus 16-31 memory 62Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0 numa 0
device nvidia.com/gpu g1 numa 1
device rdma/hca n0 numa 0
device rdma/hca n1 numa 1
`

const pairsConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: best-effort
topologyManagerScope: container
`

// burst returns a Burstable pod with devices, for one node if that is named, and with annotations.
func burst(name, node string, devices workload.Amounts, notes map[string]string) *v1.Pod {
	p := workload.Pod(name, workload.Burstable("c", workload.Amounts{"cpu": "100m", "memory": "64Mi"}, devices))
	p.Annotations = notes
	if node != "" {
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	}
	return p
}

// The kubelets' policy is best-effort, and the pod is Burstable. Only the pod's own demand keeps it from a node on
// which the remaining GPU and NIC are on two NUMA nodes.
func TestDevicesAreTogetherWhereThePodDemandsIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "joint", Machine: "pairs"}, {Name: "split", Machine: "pairs"}},
		Machines: fstest.MapFS{"pairs.txt": {Data: []byte(pairs)}, "pairs.yaml": {Data: []byte(pairsConfig)}},
	}, scheduler.Tenon)
	gpu, nic, both := workload.Amounts{
		"nvidia.com/gpu": "1",
	}, workload.Amounts{
		"rdma/hca": "1",
	}, workload.Amounts{
		"nvidia.com/gpu": "1",
		"rdma/hca":       "1",
	}
	together := map[string]string{pod.AlignAnnotation: "nvidia.com/gpu,rdma/hca"}
	// One after the other, each on the lowest NUMA node that is left.
	for _, p := range []*v1.Pod{burst("gpu", "split", gpu, nil), burst("nic-0", "split", nic, nil),
		burst("nic-1", "split", nic, nil)} {
		w.runs(ctx, t, p)
		p, _ = w.await(ctx, t, p.Name, workload.Running)
		w.numas(ctx, t, p)
	}
	w.ends(ctx, t, "nic-0")

	w.runs(ctx, t, burst("first", "", both, together), burst("second", "", both, together))
	for _, name := range []string{"first", "second"} {
		p, _ := w.await(ctx, t, name, workload.Running)
		if on := w.numas(ctx, t, p); p.Spec.NodeName != "joint" || on != 1 {
			t.Errorf("pod %s is on node %s, its devices on %d NUMA nodes", name, p.Spec.NodeName, on)
		}
	}
	w.create(
		ctx,
		t,
		burst("third", "", both, together),
		burst("typo", "", both, map[string]string{pod.AlignAnnotation: "nvidia.com/gpus"}),
	)
	_, why := w.await(ctx, t, "third", workload.Pending)
	contains(t, "pod third", why, `1 cannot align container "c" (demands nvidia.com/gpu, rdma/hca on one NUMA node; `+
		`node would use NUMA node 1 for nvidia.com/gpu, 0 for rdma/hca)`)
	_, why = w.await(ctx, t, "typo", workload.Pending)
	contains(
		t,
		"pod typo",
		why,
		`annotation tenon.sh/align: "nvidia.com/gpus" is not a resource that the pod can get of its own: let the pod ask for `+
			`it, or name some of: nvidia.com/gpu, rdma/hca`,
	)

	// A pod without a demand gets what is left; when it takes the other NIC, the NUMA nodes match.
	w.runs(ctx, t, burst("careless", "", both, nil))
	if p, _ := w.await(ctx, t, "careless", workload.Running); p.Spec.NodeName != "split" || w.numas(ctx, t, p) != 2 {
		t.Errorf("pod careless is on node %s, or its devices are together", p.Spec.NodeName)
	}
	w.ends(ctx, t, "careless")
	w.ends(ctx, t, "nic-1")
	p, _ := w.await(ctx, t, "third", workload.Running)
	if on := w.numas(ctx, t, p); p.Spec.NodeName != "split" || on != 1 {
		t.Errorf("pod third is on node %s, its devices on %d NUMA nodes", p.Spec.NodeName, on)
	}
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.seen.check(t)
}

// numas returns on how many NUMA nodes the pod's devices are, according to its kubelet.
func (w *world) numas(ctx context.Context, t *testing.T, pod *v1.Pod) int {
	t.Helper()
	g := w.reportOf(ctx, t, pod)
	return place.ExtentOf(g.machine, g.holdings...).NUMAs.Len()
}
