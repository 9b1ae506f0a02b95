package whatif

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// filled draws a node with pods on it, and pods that want more than these. The second pod on the node stays.
func filled(t *rapid.T) (n Node, r Rules, wants []*Want) {
	nodes, r, fitting := cases(t)
	r.Guard = guard.Guard{}
	n = nodes[0]
	for i, w := range fitting {
		wants = append(wants, &Want{Pod: wider(w.Pod), Needs: Amounts{"cpu": 2 * w.Needs["cpu"], "pods": 1}})
		id := state.PodID{UID: fmt.Sprint("u", i), Namespace: "ml", Name: fmt.Sprint("p", i)}
		if !r.Judge(&n, w, nil).Fits() {
			continue
		}
		if n.State != nil {
			n.State, _ = n.State.With(id, w.Pod)
		}
		n.Used = n.Used.Add(w.Needs)
		n.Pods = append(n.Pods, Resident{Pod: id, Needs: w.Needs, Stays: i == 1})
	}
	return n, r, wants
}

// Once the pods of a way have ended, the pod fits, and no single one of them can be left out. For a permanent reason
// there is no way.
func TestWaysLeadToRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, r, wants := filled(t)
		for _, w := range wants {
			j := r.Judge(&n, w, nil)
			if j.Fits() {
				continue
			}
			way, ok := r.Way(&n, w)
			if ok && j.When() == place.Never {
				t.Fatalf("%v for ever, and yet there is room after %v", j.Reasons, way.Pods)
			}
			if ok {
				leads(t, r, &n, w, way)
			}
		}
	})
}

func wider(p *place.Pod) *place.Pod {
	out := *p
	out.Containers = slices.Clone(p.Containers)
	for i := range out.Containers {
		out.Containers[i].MilliCPU *= 2
	}
	return &out
}

func leads(t *rapid.T, r Rules, n *Node, w *Want, way Way) {
	pods := n.MayEnd()
	var set []int
	for _, id := range way.Pods {
		set = append(set, slices.IndexFunc(pods, func(x Resident) bool { return x.Pod == id }))
	}
	slices.Sort(set)
	if !r.Judge(n.After(pods, set), w, nil).Fits() {
		t.Fatalf("no room after %v", way.Pods)
	}
	for _, x := range way.Missing {
		for _, y := range way.Missing {
			if x.NUMAs == 0 && y.NUMAs != 0 && x.Resource == y.Resource && x.More <= y.More {
				t.Fatalf("%d more %s are missing on the node, and %d on a NUMA node of it: the shortage is listed twice",
					x.More, x.Resource, y.More)
			}
		}
	}
	if len(set) > 1 && r.Judge(n.After(pods, set[1:]), w, nil).Fits() {
		t.Fatalf("of %v one can be spared", way.Pods)
	}
}

// A temporary shortage hides no permanent reason: 120 CPUs do not fit on one NUMA node of 16, whether or not 20 are
// left.
func TestPermanentReasonsComeFirst(t *testing.T) {
	n := node(t, "a", pair, single(t))
	w := pod(20, 0)
	n.Used = Amounts{"cpu": 25000, "pods": 3}
	j := Rules{}.Judge(&n, w, []place.Reason{{Code: place.Cordoned}})
	var got []string
	for _, x := range j.Reasons {
		got = append(got, fmt.Sprintf("%s: %s", x.When(), x.Text()))
		if x.Remedy() == "" {
			t.Errorf("%s: no remedy", x.Text())
		}
	}
	want := []string{
		`never: never on this machine: container "c" wants 20 cpu on one NUMA node; the largest has 14`,
		"changed: node is cordoned",
		"later: insufficient cpu (wants 20; node has 3 left)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the reasons are\n%q\nwant\n%q", got, want)
	}
}

// On an empty machine no other pod is in the way. If the memory manager refuses a container memory there, the pod's own
// containers use it in another way.
func TestConflictsBetweenOwnContainersAreNamed(t *testing.T) {
	r := single(t)
	r.Topology.Policy, r.Memory.Static = place.BestEffort, true
	n, w := node(t, "a", pair, r), pod(2, 0)
	wide := place.Container{Name: "wide", MilliCPU: 2000, Memory: []place.Amount{{Kind: topo.Memory, Bytes: 40 * gi}}}
	w.Pod.Containers = append(w.Pod.Containers, wide)
	j := Rules{}.Judge(&n, w, nil)
	if len(j.Reasons) != 1 {
		t.Fatalf("reasons: %q", j.Reasons)
	}
	const text = `not on the empty node either: container "wide" wants 40Gi memory; other containers of the pod use the ` +
		`NUMA nodes alone or in another group`
	if got := j.Reasons[0].Text(); got != text {
		t.Errorf("the reason is\n%s\nwant\n%s", got, text)
	}
	const remedy = "let the memory of every container of the pod need equally many NUMA nodes"
	if got := j.Reasons[0].Remedy(); got != remedy {
		t.Errorf("the remedy is\n%s\nwant\n%s", got, remedy)
	}
}

// For amounts that no known pod holds, there is no pod to wait for.
func TestUnknownHoldersAreNotWaitedFor(t *testing.T) {
	n := node(t, "a", pair, single(t))
	n.State, _ = n.State.With(state.PodID{Namespace: "ml", Name: "x"}, pod(14, 0).Pod)
	n.State, _ = n.State.With(state.PodID{UID: "known", Namespace: "ml", Name: "y"}, pod(14, 0).Pod)
	if way, ok := (Rules{}).Way(&n, pod(14, 0)); !ok || len(way.Pods) != 1 || way.Pods[0].UID != "known" {
		t.Errorf("a way: %t, by the end of %v; want that of pod y", ok, way.Pods)
	}
}
