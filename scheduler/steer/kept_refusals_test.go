package steer_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// offered has the devices of a node that a pod may get, and hides them from others.
type offered [][]claims.ID

func (o offered) Hidden() map[claims.ID]bool {
	out := map[claims.ID]bool{}
	for _, id := range slices.Concat(o...) {
		out[id] = true
	}
	return out
}

func (o offered) Offers(fwk.CycleState, *v1.Pod, map[claims.ID]bool) map[string][][]claims.ID {
	return map[string][][]claims.ID{"node": o}
}

func (o offered) Take(fwk.CycleState, *v1.Pod, []claims.ID) bool { return true }

// Where a pod would be on a node is predicted in advance only if it decides which of several devices the pod gets.
func TestPredictionsForOffers(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1)
	var all offered
	for _, name := range []string{"gpu-0", "gpu-1"} {
		all = append(all, []claims.ID{{Driver: gpuDriver, Pool: "node", Name: name}})
	}
	for n, want := range map[int]int{1: 0, 2: 1} {
		b.plugin.Heed(all[:n])
		b.predictions, b.near = 0, steer.Near{NUMAs: []int{n - 1}, Must: true}
		pod := podNamed("one")
		b.claims = map[string]*resourcev1.ResourceClaim{}
		b.claim(pod, counted(1))
		cs, info := framework.NewCycleState(), framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
		if _, s := b.plugin.PreFilter(t.Context(), cs, pod, []fwk.NodeInfo{info}); !s.IsSuccess() {
			t.Fatal(s.Message())
		}
		if b.predictions != want {
			t.Errorf("with %d offers, %d predictions", n, b.predictions)
		}
		if s := b.plugin.Filter(t.Context(), cs, pod, info); !s.IsSuccess() {
			t.Errorf("with %d offers, the pod gets no device: %s", n, s.Message())
		}
	}
}

// keptFrom has devices that are kept from every pod.
type keptFrom map[claims.ID]bool

func (k keptFrom) Hidden() map[claims.ID]bool { return k }

func (k keptFrom) Offers(fwk.CycleState, *v1.Pod, map[claims.ID]bool) map[string][][]claims.ID {
	return nil
}

func (k keptFrom) Take(fwk.CycleState, *v1.Pod, []claims.ID) bool { return true }

// A node is refused because of devices that are kept only where more devices could help: such a refusal passes, and
// others stay as they are.
func TestRefusalsWhereDevicesAreKept(t *testing.T) {
	fails := `device.attributes["gpu.example.com"].model == "a"`
	for _, c := range []struct {
		name, align, expression string
		near                    []int
		must                    bool
		code                    fwk.Code
		says                    string
		kept                    bool
	}{
		{"no device is free", "", `"model" in device.attributes["gpu.example.com"]`, nil, false, fwk.Unschedulable,
			"cannot allocate all claims", true},
		{"the near device is kept", "", "true", []int{0}, true, fwk.Unschedulable,
			"the pod's claims get no devices on NUMA node 0", true},
		{"the demanded near device is kept", "class:gpu", "true", []int{0}, false, fwk.Unschedulable,
			"the pod's claims get no devices on NUMA node 0", true},
		{"no device of the driver is located", "driver:nic.example.com", "true", []int{1}, false,
			fwk.UnschedulableAndUnresolvable, "no device of driver nic.example.com has a known NUMA node", false},
		{"an expression fails on the near device", "", fails, []int{1}, true, fwk.UnschedulableAndUnresolvable,
			"cannot find out", false},
	} {
		b := newBench(t)
		devices := b.gpus(0, 1, 0)
		devices[0].Attributes["model"] = resourcev1.DeviceAttribute{StringValue: new("a")}
		b.plugin.Heed(keptFrom{{Driver: gpuDriver, Pool: "node", Name: "gpu-2"}: true})
		if !slices.Contains(c.near, 1) {
			b.taken.Insert(idOf("gpu-0"))
		}
		b.near = steer.Near{NUMAs: c.near, Must: c.must, Unknown: c.near == nil}
		pod := podNamed("one")
		spec := counted(1)
		spec.Requests[0].Exactly.Selectors = selector(c.expression)
		if b.claim(pod, spec); c.align != "" {
			pod.Annotations = map[string]string{"tenon.sh/align": c.align}
		}
		cs, info := framework.NewCycleState(), framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
		if _, s := b.plugin.PreFilter(t.Context(), cs, pod, []fwk.NodeInfo{info}); !s.IsSuccess() {
			t.Fatalf("%s: %s", c.name, s.Message())
		}
		s := b.plugin.Filter(t.Context(), cs, pod, info)
		kept := strings.Contains(s.Message(), "some devices there are kept for pods that have not come yet")
		if s.Code() != c.code || !strings.Contains(s.Message(), c.says) || kept != c.kept {
			t.Errorf("%s: %s: %s", c.name, s.Code(), s.Message())
		}
	}
}
