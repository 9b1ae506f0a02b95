package report

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
)

// A pod that its kubelet refused because others came first has an event that names the node, the reason, and who has
// its room.
func TestPodsThatOthersOvertookHaveAnEvent(t *testing.T) {
	recorder, e := events.NewFakeRecorder(8), NewEvents(klog.Background())
	p := kubetest.Bound(kubetest.CPUs("x", 4), "n1")
	e.Crowded(p, "OutOfcpu") // there is no recorder yet
	e.To(recorder)
	e.Crowded(p, "OutOfcpu")
	want := "Warning PlacementRefused node n1 refused the pod (OutOfcpu): it fitted when the node was chosen, and " +
		"pods that another scheduler bound since"
	if got := <-recorder.Events; !strings.HasPrefix(got, want) || len(recorder.Events) > 0 {
		t.Errorf("the event is %q, want %q and no other", got, want)
	}
}

// A kubelet refuses pods for other reasons than room, too, and then no other pod is to blame.
func TestPodsThatAreRefusedForOtherReasonsThanRoom(t *testing.T) {
	recorder, e := events.NewFakeRecorder(8), NewEvents(klog.Background())
	e.To(recorder)
	p := kubetest.Bound(kubetest.CPUs("x", 4), "n1")
	for _, reason := range []string{"NodeAffinity", "SysctlForbidden", "PodOSNotSupported", "SMTAlignmentError", ""} {
		if e.Crowded(p, reason); len(recorder.Events) > 0 {
			t.Errorf("%q: %s", reason, <-recorder.Events)
		}
	}
	for _, reason := range []string{"TopologyAffinityError", "UnexpectedAdmissionError", "OutOfmemory", "OutOfpods"} {
		if e.Crowded(p, reason); len(recorder.Events) != 1 {
			t.Errorf("%q has %d events, want one", reason, len(recorder.Events))
		}
		<-recorder.Events
	}
}
