package preempt

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

func TestTheLowestOnTheNUMAThatMattersGoes(t *testing.T) {
	s := newStage(t)
	s.full("n")
	s.want(
		ranked(cpus("p", 8), 9),
		"n",
		"low-n",
		"preemption: evicts default/low-n (16 cpu on NUMA node 0) from node n, to be aligned on NUMA node 0",
	)
	s.want(ranked(cpus("p", 8), 3), "n", "low-n", "")
	s.want(ranked(cpus("p", 8), 1), "", "", "no pods of lower priority to evict")
	s.want(ranked(cpus("p", 17), 9), "", "", "not helpful")
	never := ranked(cpus("p", 8), 9)
	never.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	s.want(never, "", "", "preemptionPolicy=Never")
}

func TestNobodyGoesWhereHigherOnesHoldWhatIsNeeded(t *testing.T) {
	s := newStage(t)
	a, b, c := cpus("a", 8), cpus("b", 8), cpus("c", 16)
	s.node("n", two, place.SingleNUMA, holding(a, "0-7"), holding(b, "8-15"), holding(c, "16-31"))
	s.runs("n", 9, a)
	s.runs("n", 1, b)
	s.runs("n", 9, c)
	s.want(ranked(cpus("p", 9), 5), "", "", `1 cannot align container "c" (wants 9 cpu; node has 8 free)`)
	s.want(ranked(cpus("p", 8), 5), "n", "b", "")
}

// Memory of one group on two NUMA nodes keeps a pod from both, whichever other pods go.
func TestMemoryGroupsOfHigherPriorities(t *testing.T) {
	s := newStage(t)
	wide, other := podOf("wide", "cpu=2 memory=100Gi"), cpus("other", 8)
	group := state.Entry{
		Pod:      kube.ID(wide),
		Holdings: []place.Holding{{Container: "c", Memory: []place.Block{{Kind: "memory", NUMAs: 3, Bytes: 100 << 30}}}},
	}
	s.node("n", two, place.Restricted, group, holding(other, "0-7"))
	s.runs("n", 9, wide)
	s.runs("n", 1, other)
	s.want(ranked(cpus("p", 16), 5), "", "", "use alone or in another group")
}

func TestWhatIsNotKnownEvictsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		doubt func(*stage)
		says  string
	}{
		"assumed": {(*stage).assumes, "pods are assumed on the node"},
		"silent":  {(*stage).falls, "node's agent is silent"},
		"refused": {(*stage).refuses, "node refused such a pod"},
	} {
		s := newStage(t)
		s.full("n")
		c.doubt(s)
		s.want(ranked(cpus("p", 8), 9), "", "", c.says)
		if !s.p.pre.Awaits(ranked(cpus("p", 8), 9), "n") {
			t.Errorf("%s: news of the node do not wake the pod", name)
		}
		if !slices.Equal(s.later, []time.Duration{catchUp}) {
			t.Errorf("%s: the pod is tried again after %v", name, s.later)
		}
	}
}

// assumes adds a third, assumed pod to the node.
func (s *stage) assumes() {
	flying := podOf("flying", "cpu=1500m memory=1Gi")
	s.pods = append(s.pods, bind(ranked(flying, 9), "n"))
	s.feed.Pod(s.pods[len(s.pods)-1])
	if _, is := s.p.book.Snapshot().Node("n").Entry(string(flying.UID)); !is {
		s.t.Fatal("nobody is assumed")
	}
}

// falls makes the node silent: it still reports a pod that was deleted by force long ago.
func (s *stage) falls() {
	gone := cpus("gone", 1)
	s.feed.Layout(
		layout(
			s.t,
			"n",
			two+"\n",
			place.SingleNUMA,
			50,
			holding(s.pods[0], "0-14"),
			holding(gone, "15"),
			holding(s.pods[1], "16-31"),
		),
	)
	s.p.book.Vanish(string(gone.UID))
	s.p.book.Overdue(string(gone.UID))
	if !s.p.book.Snapshot().Node("n").Silent {
		s.t.Fatal("the node is not silent")
	}
}

// refuses has the node refuse a pod of 8 CPUs that was predicted to fit.
func (s *stage) refuses() {
	s.feed.Layout(layout(s.t, "n", two, place.SingleNUMA, 60))
	pod := cpus("x", 8)
	s.feed.Pod(bind(pod, "n"))
	s.p.book.Refuse(string(pod.UID), place.TopologyAffinityError)
	l := s.p.book.Snapshot().Node("n")
	if len(l.Refused) == 0 {
		s.t.Fatal("the node has refused nothing")
	}
}

// If a node's next report may show room, the pod waits for it, but not forever.
func TestAReportIsWaitedForBeforeOthersAreEvicted(t *testing.T) {
	s := newStage(t)
	low, _ := s.full("n")
	s.full("other")
	s.p.book.Vanish(string(low.UID)) // it may still run
	s.pods = s.pods[1:]
	pod := ranked(cpus("p", 8), 9)
	s.want(pod, "", "", "evicts no pod: node n may have room")
	s.want(pod, "", "", "evicts no pod: node n may have room")
	if !slices.Equal(s.later, []time.Duration{catchUp}) {
		t.Errorf("the pod is tried again after %v", s.later)
	}
	s.now = s.now.Add(patience + time.Second)
	s.want(pod, "other", "low-other", "")
	if s.p.pre.Awaits(pod, "n") {
		t.Error("the pod has made room, and waits still")
	}
}

