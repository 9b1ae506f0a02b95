//go:build !upto1.35

package doctor_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/ops/doctor"
)

// A device that is as near to the NUMA node of the pod's CPUs as to its own one lies beside them.
func TestADeviceThatIsNearToSeveralNUMANodes(t *testing.T) {
	w := healthy()
	w.publish("gpu.example.com", "resource.kubernetes.io/numaNode",
		resourcev1.DeviceAttribute{IntValues: []int64{1, 0}})
	w.claim(&w.pods[0], "d0") // its CPUs are on NUMA node 0
	if got := ids(w.examine(t, doctor.Options{})); len(got) > 0 {
		t.Errorf("findings %v", got)
	}
}
