package summary

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Sentences about nodes that are judged as the commands do it.

const half = "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n" +
	"device example.com/gpu g0 numa 0\n"

var single = place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}

// judged makes the sentence of one node.
func judged(n *whatif.Node, w *whatif.Want) Summary {
	r := whatif.Rules{}
	j := r.Judge(n, w, nil)
	f := Facts{Namespace: "ml", Nodes: []Node{{Name: n.Name, Reasons: j.Reasons}}}
	asked := false
	f.Soonest = r.Soonest(func() *whatif.Node {
		if asked || j.Fits() || j.When() != place.Later {
			return nil
		}
		asked = true
		return n
	}, w)
	f.Fitting = func(_ int, r place.Reason) int64 { return n.Fitting(w, r) }
	return Of(&f)
}

// nodeOf makes a node without pods that offers nearly all of a machine.
func nodeOf(t *testing.T, text string, r place.Rules) whatif.Node {
	t.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &state.Node{Name: "a", Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	all := whatif.Amounts{"cpu": int64(s.Usage.FreeCPUs().Len()) * 1000, "memory": 60 << 30, "pods": 110}
	for _, d := range m.Resources() {
		all[d.Name] = int64(len(d.Devices))
	}
	return whatif.Node{Name: "a", State: s, Allocatable: all, Used: whatif.Amounts{}}
}

func guaranteed(cs ...place.Container) *whatif.Want {
	w := &whatif.Want{Pod: &place.Pod{QoS: place.Guaranteed, Containers: cs}, Needs: whatif.Amounts{"pods": 1}}
	for i := range cs {
		w.Needs["cpu"] += cs[i].MilliCPU
		for _, m := range cs[i].Memory {
			w.Needs[m.Kind] += m.Bytes
		}
		for _, d := range cs[i].Devices {
			w.Needs[d.Resource] += d.N
		}
	}
	return w
}

// sized makes a container with whole CPUs and GiB of memory.
func sized(name string, cpus, gib int64, devices ...place.Count) place.Container {
	return place.Container{Name: name, MilliCPU: cpus * 1000, Devices: devices,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: gib << 30}}}
}

func hold(t *testing.T, n *whatif.Node, id string, w *whatif.Want) {
	t.Helper()
	next, ok := n.State.With(state.PodID{UID: id, Namespace: "ml", Name: id}, w.Pod)
	if !ok {
		t.Fatal("the other pod does not fit")
	}
	n.State = next
	n.Used = n.Used.Add(w.Needs)
	n.Pods = append(n.Pods, whatif.Resident{Pod: state.PodID{UID: id, Namespace: "ml", Name: id}, Needs: w.Needs})
}

// On the empty node the first container takes the CPUs beside the only GPU. A pod that is there already pushes it to
// the other NUMA node, so that the end of yet another pod makes room.
func TestAPodThatFitsBesideOthersIsNotRefusedForGood(t *testing.T) {
	w := guaranteed(sized("prepare", 12, 1), sized("train", 6, 1, place.Count{Resource: "example.com/gpu", N: 1}))
	n := nodeOf(t, half, single)
	const want = `Not without a change: not on the empty node either: container "train" `
	if s := judged(&n, w); s.Kind != Changed || !strings.HasPrefix(s.Text, want) {
		t.Errorf("on the empty node: %s: %q, want %q", s.Kind, s.Text, want)
	}
	hold(t, &n, "first", guaranteed(sized("c", 8, 1)))
	if s := judged(&n, w); s.Kind != Fits {
		t.Fatalf("beside one pod: %s: %q", s.Kind, s.Text)
	}
	hold(t, &n, "second", guaranteed(sized("c", 6, 1)))
	if s := judged(&n, w); s.Kind == Never {
		t.Errorf("beside two pods: %q, but the pod fits once pod second ends", s.Text)
	}
	w = guaranteed(sized("prepare", 12, 1), sized("train", 20, 1))
	if s := judged(&n, w); s.Kind != Never || !strings.Contains(s.Text, `container "train" wants 20 cpu on one NUMA node`) {
		t.Errorf("a container that is too large: %s: %q", s.Kind, s.Text)
	}
}

// Which GPU the first container leaves is chance, and decides whether the kubelet admits the second.
func TestARefusalByChanceIsNotForGood(t *testing.T) {
	n := nodeOf(t, "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n"+
		"device example.com/gpu g0,g1 numa 0\ndevice example.com/gpu g2,g3 numa 1\ndevice example.com/nic n0 numa 0\n",
		place.Rules{Topology: place.TopologyRules{Policy: place.Restricted}})
	gpus := func(n int64) place.Count { return place.Count{Resource: "example.com/gpu", N: n} }
	w := guaranteed(sized("a", 0, 0, gpus(3)), sized("b", 0, 0, gpus(1), place.Count{Resource: "example.com/nic", N: 1}))
	if v := place.Place(n.State.Usage, w.Pod); v.Fits() || !v.Chance {
		t.Fatalf("%+v is no refusal by chance", v)
	}
	const want = "; that depends on which devices the node takes"
	if s := judged(&n, w); s.Kind != Changed || !strings.Contains(s.Text, want) {
		t.Errorf("%s: %q", s.Kind, s.Text)
	}
}

