package estimate

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const gpu = "acme.com/gpu"

// kubelet is a node of two NUMA nodes with 16 CPUs, 32Gi and 4 devices each, with the state of its managers. It reports
// like an exporter that uses the podresources service.
type kubelet struct {
	empty, usage *place.Usage
	running      []running
	now          int
}

type running struct {
	pod  Pod
	hold []place.Holding
}

func newKubelet(policy place.Policy, scope place.Scope) *kubelet {
	text := ""
	for i := range 2 {
		text += fmt.Sprintf("numa %d socket %d cpus %d-%d memory 32Gi\ndevice %s %d0,%d1,%d2,%d3 numa %d\n",
			i, i, 16*i, 16*i+15, gpu, i, i, i, i, i)
	}
	m, err := topo.ParseMachine(text)
	if err != nil {
		panic(err)
	}
	u := place.NewUsage(m, place.Rules{Topology: place.TopologyRules{Policy: policy, Scope: scope},
		CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: true}})
	return &kubelet{empty: u, usage: u}
}

// admit runs a pod, and returns it in the form for the node's estimate: with the prediction of place, or with none.
func (k *kubelet) admit(p *place.Pod, predicted bool) (Pod, bool) {
	v := place.Place(k.usage, p)
	if !v.Fits() {
		return Pod{}, false
	}
	k.now++
	pod := Pod{ID: state.PodID{UID: uid(k.now)}, Spec: p, Shape: p.Shape(), Unknown: !predicted,
		Bound: k.now, Admitted: k.now}
	if predicted {
		pod.Options = [][]place.Holding{v.Holdings}
	}
	k.running = append(k.running, running{pod, v.Holdings})
	k.renew()
	return pod, true
}

func (k *kubelet) renew() {
	k.usage = k.empty
	for _, r := range k.running {
		k.usage = k.usage.Hold(r.hold...)
	}
}

func (k *kubelet) end(i int) Pod {
	p := k.running[i].pod
	k.running = slices.Delete(slices.Clone(k.running), i, i+1)
	k.renew()
	return p
}

// start ends the init containers of a pod.
func (k *kubelet) start(i int) string {
	k.running[i].hold = Started(k.running[i].hold)
	k.renew()
	return k.running[i].pod.ID.UID
}

// report is the node's report. signed: it has the list of pods that it counts.
func (k *kubelet) report(signed bool, bound ...Pod) Report {
	k.now++
	r := Report{Empty: k.empty, Bound: bound, Settled: true, Now: k.now}
	if signed {
		r.Amounts.Counts = map[string]bool{}
	}
	for _, x := range k.running {
		for _, h := range x.hold {
			if h.Kind != place.Init {
				r.Amounts.Held = append(r.Amounts.Held, h)
			}
		}
		if signed {
			r.Amounts.Counts[x.pod.ID.UID] = true
		}
	}
	return r
}

// want is the request of a container, in CPUs, GiB and devices.
type want struct{ cpus, gib, gpus int64 }

