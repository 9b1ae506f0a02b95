package place_test

import (
	"fmt"
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
			for _, arbiter := range []place.Arbiter{place.ByKubelet, place.ByAgent} {
				t.Run(fmt.Sprint(policy, scope, arbiter), func(t *testing.T) {
					u := place.NewUsage(m, place.Rules{Topology: place.TopologyRules{Policy: policy, Scope: scope},
						CPU: place.CPURules{Static: true}, Arbiter: arbiter})
					empty := &place.Pod{}
					if v := place.Place(u, empty); !v.Fits() || len(v.Holdings) > 0 {
						t.Errorf("fits: %t, holds %v", v.Fits(), v.Holdings)
					}
					if !place.Fits(u, empty) || !place.NewQuestion(empty).Fits(u) {
						t.Error("the answer is that it does not fit")
					}
				})
			}
		}
	}
}