// A GPU that is unhealthy now, or a device plugin that restarts, may recover.
func TestUnhealthyDevicesMayRecover(t *testing.T) {
	const two = "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n"
	gpus := func(n int64) *whatif.Want {
		return guaranteed(sized("c", 1, 1, place.Count{Resource: "example.com/gpu", N: n}))
	}
	n := nodeOf(t, two+"device example.com/gpu g0 numa 0\ndevice example.com/gpu g1 numa 0 unhealthy\n", single)
	n.Allocatable["example.com/gpu"] = 1 // as the kubelet reports it
	if s := judged(&n, gpus(2)); s.Kind != NotNow {
		t.Errorf("2 GPUs, one of them unhealthy: %s: %q", s.Kind, s.Text)
	}
	if s := judged(&n, gpus(3)); s.Kind != Never {
		t.Errorf("3 GPUs of 2: %s: %q", s.Kind, s.Text)
	}
	known := whatif.Node{Name: "a", Allocatable: whatif.Amounts{"cpu": 1000, "memory": 64 << 30, "pods": 9,
		"example.com/gpu": 1}, Capacity: whatif.Amounts{"example.com/gpu": 2}}
	for want, kind := range map[int64]Kind{2: NotNow, 3: Never} {
		w := gpus(want)
		w.Pod = &place.Pod{QoS: place.Burstable}
		if s := judged(&known, w); s.Kind != kind {
			t.Errorf("without a layout, %d GPUs of a capacity of 2: %s: %q", want, s.Kind, s.Text)
		}
	}
	// The pod selects the nodes with GPUs, as such pods do.
	gone := nodeOf(t, two, single)
	j := whatif.Rules{}.Judge(&gone, gpus(2), nil)
	s := Of(&Facts{Nodes: []Node{{Name: "cpu-1", Reasons: []place.Reason{{Code: place.Unselected, Resource: "gpu=yes"}}},
		{Name: "gpu-1", Reasons: j.Reasons}}})
	const text = "Wrong name, or its device plugin does not run: none of the 1 node that it selects offers example.com/gpu"
	if s.Kind != WrongName || s.Text != text {
		t.Errorf("%s: %q, want %q", s.Kind, s.Text, text)
	}
}

// A resource with a misspelt name is not offered, and another one may be meant.
func TestAMisspeltResourceIsNamed(t *testing.T) {
	n := nodeOf(t, half, single)
	j := whatif.Rules{}.Judge(&n, guaranteed(sized("c", 1, 1, place.Count{Resource: "example.com/gpus", N: 1})), nil)
	s := Of(&Facts{Nodes: []Node{{Name: n.Name, Reasons: j.Reasons}}, Offered: n.Extended})
	if s.Kind != WrongName || s.Text != "Wrong name, or its device plugin does not run: no node offers "+
		"example.com/gpus; example.com/gpu may be meant" {
		t.Errorf("%s: %q", s.Kind, s.Text)
	}
}

// An amount of one resource that "would fit" does not fit if another amount is missing for good, too.
func TestWhatWouldFitIsSaidOfAllThatIsMissing(t *testing.T) {
	n := nodeOf(t, half, place.Rules{})
	w := guaranteed(sized("c", 320, 80))
	w.Pod.QoS = place.Burstable
	if s := judged(&n, w); s.Kind != Never || strings.Contains(s.Text, "would fit") {
		t.Errorf("320 CPUs of 32 and 80 GiB of 60: %s: %q", s.Kind, s.Text)
	}
	w = guaranteed(sized("c", 320, 8))
	w.Pod.QoS = place.Burstable
	if s := judged(&n, w); !strings.HasSuffix(s.Text, "; 32 cpu would fit on the empty node") {
		t.Errorf("320 CPUs of 32: %s: %q", s.Kind, s.Text)
	}
}

// The remedy of a pod that waits names an amount that fits now. The sum of what NUMA nodes have left does not fit.
func TestTheAmountThatFitsNowIsNotTheSumOfNUMANodes(t *testing.T) {
	n := nodeOf(t, half, single)
	hold(t, &n, "first", guaranteed(sized("c", 14, 1)))
	hold(t, &n, "second", guaranteed(sized("c", 6, 1)))
	const want = "wait for pods to end, or ask for at most 10 cpu"
	s := judged(&n, guaranteed(sized("c", 16, 1)))
	if s.Kind != NotNow || !strings.Contains(s.Text, "the node has 12 left") || s.Remedy != want {
		t.Errorf("%s: %q, remedy %q, want %q", s.Kind, s.Text, s.Remedy, want)
	}
	if s := judged(&n, guaranteed(sized("c", 10, 1))); s.Kind != Fits {
		t.Errorf("10 CPUs: %s: %q", s.Kind, s.Text)
	}
	// No amount is known to fit where several containers ask for the resource.
	two := guaranteed(sized("c", 10, 1), sized("d", 10, 1))
	if s := judged(&n, two); s.Remedy != "wait for pods to end, or ask for less" {
		t.Errorf("two containers: %q, remedy %q", s.Text, s.Remedy)
	}
}
