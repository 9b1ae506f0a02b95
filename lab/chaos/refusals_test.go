package chaos

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// at is a moment so many seconds after the first one, each of which has a version.
func at(version uint64) moment {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return moment{version: version, at: began.Add(time.Duration(version) * time.Second)}
}

// A pod that was bound before a restarted kubelet took up its pods is one of the lot; after that, it is not.
func TestTheFirstLotOfARestartedKubelet(t *testing.T) {
	on := func(node string, bound, started uint64) life {
		return life{pod: &v1.Pod{Spec: v1.PodSpec{NodeName: node}}, bound: at(bound), started: at(started)}
	}
	others := []life{on("n", 1, 2), on("n", 7, 9), on("m", 5, 6)}
	for bound, want := range map[uint64]bool{8: true, 9: true, 10: false, 40: false} {
		if got := firstLot(on("n", bound, 0), others, restart{node: "n", began: at(3), up: at(4)}); got != want {
			t.Errorf("bound at %d: %v", bound, got)
		}
	}
	if firstLot(on("n", 40, 0), nil, restart{node: "n", began: at(3), up: at(4)}) {
		t.Error("a kubelet has not taken up a pod for 36 seconds")
	}
}

// An end that nobody could have known excuses the refusal of a pod with init containers, and of no other pod.
func TestAnEndExcusesOnlyWhomMoreRoomIsWorseFor(t *testing.T) {
	pod := func(name string, init bool) *v1.Pod {
		c := v1.Container{Name: "c", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi")}}}
		c.Resources.Requests = c.Resources.Limits
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: "n",
			SchedulerName: tenonScheduler, Containers: []v1.Container{c}}, Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}
		if init {
			c.Name = "init"
			p.Spec.InitContainers = []v1.Container{c}
		}
		return p
	}
	for _, c := range []struct {
		what string
		init bool
		end  uint64
		want blame
	}{
		{"a pod with init containers, and one ends after it was bound", true, 15, roomier},
		{"a pod with init containers, and one ended long before", true, 5, knowable},
		{"a pod with init containers, and one ends after it was refused", true, 25, knowable},
		{"a pod without init containers", false, 15, knowable},
	} {
		refused := life{pod: pod("refused", c.init), bound: at(10), ended: at(20)}
		refused.pod.Status.Phase, refused.pod.Status.Reason = v1.PodFailed, "TopologyAffinityError"
		other := life{pod: pod("other", false), bound: at(1), ended: at(c.end)}
		other.pod.Status.Phase = v1.PodSucceeded
		if got := judge(refused, []life{refused, other}, nil, nil); got.why != c.want {
			t.Errorf("%s: %s", c.what, got)
		}
	}
}
