package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab/workload"
)

const (
	gpuDriver   = "gpu.example.com"
	gpuResource = "example.com/gpu"
	// keptDevices is a part of the message of a pod whose devices are kept for others.
	keptDevices = "kept for pods that have not come"
)

// gpus are the NUMA nodes of the devices of each node: the ones of NUMA node 1 come first.
var gpus = []int64{1, 0}

// startGPUs returns the cluster with one device on each NUMA node, a class for them that serves an extended resource,
// and a template for claims of one.
func startGPUs(ctx context.Context, t *testing.T) *world {
	t.Helper()
	w := start(ctx, t)
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.ExtendedResourceName = new(gpuResource)
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}}}
	classes, published := w.client.ResourceV1().DeviceClasses(), w.client.ResourceV1().ResourceSlices()
	if _, err := classes.Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deletes(t, classes, class.Name)
	for _, node := range []string{"a", "b"} {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}}
		s.Spec = resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
		for i, numa := range gpus {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i),
				Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"resource.kubernetes.io/numaNode": {IntValue: &numa}}})
		}
		if _, err := published.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		deletes(t, published, s.Name)
	}
	x := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one-gpu"}}
	x.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	all := w.client.ResourceV1().ResourceClaimTemplates("default")
	if _, err := all.Create(ctx, x, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// claiming returns a pod with a claim of one device.
func claiming(name, request string, cpus int) *v1.Pod {
	p := pod(name, request, cpus)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("one-gpu")}}
	p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	return p
}

// extended returns a pod with an extended resource that DRA serves.
func extended(name, request string, cpus int) *v1.Pod {
	p := pod(name, request, cpus)
	r := &p.Spec.Containers[0].Resources
	r.Requests[gpuResource], r.Limits[gpuResource] = resource.MustParse("1"), resource.MustParse("1")
	return p
}

// near fails the test unless a pod has one device, on a NUMA node of its CPUs by its node's report.
func (w *world) near(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	taken := map[string]string{}
	for _, name := range names {
		p, err := w.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		claim := ""
		if s := p.Status.ExtendedResourceClaimStatus; s != nil {
			claim = s.ResourceClaimName
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			claim = *s.ResourceClaimName
		}
		c, err := w.client.ResourceV1().ResourceClaims("default").Get(ctx, claim, metav1.GetOptions{})
		if err != nil || c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 1 {
			t.Fatalf("pod %s has the claim %+v: %v", name, c, err)
		}
		device := c.Status.Allocation.Devices.Results[0]
		if other := taken[device.Pool+device.Device]; other != "" {
			t.Errorf("pods %s and %s have the same device %s of node %s", name, other, device.Device, device.Pool)
		}
		taken[device.Pool+device.Device] = name
		i := 0
		if _, err := fmt.Sscanf(device.Device, "gpu-%d", &i); err != nil {
			t.Fatal(err)
		}
		on := w.numasOf(ctx, t, p)
		if device.Pool != p.Spec.NodeName || !slices.Contains(on, idset.NUMA(gpus[i])) {
			t.Errorf("pod %s is on NUMA nodes %v of %s, and has device %s of %s", name, on, p.Spec.NodeName, device.Device,
				device.Pool)
		}
	}
}

// numasOf returns the NUMA nodes of a pod's CPUs and memory, as its node reports them.
func (w *world) numasOf(ctx context.Context, t *testing.T, p *v1.Pod) (out []idset.NUMA) {
	t.Helper()
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		l, err := layouts.Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c, err := l.Core()
		for _, e := range c.Entries {
			if e.Pod.UID == string(p.UID) {
				out = c.Machine.IDs(place.ExtentOf(c.Machine, e.Holdings...).NUMAs)
			}
		}
		return len(out) > 0, err
	})
	if err != nil {
		t.Fatalf("node %s does not report pod %s: %v", p.Spec.NodeName, p.Name, err)
	}
	return out
}

// running waits until pods run, also pods that had no node before.
func (w *world) running(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		n := 0
		for _, p := range pods {
			if f, _ := workload.FateOf(p); slices.Contains(names, p.Name) && f == workload.Running {
				n++
			}
		}
		return n == len(names)
	})
	if err != nil {
		for _, p := range pods {
			f, why := workload.FateOf(p)
			t.Log(p.Name, f, why)
		}
		t.Fatalf("%v do not run: %v", names, err)
	}
}

