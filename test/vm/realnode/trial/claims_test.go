package trial_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab/workload"
)

// gpus are the devices of the driver for claims, with their NUMA nodes. kube-scheduler takes the first ones.
const gpus = "gpu-0 1\ngpu-1 1\ngpu-2 0\ngpu-3 0\n"

// claimed has the devices of drivers for claims, by node.
var claimed = map[string]string{"two": gpus, cpus: gpus}

// claims runs a driver for claims beside the kubelet. What processes may use is compared with the NUMA nodes of the
// devices that their containers got.
func claims(ctx context.Context, t *testing.T, w *world) {
	if err := w.nodes["two"].StartProgram(ctx, "driver"); err != nil {
		t.Fatal(err)
	}
	w.class(ctx, t, "gpu", "gpu.example.com")
	for _, c := range []struct{ scheduler, name, cpus, device string }{
		{"default-scheduler", "blind", "2-3", "gpu-0"}, // CPUs of NUMA node 0, and a device of NUMA node 1
		{tenon, "near", "2-3", "gpu-2"},
		{tenon, "second", "4-5", "gpu-1"},
	} {
		pod := on("two", c.scheduler, c.name, guaranteed("c", "2", "64Mi"))
		w.request(ctx, t, pod, "gpu", nil)
		w.create(ctx, t, pod)
		pod = w.await(ctx, t, c.name, workload.Running)
		cpus := w.granted(ctx, t, pod, "claim_"+c.name+"_gpu_gpu=true")
		if device := w.device(ctx, t, c.name+"-gpu"); device != c.device || cpus.String() != c.cpus {
			t.Errorf("pod %s has CPUs %s and device %s, want %s and %s", c.name, cpus, device, c.cpus, c.device)
		}
		if c.scheduler != tenon {
			w.remove(ctx, t, c.name)
			w.gone(ctx, t, c.name)
		}
	}
	w.seen.await(ctx, t, "near", "second")
	t.Logf("\n%s", w.picture(ctx, t, "two"))
	for _, name := range []string{"near", "second"} {
		w.remove(ctx, t, name)
		w.gone(ctx, t, name)
	}
}

// device returns the device that a claim has.
func (w *world) device(ctx context.Context, t *testing.T, claim string) string {
	t.Helper()
	c, err := w.client.ResourceV1().ResourceClaims("default").Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 1 {
		t.Fatalf("claim %s has no device", claim)
	}
	return c.Status.Allocation.Devices.Results[0].Device
}

// granted returns the CPUs on which the kernel lets the process of a pod run that has a variable in its environment:
// the driver sets it in the container for which it prepared the claim.
func (w *world) granted(ctx context.Context, t *testing.T, pod *v1.Pod, variable string) idset.Set[idset.CPU] {
	t.Helper()
	n := w.nodes[pod.Spec.NodeName]
	all, err := n.Processes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.PodUID != string(pod.UID) {
			continue
		}
		out, err := n.Run(ctx, fmt.Sprintf("tr '\\0' '\\n' </proc/%d/environ", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+out, "\n"+variable+"\n") {
			return p.CPUs
		}
	}
	t.Fatalf("no process of pod %s has %s in its environment", pod.Name, variable)
	return idset.Set[idset.CPU]{}
}

// gone waits until the pod does not exist any more.
func (w *world) gone(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("pod %s is not gone: %v", name, err)
	}
}
