package held_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/held"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// The status of a request may name devices that no driver publishes. They are kept from no pod, unless it is not known
// what is published.
func TestDevicesThatAreNotPublishedAreNotKept(t *testing.T) {
	p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", UID: "p"}}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: new("t")}}
	for unread, want := range map[string]int{"": 0, kube.Slices: 1} {
		v := &kube.View{Pods: kube.StoreAll([]v1.Pod{p}), Devices: &kube.Devices{},
			Kept: map[string]*kube.Kept{"a": {Devices: []kube.KeptDevice{{Driver: "none", Pool: "q", Name: "z",
				Request: "ml/r"}}}}}
		if unread != "" {
			v.Devices.Unread = []document.Limit{{Resource: unread, Reason: "you may not list them"}}
		}
		if got := held.Of(v).Pods["p"]; got == nil || len(got.Kept) != want {
			t.Errorf("unread %q: kept %+v, want %d", unread, got, want)
		}
	}
}
