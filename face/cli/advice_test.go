package cli

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
)

// explain has the same remedy as check for a pod that lacks little to get CPUs of its own.
func TestExplainHasARemedyForNearlyGuaranteedPods(t *testing.T) {
	c := small(t)
	burstable := wanting(4, 10, 0)
	burstable.QoS = place.Burstable
	withGPU := wanting(4, 10, 1)
	withGPU.QoS = place.Burstable
	half := wanting(1, 10, 0)
	half.Containers[0].MilliCPU = 1500
	for name, p := range map[string]*place.Pod{"burstable": burstable, "gpu": withGPU, "half": half} {
		c.pods["ml/"+name] = view.Pod{ID: id("ml/" + name), Pod: p, Phase: "Pending"}
	}
	for name, want := range map[string]string{
		"burstable": "no kubelet aligns anything for it. Remedy: give each container limits for cpu and memory, equal to",
		"gpu":       "Warning: it is Burstable, so no kubelet aligns its CPUs and memory; give each container limits",
		"half":      `Warning: container "main" wants 1500m CPUs, no whole number, so it gets shared CPUs; ask for 1 or 2.`,
		"trainer-0": "",
	} {
		out, errs, code := run(t, c, "explain", "pod", "ml/"+name)
		flat := strings.Join(strings.Fields(out), " ")
		if code != 0 || !strings.Contains(flat, want) || want == "" && strings.Contains(flat, "Warning") {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", name, code, want, out, errs)
		}
	}
}
