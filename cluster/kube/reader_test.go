package kube

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
)

// A scheduler keeps a shape away from the node that refused it until the node reports again, for five minutes at most.
// A tool that reads the cluster once must give the same result.
func TestAReaderFindsShapesThatANodeHasRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pod, layout string // resource versions
		ago         time.Duration
		amounts     string // of the pod that is asked for
		fits        bool
	}{
		"refused since the report":           {"20", "10", time.Minute, "cpu=4 memory=1Gi", false},
		"another shape":                      {"20", "10", time.Minute, "cpu=2 memory=1Gi", true},
		"reported since the refusal":         {"20", "30", time.Minute, "cpu=4 memory=1Gi", true},
		"refused more than five minutes ago": {"20", "10", 6 * time.Minute, "cpu=4 memory=1Gi", true},
	} {
		t.Run(name, func(t *testing.T) {
			refused := bind(four("p"), "n", noon)
			refused.ResourceVersion = c.pod
			refused.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "TopologyAffinityError",
				StartTime: &metav1.Time{Time: noon}}
			l := layoutOf(t, "n", 1)
			l.ResourceVersion = c.layout
			v := ViewOf([]v1alpha1.NodeLayout{*l}, nil, []v1.Pod{*refused}, nil, noon.Add(c.ago))
			p, err := apipod.ToPlace(podtest.Pod("q", podtest.Exact("c", c.amounts)))
			if err != nil {
				t.Fatal(err)
			}
			if got := v.States[0].Place(p, place.Demand{}); got.Fits() != c.fits {
				t.Errorf("the pod fits: %t, want %t: %v", got.Fits(), c.fits, got.Reasons)
			}
		})
	}
}
