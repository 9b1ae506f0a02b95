package pod_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/topo"
)

func requests(cpu, memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
		v1.ResourceMemory: resource.MustParse(memory)}}
}

func TestShares(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	p := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Resources: requests("4", "1Gi")},
			{Resources: requests("100m", "16Mi"), RestartPolicy: &always}},
		Containers: []v1.Container{{Resources: requests("250m", "32Mi")}, {}}}}
	if cpu, bytes := pod.Shares(p); cpu != 350 || bytes != 48<<20 {
		t.Errorf("%d milli-CPU and %d bytes, want 350 and 48Mi: the sidecar counts, and the init container ends", cpu, bytes)
	}
	whole := requests("2", "1Gi")
	p.Spec.Resources = &whole
	if cpu, bytes := pod.Shares(p); cpu != 2000 || bytes != 1<<30 {
		t.Errorf("%d milli-CPU and %d bytes, want those of the pod as a whole", cpu, bytes)
	}
	for _, hostile := range []string{"1e1000000", "9E", "-1"} {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: requests(hostile, hostile)},
			{Resources: requests(hostile, hostile)}}}}
		cpu, bytes := pod.Shares(p)
		if cpu < 0 || bytes < 0 || cpu > topo.MaxBytes || bytes > topo.MaxBytes || hostile != "-1" && cpu == 0 {
			t.Errorf("%s: %d milli-CPU and %d bytes", hostile, cpu, bytes)
		}
	}
}

func TestAffinityGroup(t *testing.T) {
	for value, want := range map[string]string{"cart": "shop/cart", "": "", "a\nb": "", string(make([]byte, 64)): ""} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
			Annotations: map[string]string{pod.AffinityGroupAnnotation: value}}}
		if got := pod.AffinityGroup(p); got != want {
			t.Errorf("group %q is %q, want %q", value, got, want)
		}
	}
}
