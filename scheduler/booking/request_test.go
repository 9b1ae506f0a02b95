package booking

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
)

// Events of other objects are frequent, and each is checked for every waiting pod. The containers of a pod that is too
// large are not read for that; reading this one's would fail.
func TestContainersOfATooLargePodAreNotRead(t *testing.T) {
	pod := kubetest.Many("p", place.MaxContainers)
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	pod.Spec.InitContainers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("-1")
	want := "pod has 129 containers that need alignment, more than 128; use fewer containers"
	if _, err := Read(pod); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if pod.Spec.InitContainers = pod.Spec.InitContainers[1:]; surelyTooLarge(pod) != "" {
		t.Error("a pod within the bound is too large")
	}
}

// Caches are bounded in bytes: pods of many containers with long names take no more than others.
func TestKindsOfPodsAreShortAndDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, inits := range []int{0, 1, 2, 50, 100, 101} {
		for _, change := range []string{"", "name", "cpu"} {
			pod := kubetest.Many("p", inits)
			last := &pod.Spec.Containers[0]
			switch change {
			case "name":
				last.Name = strings.Repeat("z", 63)
			case "cpu":
				last.Resources = kubetest.CPUs("x", 3).Spec.Containers[0].Resources
			}
			r, err := Read(pod)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Key) > maxKeyText || len(Bounded(r.Shape)) > maxKeyText {
				t.Errorf("%d init containers: key of %d bytes, shape of %d", inits, len(r.Key), len(Bounded(r.Shape)))
			}
			what := fmt.Sprintf("%d %s", inits, change)
			if other, taken := seen[r.Key]; taken {
				t.Errorf("pods %q and %q have one key", what, other)
			}
			seen[r.Key] = what
		}
	}
}