// asks is a pod of containers. If there are several, the first is an init container.
func asks(containers ...want) *place.Pod {
	p := &place.Pod{QoS: place.Guaranteed}
	for i, w := range containers {
		c := place.Container{Name: fmt.Sprint("c", i), MilliCPU: 1000 * w.cpus,
			Memory: []place.Amount{{Kind: topo.Memory, Bytes: w.gib << 30}}}
		if w.gpus > 0 {
			c.Devices = []place.Count{{Resource: gpu, N: w.gpus}}
		}
		if i == 0 && len(containers) > 1 {
			c.Kind = place.Init
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// freeOf returns the free amounts of each NUMA node in each state.
func freeOf(s States) (out [][2]want) {
	for _, x := range s.All {
		out = append(out, freeIn(x.Usage))
	}
	return out
}

func freeIn(u *place.Usage) (out [2]want) {
	for i, n := range u.Machine.NUMAs() {
		out[i] = want{int64(n.CPUs.AndLen(u.FreeCPUs())), u.FreeMemory(i, topo.Memory) >> 30, u.FreeDevicesOn(0, 1<<uint(i))}
	}
	return out
}

// check fails unless the node is certainly in one of the states.
func check(t *testing.T, n *Node, want ...[2]want) {
	t.Helper()
	s := n.States(16, false)
	if got := freeOf(s); !slices.Equal(got, want) || !s.Sure {
		t.Errorf("sure is %v, free is %v, want %v", s.Sure, got, want)
	}
}

// A report lists the pods that it counts, or the change of the amounts shows them. A predicted pod gives its part back
// when it ends.
func TestAPodIsCountedAndGivesItsPartBack(t *testing.T) {
	for _, signed := range []bool{true, false} {
		k, n := newKubelet(place.SingleNUMA, place.PerContainer), &Node{}
		n.Report(k.report(signed))
		whole := [2]want{{16, 32, 4}, {16, 32, 4}}
		check(t, n, whole)
		p, _ := k.admit(asks(want{10, 8, 1}), true)
		late, _ := k.admit(asks(want{12, 4, 0}), true)
		r := k.report(signed, p)
		r.Amounts.Held = r.Amounts.Held[:1]
		delete(r.Amounts.Counts, late.ID.UID)
		landed := n.Report(r)
		if len(landed) != 1 || landed[0] != (Landed{UID: p.ID.UID, Foreseen: true, Agrees: true}) {
			t.Fatalf("signed %v: landed are %v", signed, landed)
		}
		check(t, n, [2]want{{6, 24, 3}, {16, 32, 4}})
		if !n.Counts(p.ID.UID) || n.Counts(late.ID.UID) {
			t.Errorf("signed %v: counted are %v", signed, n.Pods())
		}
		n.End(p.ID.UID)
		check(t, n, whole)
		r.Bound = nil
		n.Report(r) // made before the pod ended
		check(t, n, whole)
	}
}

// Without a prediction the place of a pod is unknown. When it ends, it may have been on any NUMA node that holds
// enough.
func TestAPodThatWasNotPredictedMayHaveBeenAnywhere(t *testing.T) {
	k, n := newKubelet(place.SingleNUMA, place.PerContainer), &Node{}
	var pods []Pod
	for range 2 {
		p, _ := k.admit(asks(want{10, 8, 0}), false)
		pods = append(pods, p)
	}
	n.Report(k.report(true, pods...))
	if u := n.Unplaced(); !u.Has(pods[0].ID.UID) || !u.Has(pods[1].ID.UID) {
		t.Error("the places of the pods count as known")
	}
	n.End(pods[0].ID.UID)
	check(t, n, [2]want{{16, 32, 4}, {6, 24, 4}}, [2]want{{6, 24, 4}, {16, 32, 4}})
	n.End(pods[0].ID.UID) // several events report the end
	check(t, n, [2]want{{16, 32, 4}, {6, 24, 4}}, [2]want{{6, 24, 4}, {16, 32, 4}})
	n.End(pods[1].ID.UID)
	check(t, n, [2]want{{16, 32, 4}, {16, 32, 4}})
}

// A container gets CPUs of its pod's init container and others of another NUMA node. When the pod ends, it may have
// been on one NUMA node or on both.
func TestAPodThatEndsMayHaveBeenOnSeveralNUMANodes(t *testing.T) {
	k, n := newKubelet(place.BestEffort, place.PerContainer), &Node{}
	stays, _ := k.admit(asks(want{2, 1, 0}), false)
	large, _ := k.admit(asks(want{11, 1, 0}), false)
	ends, _ := k.admit(asks(want{2, 1, 0}, want{4, 1, 0}), false)
	if free := freeIn(k.usage); free[1].cpus != 15 {
		t.Fatalf("free are %v, want a container on both NUMA nodes", free)
	}
	n.Report(k.report(true))
	n.EndEarly(large)
	k.end(1)
	n.Report(k.report(true, stays, ends))
	k.end(1)
	n.End(ends.ID.UID)
	free := freeIn(k.usage)
	if s := n.States(16, false); s.Sure && !slices.ContainsFunc(freeOf(s), func(x [2]want) bool {
		return x[0].cpus <= free[0].cpus && x[1].cpus <= free[1].cpus
	}) {
		t.Errorf("the node has %v free; the estimate is %v", free, freeOf(s))
	}
}

// The amounts contain what pods held while the node was exact. What each of them would give back is unknown.
func TestPodsThatWereReportedBefore(t *testing.T) {
	k, n := newKubelet(place.SingleNUMA, place.PerContainer), &Node{}
	p, _ := k.admit(asks(want{4, 4, 0}), true)
	n.Inherit([]state.PodID{p.ID}, func(string) bool { return false })
	n.Report(k.report(true))
	check(t, n, [2]want{{12, 28, 4}, {16, 32, 4}})
	if _, sure := n.Unplaced().Without([]State{n.Base()}, []string{p.ID.UID}, 16); sure {
		t.Error("the holdings of the pod count as known")
	}
}

// An init container may hold everything that a pod holds. Then the amounts show nothing of the pod, and no other pod
// may get its resources.
func TestAnInitContainerThatHoldsEverything(t *testing.T) {
	k, n := newKubelet(place.SingleNUMA, place.PerPod), &Node{}
	p := &place.Pod{QoS: place.Burstable, Containers: []place.Container{
		{Name: "init", Kind: place.Init, Devices: []place.Count{{Resource: gpu, N: 3}}}, {Name: "app"}}}
	pod, ok := k.admit(p, false)
	if !ok {
		t.Fatal("the kubelet refuses the pod")
	}
	n.Report(k.report(true, pod))
	check(t, n, [2]want{{16, 32, 1}, {16, 32, 4}}, [2]want{{16, 32, 4}, {16, 32, 1}})
	n.Start(pod.ID.UID, func(string) bool { return true })
	check(t, n, [2]want{{16, 32, 1}, {16, 32, 4}}, [2]want{{16, 32, 4}, {16, 32, 1}}) // devices stay until the pod ends
	n.End(pod.ID.UID)
	check(t, n, [2]want{{16, 32, 4}, {16, 32, 4}})
}

// For any sequence of pods, with and without predictions, and with and without lists of counted pods: if the states are
// said to be complete, one of them has no more free on any NUMA node than the node has, beside the pods that are not
// counted.
func TestOneStateHasNoMoreFreeThanTheNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]place.Policy{place.SingleNUMA, place.Restricted, place.BestEffort}).Draw(t, "policy")
		scope := rapid.SampledFrom([]place.Scope{place.PerContainer, place.PerPod}).Draw(t, "scope")
		k, n := newKubelet(policy, scope), &Node{}
		signed := rapid.Bool().Draw(t, "signed")
		var bound []Pod
		report := func() {
			for _, l := range n.Report(k.report(signed, bound...)) {
				bound = slices.DeleteFunc(bound, func(p Pod) bool { return p.ID.UID == l.UID })
			}
		}
		report()
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				draw := func(most int) int64 { return int64(rapid.IntRange(1, most).Draw(t, "n")) }
				p := asks(want{draw(6), draw(8), draw(3) - 1}, want{draw(4), draw(6), draw(2) - 1})
				if rapid.Bool().Draw(t, "one container") {
					p = asks(want{draw(8), draw(8), draw(3) - 1})
				}
				if pod, ok := k.admit(p, false); ok {
					bound = append(bound, pod)
				}
			},
			"start": func(t *rapid.T) {
				if len(k.running) > 0 {
					n.Start(k.start(rapid.IntRange(0, len(k.running)-1).Draw(t, "which")), func(string) bool { return true })
				}
			},
			"end": func(t *rapid.T) {
				if len(k.running) == 0 {
					return
				}
				p := k.end(rapid.IntRange(0, len(k.running)-1).Draw(t, "which"))
				if n.Counts(p.ID.UID) {
					n.End(p.ID.UID)
					return
				}
				n.EndEarly(p)
				bound = slices.DeleteFunc(bound, func(b Pod) bool { return b.ID.UID == p.ID.UID })
			},
			"report": func(*rapid.T) { report() },
			"":       func(t *rapid.T) { conservative(t, k, n, bound) },
		})
	})
}

