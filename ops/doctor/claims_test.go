package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/ops/doctor"
)

// publish has a driver publish devices of the node, one for each attribute.
func (w *world) publish(driver, attribute string, values ...resourcev1.DeviceAttribute) {
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: new("node"),
		Pool: resourcev1.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1}}
	for i, v := range values {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("d%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{resourcev1.QualifiedName(attribute): v}})
	}
	w.snapshot.Slices = append(w.snapshot.Slices, s)
}

// gpus has a driver publish two GPUs on each NUMA node: d0 and d1 on 0, d2 and d3 on 1.
func (w *world) gpus() {
	w.publish("gpu.example.com", "resource.kubernetes.io/numaNode", number(0), number(0), number(1), number(1))
}

func number(n int64) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{IntValue: &n} }

// claim gives devices of the driver of gpus to a pod that runs on the node.
func (w *world) claim(p *v1.Pod, devices ...string) {
	c := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "of-" + p.Name}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: "gpu.example.com", Pool: "node", Device: d})
	}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	w.snapshot.Claims = append(w.snapshot.Claims, c)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &c.Name}}
}

func wrongClaims() map[string]func(*world) {
	return map[string]func(*world){
		"slices-faulty": func(w *world) {
			w.gpus()
			w.snapshot.Slices[0].Spec.Pool.ResourceSliceCount = 2
		},
		"claim-devices-without-locality": func(w *world) { w.publish("nic.example.com", "model", number(1)) },
		"cpus-given-twice":               func(w *world) { w.publish("dra.cpu", "numaNodeID", number(0), number(1)) },
		"resource-from-claims": func(w *world) {
			w.gpus()
			w.plugin, w.served = "example.com/gpu", map[string]bool{"example.com/gpu": true}
		},
		"claim-misaligned": func(w *world) {
			w.gpus()
			w.claim(&w.pods[0], "d2") // its CPUs are on NUMA node 0
		},
	}
}

// What a claim got is compared with what the kubelet gave, or with what was free.
func TestClaimsLieBesideTheirPods(t *testing.T) {
	shared := func(name string) *v1.Pod {
		p := kubetest.Admitted(kubetest.CPUs(name, 1), "node")
		p.Spec.SchedulerName = "tenon-scheduler"
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		return p
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   string // a part of the evidence, or "" for no finding
	}{
		"beside its CPUs": {func(w *world) { w.claim(&w.pods[0], "d0", "d1") }, ""},
		"one of two elsewhere": {func(w *world) { w.claim(&w.pods[0], "d0", "d2") },
			"claim default/of-fine: device gpu.example.com/node/d2 is on NUMA node 1"},
		"the CPUs are named": {func(w *world) { w.claim(&w.pods[0], "d3") },
			"its CPUs, memory and devices of plugins are on NUMA node 0"},
		"without CPUs, together": {func(w *world) {
			w.pods = append(w.pods, *shared("light"))
			w.claim(&w.pods[1], "d2", "d3")
		}, ""},
		"without CPUs, apart": {func(w *world) {
			w.pods = append(w.pods, *shared("light"))
			w.claim(&w.pods[1], "d1", "d2")
		}, "claim default/of-light: device gpu.example.com/node/d1 is on NUMA node 0"},
		"without CPUs, apart, as nothing else was free": {func(w *world) {
			w.pods = append(w.pods, *shared("light"), *shared("first"), *shared("second"))
			w.claim(&w.pods[1], "d1", "d2")
			w.claim(&w.pods[2], "d0")
			w.claim(&w.pods[3], "d3")
		}, ""},
		"more than a NUMA node has": {func(w *world) {
			w.pods = append(w.pods, *shared("light"))
			w.claim(&w.pods[1], "d0", "d1", "d2")
		}, ""},
		"a device that nobody publishes": {func(w *world) { w.claim(&w.pods[0], "gone") }, ""},
		"of a pod that has ended": {func(w *world) {
			p := shared("ended")
			p.Status.Phase = v1.PodSucceeded
			w.pods = append(w.pods, *p)
			w.claim(&w.pods[1], "d1", "d2")
		}, ""},
	} {
		w := healthy()
		w.gpus()
		c.change(w)
		d := w.examine(t, doctor.Options{})
		var evidence []string
		for _, f := range d.Findings {
			if f.ID != "claim-misaligned" {
				t.Errorf("%s: finding %+v", name, f)
			}
			for _, o := range f.Objects {
				evidence = append(evidence, o.Evidence...)
			}
		}
		if (len(evidence) > 0) != (c.want != "") || c.want != "" && !slices.Contains(evidence, c.want) {
			t.Errorf("%s: evidence\n%s\nwant %q", name, strings.Join(evidence, "\n"), c.want)
		}
	}
}

