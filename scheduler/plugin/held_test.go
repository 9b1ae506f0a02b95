package plugin

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// A pod that is held back until a request has its room is not tried at each news of a node where it would fit, however
// many such pods there are. The end of the hold wakes it.
func TestHeldPodsAreNotWokenByNodes(t *testing.T) {
	p := newPlugin(t, refuse)
	p.promises = p.newKeeper()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	pod := cpus("p", 4)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "set", UID: "of-set",
		Controller: ptr.To(true)}}
	if got := p.hint(pod, "n"); got != fwk.Queue {
		t.Fatalf("hint %v for a pod that fits", got)
	}
	r := promise.Request{Name: pod.Namespace + "/r", Owner: apipod.Owner(pod), Since: pod.CreationTimestamp.Unix()}
	if r.Owner == "" || !p.promises.Hold(r, time.Now().Add(time.Hour)) {
		t.Fatalf("the pods of owner %q are not held back", r.Owner)
	}
	if s := p.heldBack(pod); s.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a pod that is held back: %v", s)
	}
	if got := p.hint(pod, "n"); got != fwk.QueueSkip {
		t.Errorf("hint %v for a pod that is held back", got)
	}
	p.roomFreed("n")
	if !p.waitRoom.Remove(string(pod.UID)) {
		t.Error("room of others wakes the pod")
	}
	p.waitRoom.Add(pod)
	p.promises.Release(r.Name)
	if p.waitRoom.Remove(string(pod.UID)) || p.heldBack(pod) != nil {
		t.Error("the pod is still held back")
	}
}
