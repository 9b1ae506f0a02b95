package preempt

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const quarters = `
numa 0 socket 0 cpus 0-7 memory 16Gi
numa 1 socket 0 cpus 8-15 memory 16Gi
numa 2 socket 1 cpus 16-23 memory 16Gi
numa 3 socket 1 cpus 24-31 memory 16Gi
device acme.com/gpu a,b numa 0
device acme.com/gpu c,d numa 2
`

// crowd fills a machine with pods, as its managers would admit them.
func crowd(t *rapid.T, s *stage, pol place.Policy) {
	m, err := topo.ParseMachine(quarters)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{
		Topology: place.TopologyRules{Policy: pol},
		CPU:      place.CPURules{Static: true},
		Memory:   place.MemoryRules{Static: true},
	}
	u := place.NewUsage(m, r)
	var entries []state.Entry
	var pods []*v1.Pod
	for i := range rapid.IntRange(1, 9).Draw(t, "pods") {
		text := fmt.Sprintf(
			"cpu=%d memory=%dGi",
			rapid.IntRange(1, 10).Draw(t, "cpu"),
			rapid.IntRange(1, 12).Draw(t, "memory"),
		)
		if rapid.IntRange(0, 2).Draw(t, "device") == 0 {
			text += fmt.Sprintf(" acme.com/gpu=%d", rapid.IntRange(1, 2).Draw(t, "gpu"))
		}
		p := podOf(fmt.Sprintf("p%d", i), text)
		cp, err := apipod.ToPlace(p)
		if err != nil {
			t.Fatal(err)
		}
		v := place.Place(u, cp)
		if !v.Fits() {
			continue
		}
		u = u.Hold(v.Holdings...)
		entries, pods = append(entries, state.Entry{Pod: kube.ID(p), Holdings: v.Holdings}), append(pods, p)
	}
	s.node("n", quarters, pol, entries...)
	s.nodes[0].Status.Allocatable["acme.com/gpu"] = *s.nodes[0].Status.Capacity.Cpu()
	for _, p := range pods {
		s.runs("n", rapid.Int32Range(1, 4).Draw(t, "priority"), p)
	}
}

// On a random machine, the victims are the cheapest of all sets without which place admits the pod. If not even all
// pods of lower priority are enough, no pod is evicted.
func TestVictimsAreTheCheapest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t)
		crowd(rt, s, rapid.SampledFrom([]place.Policy{place.SingleNUMA, place.Restricted}).Draw(rt, "policy"))
		pod := ranked(
			podOf(
				"urgent",
				fmt.Sprintf(
					"cpu=%d memory=1Gi acme.com/gpu=%d",
					rapid.IntRange(1, 12).Draw(rt, "cpu"),
					rapid.IntRange(0, 2).Draw(rt, "gpu"),
				),
			),
			4,
		)
		cp, err := apipod.ToPlace(pod)
		if err != nil {
			rt.Fatal(err)
		}
		n := s.p.book.Snapshot().Node("n")
		if n.Fits(cp) {
			return
		}
		_, goes, says := s.attempt(pod)
		want := cheapest(s, n, cp)
		if !slices.Equal(called(want), goes) && (len(goes) == 0 || len(want) == 0 || compare(want, s.named(goes)) != 0) {
			rt.Fatalf("%v go (%s), want %v of\n%v", goes, says, called(want), n.Entries)
		}
	})
}

// cheapest tries every set of pods of a priority below 4, if all of them together are enough.
func cheapest(s *stage, n *state.Node, cp *place.Pod) (best []*v1.Pod) {
	var lower []*v1.Pod
	for _, p := range s.pods {
		if corev1.PodPriority(p) < 4 {
			lower = append(lower, p)
		}
	}
	works := func(set []*v1.Pod) bool {
		var uids []string
		for _, p := range set {
			uids = append(uids, string(p.UID))
		}
		return n.Without(uids...).Fits(cp)
	}
	if !works(lower) {
		return nil
	}
	for m := uint(1); m < 1<<len(lower); m++ {
		var set []*v1.Pod
		for left := m; left != 0; left &= left - 1 {
			set = append(set, lower[bits.TrailingZeros(left)])
		}
		if works(set) && (best == nil || compare(set, best) < 0) {
			best = set
		}
	}
	return best
}