// The devices of a request are there for its pods, near their CPUs, whatever else is created before they come, also
// after the scheduler has been started again. Pods without the request wait, and run when the devices are free.
func TestTheDevicesOfARequestAreThereForItsPods(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := startGPUs(ctx, t)
	w.ask(ctx, t, "job", 4, claiming("x", "", 8)) // one on each NUMA node
	w.until(ctx, t, "job", provisioning.Provisioned, metav1.ConditionTrue, "all 4 pods fit now")
	w.ask(ctx, t, "more", 1, claiming("x", "", 2))
	w.until(ctx, t, "more", provisioning.Provisioned, metav1.ConditionFalse, "devices for the claims of more-0")
	w.create(ctx, t, claiming("foreign", "", 2), pod("fits", "", 2))
	w.running(ctx, t, "fits")
	w.waits(ctx, t, "foreign", keptDevices)
	tenon := w.command(t)
	for _, line := range []string{"explain pod default/foreign", "map a"} {
		out, errs, code := tenon.run(ctx, t, strings.Fields(line)...)
		if code != 0 || !strings.Contains(out, "default/job") {
			t.Errorf("%s does not name the request for which devices are kept: code %d\n%s%s", line, code, out, errs)
		}
	}

	w.schedule(t)
	w.create(ctx, t, extended("late", "", 2))
	w.waits(ctx, t, "late", keptDevices)
	jobs := []string{"j0", "j1", "j2", "j3"}
	for _, name := range jobs {
		w.create(ctx, t, claiming(name, "job", 8))
	}
	w.running(ctx, t, jobs...)
	w.near(ctx, t, jobs...)
	// Small pods go to NUMA node 0. Its two devices are enough for two of the three that wait, whichever comes first.
	w.forget(ctx, t)
	w.end(ctx, t, jobs...)
	w.running(ctx, t, "foreign", "late")
	w.near(ctx, t, "foreign", "late")
	w.ask(ctx, t, "again", 1, claiming("x", "", 2))
	w.until(ctx, t, "again", provisioning.Provisioned, metav1.ConditionFalse, "devices for the claims of again-0")
	w.end(ctx, t, "late")
	w.until(ctx, t, "again", provisioning.Provisioned, metav1.ConditionTrue, "the pod fits now")
}

// A booking of an extended resource that DRA serves is kept like claims. When it expires, other pods get the devices.
func TestDevicesOfABookingThatExpires(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := startGPUs(ctx, t)
	w.template(ctx, t, "brief", extended("x", "", 8))
	w.request(ctx, t, &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: "brief", Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, Parameters: map[string]string{"bookingSeconds": "20"},
			PodSets: []provisioning.PodSet{{Count: 4, PodTemplateRef: provisioning.Reference{Name: "brief"}}}}})
	w.until(ctx, t, "brief", provisioning.Provisioned, metav1.ConditionTrue, "all 4 pods fit now")
	w.create(ctx, t, claiming("p", "", 2), extended("b0", "brief", 8))
	w.running(ctx, t, "b0")
	w.near(ctx, t, "b0")
	w.waits(ctx, t, "p", keptDevices)
	w.until(ctx, t, "brief", provisioning.BookingExpired, metav1.ConditionTrue, "3 pods that have not come")
	w.running(ctx, t, "p")
	w.near(ctx, t, "b0", "p")
}

// explain on a workload counts the devices of claims: as many pods as it names run when a scheduler takes them.
func TestPodsOfAWorkloadAreJudgedWithTheirDevices(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := startGPUs(ctx, t)
	const workers = 6 // small ones, which get CPUs of NUMA node 0: there is one device
	create := func(name, scheduler string) {
		for i := range workers {
			p := claiming(fmt.Sprint(name, i), "", 2)
			p.Labels, p.Spec.SchedulerName = map[string]string{"jobset.sigs.k8s.io/jobset-name": name}, scheduler
			w.create(ctx, t, p)
		}
	}
	create("asked", "nobody")
	tenon := w.command(t)
	explains := func(want string) {
		t.Helper()
		out, errs, code := tenon.run(ctx, t, "explain", "jobset/asked")
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("code %d, want %q in\n%s%s", code, want, out, errs)
		}
	}
	explains("Of the 6 pods that wait, at least 2 fit at the same time: 1 on a, 1 on b.")
	create("placed", pod("x", "", 2).Spec.SchedulerName)
	if _, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		fates := map[workload.Fate]int{}
		for _, p := range pods {
			if f, _ := workload.FateOf(p); strings.HasPrefix(p.Name, "placed") {
				fates[f]++
			}
		}
		return fates[workload.Running] == 2 && fates[workload.Pending] == workers-2
	}); err != nil {
		t.Fatal(err)
	}
	explains("No place was found for the 6 pods that wait")
}