func conservative(t *rapid.T, k *kubelet, n *Node, bound []Pod) {
	s := n.States(16, len(bound) > 0)
	if !s.Sure || s.Crowded || len(bound) > 0 {
		return // there are other states, or the holdings of the bound pods are unknown
	}
	free := freeIn(k.usage)
	if !slices.ContainsFunc(freeOf(s), func(x [2]want) bool {
		return !slices.ContainsFunc([]int{0, 1}, func(i int) bool {
			return x[i].cpus > free[i].cpus || x[i].gib > free[i].gib || x[i].gpus > free[i].gpus
		})
	}) {
		t.Fatalf("the node has %v free; the estimate is %v", free, freeOf(s))
	}
}

// A scheduler that starts reads a report that was made before two pods of three GPUs were admitted: it holds neither,
// so both count beside it. A report with room for one of them contains one at most.
func TestTheFirstReportContainsNoMoreThanItHolds(t *testing.T) {
	for held, in := range map[int]int{0: 0, 1: 1, 2: 2} {
		k, n := newKubelet(place.SingleNUMA, place.PerContainer), &Node{}
		stale := k.report(false)
		var bound []Pod
		for range 2 {
			p, ok := k.admit(asks(want{4, 4, 3}), false)
			if !ok {
				t.Fatal("the kubelet refuses a pod")
			}
			p.Bound, p.Admitted = 1, 2
			bound = append(bound, p)
			if len(bound) == held {
				stale = k.report(false)
			}
		}
		stale.Bound, stale.Now = bound, 3
		n.Report(stale)
		if got := len(n.Pods()); got != in {
			t.Errorf("a report of %d pods contains %d of 2: %v", held, got, n.Pods())
		}
	}
}
