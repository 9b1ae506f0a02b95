package doctor_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/ops/doctor"
)

// The remedy for a refused pod depends on the cause: a late plugin, a pod that Tenon placed, or another scheduler.
func TestRefusedPodsAreMendedByTheirCause(t *testing.T) {
	const late = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate " +
		"unhealthy devices example.com/nic, which is unexpected"
	for _, c := range []struct{ scheduler, reason, message, want string }{
		{"tenon-scheduler", "UnexpectedAdmissionError", late, "see whether the device plugin runs"},
		{"default-scheduler", "UnexpectedAdmissionError", late, "see whether the device plugin runs"},
		{"tenon-scheduler", "TopologyAffinityError", "", "delete the pod, and see"},
		{"default-scheduler", "TopologyAffinityError", "", "delete the pod: it does not run again; let Tenon"},
	} {
		w := healthy()
		p := kubetest.Admitted(kubetest.CPUs("gpu", 3), "node")
		p.Spec.SchedulerName = c.scheduler
		p.Status.Phase, p.Status.Reason, p.Status.Message = v1.PodFailed, c.reason, c.message
		w.pods = append(w.pods, *p)
		for _, f := range w.examine(t, doctor.Options{}).Findings {
			if f.ID == "kubelet-refused" && !strings.HasPrefix(f.Remedy, c.want) {
				t.Errorf("%+v: remedy %q", c, f.Remedy)
			}
		}
	}
}
