package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// A process that the computer's kernel kills is no event of a lab's nodes; a kubelet's own messages about its node are.
func TestEventsOfTheComputerAreNotThoseOfNodes(t *testing.T) {
	client := fake.NewClientset()
	sink := &typedv1.EventSinkImpl{Interface: machineEvents{client.CoreV1()}.Events("")}
	for _, reason := range []string{"SystemOOM", "PossibleMemoryBackedVolumesOnDisk", "NodeReady"} {
		e := &v1.Event{ObjectMeta: metav1.ObjectMeta{Name: "xeon." + reason, Namespace: "default"}, Reason: reason,
			InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "xeon"}}
		if _, err := sink.Create(e); err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Patch(e, []byte(`{"count": 2}`)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Reason != "NodeReady" || list.Items[0].Count != 2 {
		t.Errorf("events are %+v, want NodeReady twice", list.Items)
	}
}
