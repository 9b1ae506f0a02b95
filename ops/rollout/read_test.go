package rollout_test

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/ops/rollout"
)

// A plan names the parts of the cluster that were not read: pods that it did not see may have no place afterwards.
func TestAPlanSaysWhatWasNotRead(t *testing.T) {
	v := kube.ViewOf(nil, nil, nil, nil, noon)
	v.Seen = &kube.Seen{Namespaces: []string{"ml"}}
	v.Miss("namespaces", "you may not list them")
	s, err := rollout.SceneOf(v, nil, []document.Limit{{Resource: "poddisruptionbudgets", Reason: "no"}})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := s.Plan(whatif.Variation{}) // for no node
	var got []string
	for _, l := range p.Limits {
		got = append(got, l.Resource)
	}
	if want := []string{"pods", "namespaces", "poddisruptionbudgets"}; !slices.Equal(got, want) {
		t.Errorf("not read are %v, want %v", got, want)
	}
}
