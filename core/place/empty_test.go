package place_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// kube-scheduler names nominated pods without their containers when they are in none of its queues.
func TestAPodWithoutContainersFits(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 32Gi\nnuma 1 socket 1 cpus 8-15 memory 32Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA} {
		for _, scope := range []place.Scope{place.PerContainer, place.PerPod} {
			rules := place.Rules{Topology: place.TopologyRules{Policy: policy, Scope: scope}, CPU: place.CPURules{Static: true}}
			u := place.NewUsage(m, rules)
			if v := place.Place(u, &place.Pod{}); !place.Fits(u, &place.Pod{}) || !v.Fits() || len(v.Holdings) > 0 {
				t.Errorf("policy %v, scope %v: it does not fit, or holds %v", policy, scope, v.Holdings)
			}
			if !place.NewQuestion(&place.Pod{}).Fits(u) {
				t.Errorf("policy %v, scope %v: the answer to a question is that it does not fit", policy, scope)
			}
		}
	}
}
