package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const strictConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,32"
topologyManagerPolicy: single-numa-node
`

const driver = "gpu.example.com"

// publish creates a class, and for each node a slice with devices on these NUMA nodes, as a driver would. A device on
// NUMA node -1 does not say where it is.
func (w *world) publish(ctx context.Context, t *testing.T, extended string, nodes map[string][]int64) {
	t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", driver)}}}
	if extended != "" {
		class.Spec.ExtendedResourceName = &extended
	}
	if _, err := w.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for node, numas := range nodes {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}}
		s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
		for i, numa := range numas {
			d := resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)}
			if numa >= 0 {
				d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"resource.kubernetes.io/numaNode": {IntValue: &numa}}
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
		}
		if _, err := w.client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// claiming returns a pod with a claim of some devices, which it creates.
func (w *world) claiming(ctx context.Context, t *testing.T, name string, devices int64, c v1.Container) *v1.Pod {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: devices}}}
	if _, err := w.client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Resources.Claims = []v1.ResourceClaim{{Name: "gpus"}}
	p := workload.Pod(name, c)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &name}}
	return p
}

// devices returns the names of the devices that a claim has.
func (w *world) devices(ctx context.Context, t *testing.T, claim string) (out []string) {
	t.Helper()
	c, err := w.client.ResourceV1().ResourceClaims("default").Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			out = append(out, r.Device)
		}
	}
	slices.Sort(out)
	return out
}

// release takes the devices from a claim, as kube-controller-manager does once the pods of the claim have ended.
func (w *world) release(ctx context.Context, t *testing.T, claim string) {
	t.Helper()
	all := w.client.ResourceV1().ResourceClaims("default")
	c, err := all.Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Status = resourcev1.ResourceClaimStatus{}
	if _, err := all.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The slices have the devices of NUMA node 1 first, so that kube-scheduler takes these. The kubelet takes CPUs of NUMA
// node 0 first.
func TestClaimsGetDevicesBesideTheCPUsOfTheKubelet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "one", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(strictConfig)}},
	}, scheduler.Tenon)
	w.publish(ctx, t, "", map[string][]int64{"one": {1, 1, 1, 0, 0, -1}})
	exact := func(cpus string) v1.Container {
		return workload.Guaranteed("c", workload.Amounts{"cpu": cpus, "memory": "1Gi"})
	}
	for _, c := range []struct {
		pod     *v1.Pod
		devices []string
	}{
		{w.claiming(ctx, t, "first", 1, exact("10")), []string{"gpu-3"}},
		{w.claiming(ctx, t, "second", 2, exact("10")), []string{"gpu-4", "gpu-5"}},
		{w.claiming(ctx, t, "third", 2, exact("28")), []string{"gpu-0", "gpu-1"}},
	} {
		w.runs(ctx, t, c.pod)
		if got := w.devices(ctx, t, c.pod.Name); !slices.Equal(got, c.devices) {
			t.Errorf("pod %s has the devices %v, want %v", c.pod.Name, got, c.devices)
		}
	}
	// The kubelet would take CPUs of NUMA node 0, where all devices are taken.
	w.create(ctx, t, w.claiming(ctx, t, "fourth", 1, exact("4")))
	_, why := w.await(ctx, t, "fourth", workload.Pending)
	contains(t, "pod fourth", why, "the pod's claims get no devices on NUMA node 0, where its CPUs and memory would be")
	w.ends(ctx, t, "first")
	w.release(ctx, t, "first")
	w.await(ctx, t, "fourth", workload.Running)
	if got := w.devices(ctx, t, "fourth"); !slices.Equal(got, []string{"gpu-3"}) {
		t.Errorf("pod fourth has the devices %v, want gpu-3", got)
	}
}