// A node's device plugin goes before a DeviceClass, and devices of a class are on nodes where drivers publish some.
func TestADeviceClassThatTakesOver(t *testing.T) {
	const resource = "example.com/gpu"
	for name, c := range map[string]struct {
		change func(*world)
		want   []string
	}{
		"the plugin is on another node": {func(*world) {}, []string{"resource-from-claims"}},
		"the plugin is here, too":       {func(w *world) { w.machine += "device " + resource + " b numa 1\n" }, nil},
		"no driver is here":             {func(w *world) { w.snapshot.Slices = nil }, nil},
		"nobody aligned it":             {func(w *world) { w.plugin = "" }, nil},
		"a class of another resource":   {func(w *world) { w.served = map[string]bool{"example.com/fpga": true} }, nil},
	} {
		w := healthy()
		w.gpus()
		w.plugin, w.served = resource, map[string]bool{resource: true}
		c.change(w)
		if got := ids(w.examine(t, doctor.Options{})); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A pod whose extended resource DRA serves has a claim that its spec does not name. The pod owns that claim; another
// one that its status names counts for nothing.
func TestTheClaimOfAnExtendedResource(t *testing.T) {
	w := healthy()
	w.gpus()
	w.claim(&w.pods[0], "d2")
	w.pods[0].Spec.ResourceClaims = nil
	w.pods[0].Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "of-fine"}
	if got := ids(w.examine(t, doctor.Options{})); len(got) > 0 {
		t.Errorf("found %v of a claim that the pod does not own", got)
	}
	w.snapshot.Claims[0].OwnerReferences = []metav1.OwnerReference{{UID: w.pods[0].UID, Controller: new(true)}}
	if got := ids(w.examine(t, doctor.Options{})); !slices.Equal(got, []string{"claim-misaligned"}) {
		t.Errorf("found %v", got)
	}
}

// The status of a claim may name any pod, and devices that share something are not surely free.
func TestWhatClaimsAndSlicesMayNotCause(t *testing.T) {
	light := func(w *world) {
		p := kubetest.Admitted(kubetest.CPUs("light", 1), "node")
		p.Spec.SchedulerName = "tenon-scheduler"
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		w.pods = append(w.pods, *p)
		w.publish("gpu.example.com", "resource.kubernetes.io/numaNode", number(0), number(1), number(0))
		w.claim(&w.pods[1], "d0", "d1")
	}
	for name, change := range map[string]func(*world){
		"a claim of another namespace": func(w *world) {
			w.gpus()
			w.claim(&w.pods[0], "d0")
			c := *w.snapshot.Claims[0].DeepCopy()
			c.Namespace, c.Status.Allocation.Devices.Results[0].Device = "evil", "d3"
			w.snapshot.Claims = append(w.snapshot.Claims, c)
		},
		"a claim that the pod does not name": func(w *world) {
			w.gpus()
			w.claim(&w.pods[0], "d3")
			w.pods[0].Spec.ResourceClaims[0].ResourceClaimName = new("another")
		},
		"parts of one device": func(w *world) {
			light(w)
			for i, gpu := range []string{"gpu-0", "gpu-1", "gpu-0"} { // d0 is the whole of a GPU, d2 a part of it
				w.snapshot.Slices[0].Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: gpu}}
			}
		},
		"a tainted device": func(w *world) {
			light(w)
			w.snapshot.Slices[0].Spec.Devices[2].Taints = []resourcev1.DeviceTaint{{Key: "broken",
				Effect: resourcev1.DeviceTaintEffectNoExecute}}
		},
	} {
		w := healthy()
		change(w)
		if got := ids(w.examine(t, doctor.Options{})); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	w := healthy()
	light(w)
	if got := ids(w.examine(t, doctor.Options{})); !slices.Equal(got, []string{"claim-misaligned"}) {
		t.Errorf("with a free device: %v", got)
	}
}

// Without the right to DeviceClasses nothing is known of the resources that they serve.
func TestUnreadDeviceClassesAreNamed(t *testing.T) {
	w := healthy()
	w.machine += "device example.com/nic nic-0 numa 0\n"
	s := w.read(t)
	s.View.Served = nil
	s.View.Miss("deviceclasses", "you may not list them")
	d, err := doctor.Examine(s, doctor.Options{})
	if err != nil || len(d.Findings) > 0 || len(d.Limits) != 1 {
		t.Errorf("findings %v, not examined %v (%v), want deviceclasses", d.Findings, d.Limits, err)
	}
}

// Nothing can lie apart on a machine with one NUMA node, and where a layout lists the PCI function of a device, the
// driver need not say where it is.
func TestDevicesWithoutNUMANodes(t *testing.T) {
	address := func(w *world) {
		at := "0000:3b:00.0"
		w.publish("nic.example.com", "resource.kubernetes.io/pciBusID", resourcev1.DeviceAttribute{StringValue: &at})
	}
	w := healthy()
	address(w)
	if got := ids(w.examine(t, doctor.Options{})); !slices.Equal(got, []string{"claim-devices-without-locality"}) {
		t.Errorf("with an unknown address: %v", got)
	}
	w = healthy()
	address(w)
	w.layout = func(l *v1alpha1.NodeLayout) {
		l.Machine.Functions = []v1alpha1.Function{{Address: "0000:3b:00.0", Class: "nic", ID: "15b3:1021", NUMAs: "1"}}
	}
	if got := ids(w.examine(t, doctor.Options{})); len(got) > 0 {
		t.Errorf("with the address of a function in the layout: %v", got)
	}
	w = healthy()
	address(w)
	w.machine, w.entries = "numa 0 socket 0 cpus 0-15 memory 128Gi\n", []state.Entry{}
	w.pods, w.rules.CPU.Reserved, w.rules.Memory.Reserved = nil, cpus("0"), w.rules.Memory.Reserved[:1]
	w.rules.Memory.Reserved[0].Bytes = 2 << 30
	if got := ids(w.examine(t, doctor.Options{})); len(got) > 0 {
		t.Errorf("on a machine with one NUMA node: %v", got)
	}
}
