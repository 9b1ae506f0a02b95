package trial_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab/workload"
)

const cpus = "cpus"

// CPUs and devices of a pod come from claims of two drivers that do not know each other: dra-driver-cpu, which has one
// device for each NUMA node, and the driver of [claims]. Neither claim names a NUMA node. Under Tenon, the CPUs on
// which the kernel lets a process run are beside its device.
func TestCPUClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w := start(ctx, t, cpus)
	for _, program := range []string{"driver", "dracpu"} {
		if err := w.nodes[cpus].StartProgram(ctx, program); err != nil {
			t.Fatal(err)
		}
	}
	w.class(ctx, t, "gpu", "gpu.example.com")
	w.class(ctx, t, "cpu", "dra.cpu")
	w.awaitSlices(ctx, t, "dra.cpu", "gpu.example.com")
	for _, c := range []struct {
		scheduler, name string
		aligned         bool
	}{
		// The first device of each driver: CPUs of NUMA node 0, and a device of NUMA node 1. Without a controller that
		// gives them back, they stay taken, and the next devices in line are again on different NUMA nodes.
		{"default-scheduler", "blind", false},
		{tenon, "near", true},
		{tenon, "second", true},
	} {
		pod := on(cpus, c.scheduler, c.name, claimant())
		w.request(ctx, t, pod, "gpu", nil)
		w.request(ctx, t, pod, "cpu", map[resourcev1.QualifiedName]resource.Quantity{
			"dra.cpu/cpu": resource.MustParse("1")})
		w.create(ctx, t, pod)
		pod = w.await(ctx, t, c.name, workload.Running)
		device := w.device(ctx, t, c.name+"-gpu")
		got := w.granted(ctx, t, pod, "claim_"+c.name+"_gpu_gpu=true")
		beside := w.numaOf(t, device)
		t.Logf("pod %s: %s with CPUs %s, the CPUs beside it are %s", c.name, device, got, beside)
		if aligned := got.Minus(beside).Empty(); aligned != c.aligned || got.Len() != 1 {
			t.Errorf("pod %s has %s and CPUs %s; beside each other: %t, want %t", c.name, device, got, aligned, c.aligned)
		}
		if c.scheduler != tenon {
			w.remove(ctx, t, c.name)
			w.gone(ctx, t, c.name)
		}
	}
}

// claimant returns a container that asks for no CPUs itself.
func claimant() v1.Container {
	c := guaranteed("c", "0", "64Mi")
	delete(c.Resources.Requests, v1.ResourceCPU)
	delete(c.Resources.Limits, v1.ResourceCPU)
	return c
}

// request makes a pod ask for one device of a class by a claim named after both, which it creates.
func (w *world) request(ctx context.Context, t *testing.T, pod *v1.Pod, class string,
	capacity map[resourcev1.QualifiedName]resource.Quantity) {
	t.Helper()
	name := pod.Name + "-" + class
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	if capacity != nil {
		exactly.Capacity = &resourcev1.CapacityRequirements{Requests: capacity}
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: class, Exactly: exactly}}
	if _, err := w.client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: class, ResourceClaimName: &name})
	c := &pod.Spec.Containers[0]
	c.Resources.Claims = append(c.Resources.Claims, v1.ResourceClaim{Name: class})
}

// class creates a device class with all devices of a driver.
func (w *world) class(ctx context.Context, t *testing.T, name, driver string) {
	t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: `device.driver == "` + driver + `"`}}}
	if _, err := w.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitSlices waits until every driver has published a slice.
func (w *world) awaitSlices(ctx context.Context, t *testing.T, drivers ...string) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		all, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		found := map[string]bool{}
		for _, s := range all.Items {
			found[s.Spec.Driver] = true
		}
		return len(found) == len(drivers), nil
	})
	if err != nil {
		t.Fatalf("not all of %v have published devices: %v", drivers, err)
	}
}

// numaOf returns the CPUs of the NUMA node of a device of the driver of [claims].
func (w *world) numaOf(t *testing.T, device string) idset.Set[idset.CPU] {
	t.Helper()
	for line := range strings.Lines(gpus) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatal(err)
		}
		if name == device {
			return w.made[cpus].Topo.NUMAs()[n].CPUs
		}
	}
	t.Fatalf("there is no device %q", device)
	return idset.Set[idset.CPU]{}
}
