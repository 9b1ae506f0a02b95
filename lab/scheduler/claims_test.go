package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
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
	contains(t, "pod fourth", why, "the pod's claims get no devices on NUMA node 0, where its CPUs and memory would be",
		"Remedy: wait for pods with such devices to end, or set claims: Prefer in the scheduler's arguments.")
	w.ends(ctx, t, "first")
	w.release(ctx, t, "first")
	w.await(ctx, t, "fourth", workload.Running)
	if got := w.devices(ctx, t, "fourth"); !slices.Equal(got, []string{"gpu-3"}) {
		t.Errorf("pod fourth has the devices %v, want gpu-3", got)
	}
}

// Where the agent pins containers, CPUs follow the devices: the GPU on NUMA node 0 is taken, so the next pod gets CPUs,
// memory and a GPU of NUMA node 1.
func TestClaimsAndPinnedCPUsAreChosenTogether(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	machine, _, _ := strings.Cut(pinnedMachine, "device")
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "own", Machine: "pinned", Pinned: true}},
		Machines: fstest.MapFS{"pinned.txt": {Data: []byte(machine)}, "pinned.yaml": {Data: []byte(pinnedConfig)}},
	}, scheduler.Tenon)
	w.publish(ctx, t, "", map[string][]int64{"own": {0, 1, 1}})
	for i, c := range []struct {
		device string
		numa   idset.NUMA
	}{{"gpu-0", 0}, {"gpu-1", 1}, {"gpu-2", 1}} {
		p := w.claiming(ctx, t, fmt.Sprint("together-", i), 1,
			workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
		w.runs(ctx, t, p)
		now, _ := w.await(ctx, t, p.Name, workload.Running)
		if got := w.devices(ctx, t, p.Name); !slices.Equal(got, []string{c.device}) {
			t.Errorf("pod %s has the devices %v, want %s", p.Name, got, c.device)
		}
		if got := w.numasOf(ctx, t, now); !slices.Equal(got, []idset.NUMA{c.numa}) {
			t.Errorf("pod %s has its CPUs and memory on %v, want NUMA node %d", p.Name, got, c.numa)
		}
	}
	w.pinnedAsBooked(ctx, t, 3)
}

// A claim has two requests for one class, and the pod demands a near device for the second one, which kube-scheduler
// serves last. The claim that the API server has is the one that was created.
func TestAPodDemandsTheDevicesOfARequest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "one", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(strictConfig)}},
	}, strings.Replace(scheduler.Tenon, "unknownNodes", "claims: Prefer, unknownNodes", 1))
	w.publish(ctx, t, "example.com/gpu", map[string][]int64{"one": {0, 1, 1}})
	whole := workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi"})
	demanding := func(name, align string) *v1.Pod {
		p := w.claiming(ctx, t, name, 1, whole)
		p.Annotations = map[string]string{"tenon.sh/align": align}
		return p
	}
	pod := demanding("pair", "claim:gpus/second")
	all := w.client.ResourceV1().ResourceClaims("default")
	claim, err := all.Get(ctx, "pair", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Delete(ctx, "pair", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "pair"}
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, *claim.Spec.Devices.Requests[0].DeepCopy())
	claim.Spec.Devices.Requests[1].Name = "second"
	if claim, err = all.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.runs(ctx, t, pod)
	after, err := all.Get(ctx, "pair", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range after.Status.Allocation.Devices.Results {
		got[r.Request] = r.Device
	}
	if want := map[string]string{"gpus": "gpu-1", "second": "gpu-0"}; !maps.Equal(got, want) {
		t.Errorf("the requests have the devices %v, want %v", got, want)
	}
	if !reflect.DeepEqual(claim.Spec, after.Spec) {
		t.Errorf("the claim is %+v, and was %+v", after.Spec, claim.Spec)
	}
	w.create(ctx, t, demanding("far", "class:gpu"))
	_, why := w.await(ctx, t, "far", workload.Pending)
	contains(t, "pod far", why, "on NUMA node 0, where its CPUs and memory would be, as tenon.sh/align demands",
		"Remedy: wait for pods with such devices to end, or take their name out of tenon.sh/align.")
	w.create(ctx, t, demanding("wrong", "claim:gpus/third"))
	_, why = w.await(ctx, t, "wrong", workload.Pending)
	contains(t, "pod wrong", why, `"claim:gpus/third" names no request of claim wrong: it has gpus`)
	w.ends(ctx, t, "pair")
	w.release(ctx, t, "pair")
	w.await(ctx, t, "far", workload.Running)
	if got := w.devices(ctx, t, "far"); !slices.Equal(got, []string{"gpu-0"}) {
		t.Errorf("pod far has the devices %v, want gpu-0", got)
	}
}

// fates counts what became of pods with claims.
type fates struct{ aligned, misaligned, refused, waiting int }