// compare orders sets as kube-scheduler orders nodes, without budgets.
func compare(a, b []*v1.Pod) int {
	of := func(set []*v1.Pod) (highest, sum, start int64) {
		highest = -1
		for _, p := range set {
			priority, began := int64(corev1.PodPriority(p)), p.Status.StartTime.UnixNano()
			if priority > highest {
				highest, start = priority, began
			} else if priority == highest {
				start = min(start, began)
			}
			sum += priority + 1<<31
		}
		return highest, sum, start
	}
	ah, as, at := of(a)
	bh, bs, bt := of(b)
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(as, bs), cmp.Compare(bt, at))
}

func (s *stage) named(list []string) (out []*v1.Pod) {
	for _, p := range s.pods {
		if slices.Contains(list, p.Name) {
			out = append(out, p)
		}
	}
	return out
}

func called(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

// The search for victims on a node ends after a bounded amount of work, with the best set found so far.
func TestTheSearchForVictimsIsBounded(t *testing.T) {
	pod := &place.Pod{Containers: make([]place.Container, 1000)}
	tr := &trial{Attempt: Attempt{Pod: pod}, pre: &Preemption{plugin: &least{}}}
	tries := 0
	for tr.afford() {
		tries++
	}
	if tries < 10 || tries*len(pod.Containers) > maxTrialWork+2*len(pod.Containers) {
		t.Errorf("a pod of %d containers is tried %d times", len(pod.Containers), tries)
	}
}

// A pod has departed when kube-scheduler has no pod of its UID. An annotation that names the UID is no such pod.
func TestDepartedPods(t *testing.T) {
	liar := podOf("liar", "")
	liar.UID, liar.Annotations = "uid-liar", map[string]string{v1.MirrorPodAnnotationKey: "uid-gone"}
	n := &state.Node{Entries: []state.Entry{{Pod: state.PodID{UID: "uid-gone"}}, {Pod: state.PodID{UID: "uid-liar"}}}}
	if got := Departed(n, framework.NewNodeInfo(liar)); !slices.Equal(got, []string{"uid-gone"}) {
		t.Errorf("departed are %v, want uid-gone", got)
	}
}

// upstream returns the pods that kube-scheduler's DefaultPreemption would evict from the only node.
func (s *stage) upstream(pod *v1.Pod) []*v1.Pod {
	s.t.Helper()
	f, cs := s.framework(pod), framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(s.t.Context(), cs, pod); !status.IsSuccess() {
		s.t.Fatal(status.Message())
	}
	info, err := f.SnapshotSharedLister().NodeInfos().Get("n")
	if err != nil {
		s.t.Fatal(err)
	}
	out := s.p.pre.upstreamVictims(s.t, cs, pod, info)
	return out
}

// The victims never cost more than the victims of DefaultPreemption with the same filters, which is why the evaluator
// is replaced. The test logs how often they cost less.
func TestVictimsCostNoMoreThanThoseOfDefaultPreemption(t *testing.T) {
	cases, less, ours, theirs := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t)
		crowd(rt, s, rapid.SampledFrom([]place.Policy{place.SingleNUMA, place.Restricted}).Draw(rt, "policy"))
		pod := ranked(podOf("urgent", fmt.Sprintf("cpu=%d memory=1Gi", rapid.IntRange(1, 12).Draw(rt, "cpu"))), 4)
		cp, err := apipod.ToPlace(pod)
		if err != nil {
			rt.Fatal(err)
		}
		if s.p.book.Snapshot().Node("n").Fits(cp) {
			return
		}
		_, goes, _ := s.attempt(pod)
		mine, other := s.named(goes), s.upstream(pod)
		if len(mine) == 0 || len(other) == 0 {
			if len(mine) != len(other) {
				rt.Fatalf("%v go, and by DefaultPreemption %v", called(mine), called(other))
			}
			return
		}
		cases, ours, theirs = cases+1, ours+len(mine), theirs+len(other)
		switch c := compare(mine, other); {
		case c > 0:
			rt.Fatalf("%v go, which costs more than %v", called(mine), called(other))
		case c < 0:
			less++
		}
	})
	t.Logf("%d preemptions: %d cost less; %d pods are evicted, by DefaultPreemption %d", cases, less, ours, theirs)
}
