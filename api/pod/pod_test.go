package pod

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/core/place"
)

func sidecar(c v1.Container) v1.Container {
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// text renders a place.Pod in one line.
func text(p *place.Pod) string {
	s := []string{"BestEffort", "Burstable", "Guaranteed"}[p.QoS]
	if p.PodLevel {
		s += " pod-level"
	}
	for _, c := range p.Containers {
		s += fmt.Sprintf("; %s %s %dm", []string{"app", "init", "sidecar"}[c.Kind], c.Name, c.MilliCPU)
		for _, a := range c.Memory {
			s += fmt.Sprintf(" %s=%d", a.Kind, a.Bytes)
		}
		for _, d := range c.Devices {
			s += fmt.Sprintf(" %s=%d", d.Resource, d.N)
		}
	}
	return s
}

func TestToPlace(t *testing.T) {
	inits := func(p *v1.Pod, c ...v1.Container) *v1.Pod { p.Spec.InitContainers = c; return p }
	overhead := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
	overhead.Spec.Overhead = podtest.List("cpu=3 memory=5Gi")
	level := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
	level.Spec.Resources = &v1.ResourceRequirements{Requests: podtest.List("cpu=4 memory=2Ki"),
		Limits: podtest.List("cpu=4 memory=2Ki")}
	decided := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
	decided.Status.QOSClass = v1.PodQOSBurstable
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"nothing": {podtest.Pod("p", v1.Container{Name: "c"}), "BestEffort; app c 0m"},
		"requests below limits": {podtest.Pod("p", podtest.Box("c", "cpu=1 memory=1Ki", "cpu=2 memory=1Ki")),
			"Burstable; app c 1000m memory=1024"},
		"whole CPUs": {podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki")), "Guaranteed; app c 2000m memory=1024"},
		"parts of CPUs": {podtest.Pod("p", podtest.Exact("c", "cpu=1500m memory=1Ki")),
			"Guaranteed; app c 1500m memory=1024"},
		"parts too small to count are rounded up": {podtest.Pod("p", podtest.Exact("c", "cpu=1999500u memory=1500m")),
			"Guaranteed; app c 2000m memory=2"},
		"one container of two is not Guaranteed": {
			podtest.Pod("p", podtest.Exact("a", "cpu=2 memory=1Ki"), podtest.Box("b", "cpu=1", "")),
			"Burstable; app a 2000m memory=1024; app b 1000m"},
		"the order of the spec, init containers first": {
			inits(podtest.Pod("p", podtest.Exact("b", "cpu=1 memory=1"), podtest.Exact("a", "cpu=1 memory=1")),
				podtest.Exact("z", "cpu=1 memory=1"), sidecar(podtest.Exact("y", "cpu=1 memory=1"))),
			"Guaranteed; init z 1000m memory=1; sidecar y 1000m memory=1; app b 1000m memory=1; app a 1000m memory=1"},
		"hugepages by kind": {podtest.Pod("p", podtest.Exact("c", "cpu=1 memory=1 hugepages-2Mi=4Mi hugepages-1Gi=1Gi")),
			"Guaranteed; app c 1000m hugepages-1Gi=1073741824 hugepages-2Mi=4194304 memory=1"},
		"devices by name, from limits": {podtest.Pod("p", podtest.Box("c", "", "b.com/nic=2 a.com/gpu=1")),
			"BestEffort; app c 0m a.com/gpu=1 b.com/nic=2"},
		"native resources are no devices": {
			podtest.Pod("p", podtest.Exact("c", "cpu=1 memory=1 ephemeral-storage=1Gi "+
				"kubernetes.io/x=1 sub.kubernetes.io/y=1 notkubernetes.io/z=1")),
			"Guaranteed; app c 1000m memory=1"},
		"overhead is the sandbox's":     {overhead, "Guaranteed; app c 2000m memory=1024"},
		"pod-level resources":           {level, "Guaranteed pod-level; app c 2000m memory=1024"},
		"the API server said the class": {decided, "Burstable; app c 2000m memory=1024"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ToPlace(c.pod)
			if err != nil {
				t.Fatal(err)
			}
			if text(got) != c.want {
				t.Errorf("got  %s\nwant %s", text(got), c.want)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A kubelet reads quantities as the API server writes them: 1000m is one byte there.
func TestFractionsOfBytesAreMarked(t *testing.T) {
	for amount, want := range map[string]place.Amount{
		"1.1Gi": {Kind: "memory", Bytes: 1181116007, Fractional: true},
		"0.1":   {Kind: "memory", Bytes: 1, Fractional: true},
		"512m":  {Kind: "memory", Bytes: 1, Fractional: true},
		"1000m": {Kind: "memory", Bytes: 1},
		"1.5Gi": {Kind: "memory", Bytes: 3 << 29},
		"1.1G":  {Kind: "memory", Bytes: 1100000000},
	} {
		got, err := ToPlace(podtest.Pod("p", podtest.Exact("c", "cpu=1 memory="+amount)))
		if err != nil || got.Containers[0].Memory[0] != want {
			t.Errorf("%s: %+v (%v), want %+v", amount, got.Containers[0].Memory, err, want)
		}
	}
}

func TestPodLevelResourcesAreNotAligned(t *testing.T) {
	p := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1Ki"))
	p.Spec.Resources = &v1.ResourceRequirements{Limits: podtest.List("cpu=4 memory=2Ki")}
	got, err := ToPlace(p)
	if err != nil || !got.Plain() {
		t.Errorf("pod %s is to be aligned (%v)", text(got), err)
	}
}

// A container counts as unequal by the kubelet's rule: it lacks CPU or memory, or has another request than its limit.
func TestPodsRequestResourcesAsAWhole(t *testing.T) {
	p := podtest.Pod("p", podtest.Exact("own", "cpu=2 memory=1Gi"), podtest.Exact("cpuless", "memory=1Gi"),
		podtest.Exact("more", "cpu=1 memory=1Gi"))
	p.Spec.Containers[2].Resources.Limits = podtest.List("cpu=2 memory=1Gi")
	amounts := podtest.List("cpu=4500m memory=4Gi hugepages-2Mi=2Mi")
	p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts, Limits: amounts}
	got, err := ToPlace(p)
	if err != nil {
		t.Fatal(err)
	}
	want := place.Whole{MilliCPU: 4500, Memory: []place.Amount{{Kind: "hugepages-2Mi", Bytes: 2 << 20},
		{Kind: "memory", Bytes: 4 << 30}}}
	if !reflect.DeepEqual(got.Whole, want) || got.QoS != place.Guaranteed {
		t.Errorf("pod is %s and requests %+v as a whole, want %+v", got.QoS, got.Whole, want)
	}
	for i, want := range []bool{false, true, true} {
		if c := got.Containers[i]; c.Unequal != want {
			t.Errorf("container %s is unequal: %t", c.Name, c.Unequal)
		}
	}
	p.Spec.Resources.Requests = podtest.List("cpu=9E")
	if _, err := ToPlace(p); err == nil || !strings.Contains(err.Error(), "resources of the pod: cpu: quantity 9E") {
		t.Errorf("error is %v", err)
	}
}

func TestQuantitiesBeyondAnyMachineAreRefused(t *testing.T) {
	for _, c := range []struct{ amount, want string }{
		{"cpu=-1", "container c: cpu: quantity -1 is outside 0..1125899906842624"},
		{"memory=-1Gi", "container c: memory: quantity -1Gi is outside"},
		{"memory=2Pi", "container c: memory: quantity 2Pi is outside"},
		{"cpu=9E", "container c: cpu: quantity 9E is outside"},
		{"hugepages-1Gi=7E", "container c: hugepages-1Gi: quantity 7E is outside"},
		{"a.com/gpu=-2", "container c: a.com/gpu: quantity -2 is outside"},
		{"a.com/gpu=4611686018427387904", "container c: a.com/gpu: quantity 4611686018427387904 is outside"},
	} {
		_, err := ToPlace(podtest.Pod("p", podtest.Exact("c", c.amount)))
		if err == nil || !strings.HasPrefix(err.Error(), "pod default/p: "+c.want) {
			t.Errorf("%s: error %v, want %s", c.amount, err, c.want)
		}
		init := podtest.Pod("p", podtest.Exact("a", "cpu=1"))
		init.Spec.InitContainers = []v1.Container{podtest.Exact("c", c.amount)}
		if _, err := ToPlace(init); err == nil || !strings.HasPrefix(err.Error(), "pod default/p: init "+c.want) {
			t.Errorf("%s in an init container: error %v", c.amount, err)
		}
	}
}

// A quantity of a few bytes must not cost more than any other: expanding these takes practically forever.
func TestQuantitiesWithWildExponentsAreRefusedAtOnce(t *testing.T) {
	const bound = " is outside 0..1125899906842624"
	for _, c := range []struct{ amount, want string }{
		{"cpu=1e2000000000", "cpu: quantity about +Inf" + bound},
		{"cpu=-1e2000000000", "cpu: quantity about -Inf" + bound},
		{"memory=1e100", "memory: quantity about 1e+100" + bound},
		{"hugepages-1Gi=7e1999999999", "hugepages-1Gi: quantity about +Inf" + bound},
		{"a.com/gpu=1e2147483647", "a.com/gpu: quantity about +Inf" + bound},
	} {
		p := podtest.Pod("p", podtest.Exact("c", c.amount), podtest.Exact("d", "cpu=1 memory=1 a.com/gpu=1"),
			podtest.Box("e", "cpu=1", "cpu=1e2000000000"))
		p.Spec.Overhead = podtest.List("cpu=1e1999999999")
		if _, err := ToPlace(p); err == nil || err.Error() != "pod default/p: container c: "+c.want {
			t.Errorf("%s: error %v, want %s", c.amount, err, c.want)
		}
	}
	zero := podtest.Pod("p", podtest.Exact("c", "cpu=0e2000000000 memory=0e1999999999 a.com/gpu=0e2000000000"),
		podtest.Exact("d", "cpu=0e1000000000"))
	if got, err := ToPlace(zero); err != nil || text(got) != "BestEffort; app c 0m memory=0 a.com/gpu=0; app d 0m" {
		t.Errorf("zeros with an exponent: %v, %v", got, err)
	}
}

// Pods come out of an informer's cache that others read.
func TestThePodIsNotChanged(t *testing.T) {
	p := podtest.Pod("p", podtest.Exact("c", "cpu=2 memory=1500m a.com/gpu=1"), podtest.Exact("d", "cpu=1 memory=1Gi"))
	p.Annotations = map[string]string{PolicyAnnotation: "restricted"}
	spare := make([]v1.Container, 1, 8)
	spare[0] = podtest.Exact("i", "cpu=1 memory=1Gi")
	p.Spec.InitContainers = spare
	before := p.DeepCopy()
	if _, err := ToPlace(p); err != nil {
		t.Fatal(err)
	}
	if _, err := Demand(p); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(before, p) {
		t.Error("the pod was changed")
	}
	for _, c := range spare[:cap(spare)][1:] {
		if c.Name != "" {
			t.Errorf("container %s was written behind the init containers", c.Name)
		}
	}
}
