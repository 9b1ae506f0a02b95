package kubelet_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/machines"
)

// admitted is a machine's managers and their pods.
type admitted struct {
	*kubelet.Managers

	mu   sync.Mutex // the CPU manager has a loop of its own that asks for pods
	pods []*v1.Pod
}

func (a *admitted) active() []*v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.pods)
}

func (a *admitted) change(do func(pods []*v1.Pod) []*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods = do(a.pods)
}

func managers(t *testing.T, name string) *admitted {
	t.Helper()
	m, err := machines.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return managersOf(t, m, m.Kubelet)
}

// managersOf starts the managers of a kubelet with a configuration on a machine.
func managersOf(t *testing.T, m machines.Machine, config *configv1beta1.KubeletConfiguration) *admitted {
	t.Helper()
	dir, err := os.MkdirTemp("", "tenon")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &admitted{}
	a.Managers, err = kubelet.NewManagers(t.Context(), dir, m.Topo, config, a.active)
	if err != nil {
		t.Fatalf("%s: %v", m.Name, err)
	}
	t.Cleanup(func() { a.Stop() })
	return a
}

// admit offers a Guaranteed pod of one container; want is the reason of the refusal, or empty.
func (a *admitted) admit(t *testing.T, name, want string, amounts map[v1.ResourceName]string) place.Holding {
	t.Helper()
	list := v1.ResourceList{}
	for k, v := range amounts {
		list[k] = resource.MustParse(v)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	a.change(func(pods []*v1.Pod) []*v1.Pod { return append(pods, pod) })
	if r := a.Admit(pod); r.Admit != (want == "") || r.Reason != want {
		t.Fatalf("pod %s: admitted %v, reason %q (%s); want %q", name, r.Admit, r.Reason, r.Message, want)
	}
	return a.Holding(pod.UID, "c")
}

// On every machine of the catalogue a kubelet starts: its reservations add up.
func TestEveryMachineServesAPod(t *testing.T) {
	for _, name := range machines.List() {
		t.Run(name, func(t *testing.T) {
			managers(t, name).admit(t, "pod", "", map[v1.ResourceName]string{"cpu": "4", "memory": "1Gi"})
		})
	}
}

func TestSingleNUMAMachine(t *testing.T) {
	a := managers(t, "xeon-2s")
	h := a.admit(t, "dpdk", "", map[v1.ResourceName]string{
		"cpu": "4", "memory": "2Gi", "hugepages-1Gi": "4Gi", "intel.com/sriov_vf": "2"})
	// CPUs 0 and 56 are the first core, which is reserved.
	if got := h.CPUs.String(); got != "1-2,57-58" {
		t.Errorf("CPUs %s, want 1-2,57-58", got)
	}
	if len(h.Devices) != 1 || len(h.Devices[0].IDs) != 2 || h.Devices[0].NUMAs != 1 {
		t.Errorf("devices %+v, want two of NUMA node 0", h.Devices)
	}
	kinds := map[string]int64{}
	for _, b := range h.Memory {
		if kinds[b.Kind] += b.Bytes; b.NUMAs != 1 {
			t.Errorf("block %+v is not on NUMA node 0", b)
		}
	}
	if kinds["memory"] != 2<<30 || kinds["hugepages-1Gi"] != 4<<30 {
		t.Errorf("memory %v", kinds)
	}
	a.admit(t, "wide", "TopologyAffinityError", map[v1.ResourceName]string{"cpu": "60", "memory": "2Gi"})
	a.admit(t, "odd", "SMTAlignmentError", map[v1.ResourceName]string{"cpu": "3", "memory": "2Gi"})
}

// NUMA nodes 0, 8 and the CPU-less 16 are positions 0, 1 and 2.
func TestMemoryWithoutCPUs(t *testing.T) {
	h := managers(t, "sparse").admit(t, "big", "", map[v1.ResourceName]string{"cpu": "4", "memory": "300Gi"})
	if h.CPUs.Len() != 4 || len(h.Memory) != 1 || h.Memory[0].NUMAs.Len() != 2 {
		t.Errorf("holding %+v, want memory of two NUMA nodes", h)
	}
}

func TestCollectFreesWhatNoActivePodHolds(t *testing.T) {
	a := managers(t, "gpu-8")
	all := map[v1.ResourceName]string{"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4"}
	a.admit(t, "one", "", all)
	a.admit(t, "two", "", all)
	gone := a.active()[0]
	a.change(func(pods []*v1.Pod) []*v1.Pod { return pods[1:] })
	a.Forget(gone)
	a.Collect()
	if h := a.Holding(gone.UID, "c"); !h.Empty() {
		t.Errorf("pod that is gone still holds %+v", h)
	}
	if h := a.admit(t, "three", "", all); h.Devices[0].NUMAs.Len() != 1 {
		t.Errorf("devices %+v, want one NUMA node", h.Devices)
	}
}

func TestNewManagersRefuses(t *testing.T) {
	m, err := machines.Load("xeon-2s")
	if err != nil {
		t.Fatal(err)
	}
	m.Kubelet.ReservedMemory = m.Kubelet.ReservedMemory[:1]
	if _, err := kubelet.NewManagers(context.Background(), t.TempDir(), m.Topo, m.Kubelet, nil); err == nil {
		t.Error("reservations that do not add up are accepted")
	}
	m.Kubelet.TopologyManagerPolicy = "single"
	if _, err := kubelet.NewManagers(context.Background(), t.TempDir(), m.Topo, m.Kubelet, nil); err == nil {
		t.Error("a policy that does not exist is accepted")
	}
}
