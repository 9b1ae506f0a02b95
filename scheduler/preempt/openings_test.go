package preempt

import (
	"hash/maphash"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
)

// A pod is tried again on a full node only when a pod has left that it could not have evicted.
func TestANodeOpensWhenAPodThatStayedHasLeft(t *testing.T) {
	s := newStage(t)
	low, high, other := cpus("low", 8), cpus("high", 8), cpus("other", 16)
	s.node("n", two, place.SingleNUMA, holding(low, "0-7"), holding(high, "8-15"), holding(other, "16-31"))
	low, high, other = ranked(low, 1), ranked(high, 9), ranked(other, 9)
	seed, memory := maphash.MakeSeed(), &Openings{}
	opens := func(pod *v1.Pod, residents ...*v1.Pod) bool {
		t.Helper()
		p, err := apipod.ToPlace(pod)
		if err != nil {
			t.Fatal(err)
		}
		return memory.Opens(pod, p, place.Demand{}, s.p.book.Snapshot().Node("n"), NewResidents(residents), seed)
	}
	pod := ranked(cpus("p", 16), 5)
	if opens(pod, low, high, other) {
		t.Error("a pod is woken though a pod of a higher priority holds what it needs")
	}
	never := pod.DeepCopy()
	never.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	s.feed.Layout(layout(t, "n", two, place.SingleNUMA, 50, holding(low, "0-7"), holding(other, "16-31")))
	if opens(never, low, other) {
		t.Error("a pod that never preempts is woken to preempt")
	}
	if opens(ranked(pod, 1), low, other) {
		t.Error("a pod is woken to evict a pod of its own priority")
	}
	if !opens(pod, low, other) {
		t.Error("a pod that may evict the last pod in its way is not woken")
	}
	if opens(pod, low, other) {
		t.Error("a pod is woken twice for one set of pods that stay")
	}
	low.DeletionTimestamp = &metav1.Time{}
	memory = &Openings{}
	if opens(pod, low, other) {
		t.Error("a pod is woken to evict though all that is in its way is leaving")
	}
}