// The scheduler's cache may show the end of a victim earlier than the ledger.
func TestNoFurtherVictimWhileTheLedgerLagsBehind(t *testing.T) {
	s := newStage(t)
	s.full("n")
	s.pods = s.pods[1:]
	pod := ranked(cpus("p", 8), 9)
	s.want(pod, "", "", "evicts no pod: node n may have room: pods have just left it")
	if !slices.Equal(s.later, []time.Duration{catchUp}) {
		t.Errorf("the pod is tried again after %v", s.later)
	}
}

// The same where only some of the pods that make room have gone, and the others are being deleted.
func TestTheLedgerLagsBehindWhileOthersLeave(t *testing.T) {
	s := newStage(t)
	first, second, other := cpus("first", 8), cpus("second", 8), cpus("other", 16)
	s.node("n", two, place.SingleNUMA, holding(first, "0-7"), holding(second, "8-15"), holding(other, "16-31"))
	s.runs("n", 5, first)
	leaves := s.runs("n", 5, second)
	s.deleted(leaves, 20*time.Second)
	s.runs("n", 5, other)
	s.pods = s.pods[1:]
	pod := ranked(cpus("p", 16), 5)
	s.want(pod, "", "", "evicts no pod: node n may have room: pods have just left it")
	s.deleted(leaves, time.Hour) // a long grace period
	s.want(pod, "", "", "no pods of lower priority to evict")
}

func TestPodsThatAreBeingDeleted(t *testing.T) {
	pod := ranked(cpus("p", 8), 3)
	s := newStage(t)
	low, mid := s.full("n")
	s.full("other")
	s.deleted(low, 20*time.Second)
	s.want(pod, "n", "", "evicts no pod: fits on node n once pods that are being deleted there have gone")

	low.DeletionTimestamp = nil
	s.deleted(mid, 20*time.Second) // of a higher priority: no node is nominated, and no pod is evicted
	s.want(pod, "", "", "evicts no pod: fits on node n")

	s.deleted(mid, -2*time.Minute) // it is stuck
	s.pods[2].Spec.Priority = ptr.To[int32](0)
	s.want(pod, "other", "low-other", "")

	s.deleted(low, time.Hour) // a long grace period
	s.want(pod, "other", "low-other", "")
}

// A node may have room only for a pod that is nominated to it. That pod may be bound to another node, which no event
// announces to pods that NodeResourcesFit refused. So they are tried again, although they can evict no pod.
func TestANominatedPodMayGoElsewhere(t *testing.T) {
	s := newStage(t)
	first, pod := cpus("first", 16), ranked(cpus("p", 8), 3)
	s.node("n", two, place.SingleNUMA, holding(first, "0-15"))
	s.runs("n", 3, first)
	nominated := ranked(podOf("nominated", "cpu=90"), 9)
	nominated.Status.NominatedNodeName = "n"
	s.nominated = append(s.nominated, nominated)
	s.want(pod, "", "", "no pods of lower priority to evict")
	if !slices.Equal(s.later, []time.Duration{catchUp}) {
		t.Errorf("the pod is tried again after %v", s.later)
	}

	s.runs("n", 9, nominated)
	s.nominated, s.later = nil, nil
	s.want(pod, "", "", "no pods of lower priority to evict")
	if len(s.later) > 0 {
		t.Errorf("the pod is tried again after %v, although nothing may change", s.later)
	}
}

// A victim that another preemptor has evicted may be deleted before kube-scheduler looks out for its end.
func TestAVictimIsDeletedTooEarly(t *testing.T) {
	s := newStage(t)
	low, mid := s.full("n")
	pod := ranked(cpus("p", 8), 9)
	s.want(pod, "n", "low-n", "")
	s.pods = s.pods[1:]
	s.framework(pod) // as it is after the deletion of low
	s.later = nil
	s.p.pre.retryIfMissed(mid, pod)
	if len(s.later) > 0 {
		t.Errorf("the pod is tried again after %v, although its victim is there", s.later)
	}
	s.p.pre.retryIfMissed(low, pod)
	if !slices.Equal(s.later, []time.Duration{catchUp}) {
		t.Errorf("the pod is tried again after %v", s.later)
	}
}

func TestDisruptionBudgets(t *testing.T) {
	s := newStage(t)
	low, mid := s.full("n")
	budget := func(allowed int32, of ...*v1.Pod) {
		for _, p := range of {
			p.Labels = map[string]string{"app": "x"}
		}
		s.pdbs = []*policy.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
			Spec:   policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
			Status: policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}}}
	}
	budget(0, low)
	s.want(ranked(cpus("p", 8), 9), "n", "mid-n", "")
	budget(1, low)
	s.want(ranked(cpus("p", 8), 9), "n", "low-n", "")
	// kube-scheduler counts the budget down also for the pods that it spares.
	budget(1, low, mid)
	s.want(ranked(cpus("p", 8), 9), "n", "low-n", "")
	budget(0, low, mid)
	s.want(ranked(cpus("p", 8), 9), "n", "low-n", "")
	s.pdbs[0].Status.DisruptedPods = map[string]metav1.Time{mid.Name: {}}
	s.want(ranked(cpus("p", 8), 9), "n", "mid-n", "")
}

// Two evictions of low priority cost less than one of a higher priority, also if only plain amounts need one.
func TestPlainAmountsAndNUMAsTogether(t *testing.T) {
	s := newStage(t)
	a, b, plain := cpus("a", 8), cpus("b", 16), podOf("plain", "cpu=70")
	s.node("n", two, place.SingleNUMA, holding(a, "0-7"), holding(b, "16-31"))
	s.runs("n", 1, a)
	s.runs("n", 5, b)
	s.runs("n", 1, plain)
	s.runs("n", 1, podOf("bystander", "cpu=1"))
	s.want(ranked(cpus("p", 16), 9), "n", "a plain", "")
}
