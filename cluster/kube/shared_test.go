package kube

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Pods that request the same share the memory of that, and others do not.
func TestPodsOfAWorkloadShareTheirSpecs(t *testing.T) {
	f := begun(ledger.New())
	put := func(name string, c v1.Container) *boundPod {
		p := bind(podtest.Pod(name, c), "n", noon)
		f.Pod(p)
		return f.bound.pods[string(p.UID)]
	}
	first := put("a", podtest.Exact("c", "cpu=4 memory=1Gi"))
	if again := put("b", podtest.Exact("c", "cpu=4 memory=1Gi")); again.spec != first.spec {
		t.Error("equal pods have specs of their own")
	}
	for name, c := range map[string]v1.Container{"c": podtest.Exact("c", "cpu=4 memory=2Gi"),
		"d": podtest.Exact("other", "cpu=4 memory=1Gi")} {
		if p := put(name, c); p.spec == first.spec || p.spec.Containers[0].Name != c.Name {
			t.Errorf("pod %s has the spec of another pod", name)
		}
	}
}