// fatesOf waits until no pod changes any more, and compares for each running pod the NUMA nodes of its devices with the
// NUMA nodes of its CPUs and memory as the kubelet reports them. where has the NUMA nodes of each node's devices.
func (w *world) fatesOf(ctx context.Context, t *testing.T, n int, where map[string][]int64) (out fates) {
	t.Helper()
	pods, err := w.pods.Until(ctx, workload.Settled(n))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		switch fate, _ := workload.FateOf(p); fate {
		case workload.Refused:
			out.refused++
		case workload.Running:
			near, apart := w.numasOf(ctx, t, p), false
			for _, name := range w.devices(ctx, t, w.claimOf(ctx, t, p.Name)) {
				var i int
				if _, err := fmt.Sscanf(name, "gpu-%d", &i); err != nil {
					t.Fatal(err)
				}
				numa := where[p.Spec.NodeName][i]
				apart = apart || numa >= 0 && !slices.Contains(near, idset.NUMA(numa))
			}
			if apart {
				out.misaligned++
			} else {
				out.aligned++
			}
		default:
			out.waiting++
		}
	}
	return out
}

// claimOf returns the claim of a pod: its own one, or the one that kube-scheduler made for an extended resource.
func (w *world) claimOf(ctx context.Context, t *testing.T, pod string) string {
	t.Helper()
	p, err := w.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		return s.ResourceClaimName
	}
	return pod
}

// numasOf returns the NUMA nodes of a pod's CPUs and memory in the layout of its node.
func (w *world) numasOf(ctx context.Context, t *testing.T, pod *v1.Pod) []idset.NUMA {
	t.Helper()
	g := w.reportOf(ctx, t, pod)
	return g.machine.IDs(place.ExtentOf(g.machine, g.holdings...).NUMAs)
}

// withClaims creates 200 pods: three of four have a claim, and the others ask for an extended resource that DRA serves.
func (w *world) withClaims(ctx context.Context, t *testing.T) (n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(39, 1))
	for n = range 200 {
		c := workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(1 + r.IntN(4)), "memory": "512Mi"})
		name, devices := fmt.Sprintf("p%03d", n), int64(1+r.IntN(10)/9)
		if r.IntN(4) > 0 {
			w.create(ctx, t, w.claiming(ctx, t, name, devices, c))
			continue
		}
		amount := *resource.NewQuantity(devices, resource.DecimalSI)
		c.Resources.Requests["example.com/gpu"], c.Resources.Limits["example.com/gpu"] = amount, amount
		w.create(ctx, t, workload.Pod(name, c))
	}
	return n + 1
}

// Two hundred pods with claims or with an extended resource that DRA serves, on kubelets that align CPUs and memory to
// one NUMA node each: with kube-scheduler's default profile, with Tenon, and with Tenon if devices may lie elsewhere.
func TestManyPodsWithClaims(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	where := map[string][]int64{}
	var nodes []lab.Node
	for i := range 8 {
		name := fmt.Sprintf("node-%d", i)
		nodes = append(nodes, lab.Node{Name: name, Machine: "halves"})
		for k := range 16 {
			where[name] = append(where[name], int64((k+1)%2))
		}
	}
	got := map[string]fates{}
	kinds := []struct{ name, profiles string }{
		{"default", "- schedulerName: default-scheduler\n"},
		{"Tenon", scheduler.Tenon},
		{"Tenon, claims: Prefer", strings.Replace(scheduler.Tenon, "unknownNodes", "claims: Prefer, unknownNodes", 1)},
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			w := start(ctx, t, lab.Config{Nodes: nodes,
				Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(strictConfig)}},
			}, kind.profiles)
			w.publish(ctx, t, "example.com/gpu", where)
			got[kind.name] = w.fatesOf(ctx, t, w.withClaims(ctx, t), where)
		})
	}
	t.Logf("%-22s %8s %10s %8s %8s", "scheduler", "aligned", "misaligned", "refused", "waiting")
	for _, kind := range kinds {
		f := got[kind.name]
		t.Logf("%-22s %8d %10d %8d %8d", kind.name, f.aligned, f.misaligned, f.refused, f.waiting)
	}
	plain, must, may := got["default"], got["Tenon"], got["Tenon, claims: Prefer"]
	switch {
	case must.misaligned > 0 || must.refused > 0 || must.aligned == 0:
		t.Errorf("with Tenon: %+v, want neither misaligned nor refused pods", must)
	case may.refused > 0 || may.aligned <= plain.aligned || may.misaligned >= plain.misaligned:
		t.Errorf("with claims: Prefer: %+v, want more aligned and fewer misaligned pods than without: %+v", may, plain)
	case plain.misaligned == 0:
		t.Errorf("with the default profile: %+v; the pods show nothing if none is misaligned", plain)
	}
}
