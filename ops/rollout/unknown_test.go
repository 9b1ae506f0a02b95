package rollout_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/ops/rollout"
)

// A plan for all nodes names the nodes that it leaves out.
func TestAPlanNamesTheNodesThatItLeavesOut(t *testing.T) {
	v := kube.ViewOf(nil, []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "dark"}}}, nil, nil, noon)
	s, err := rollout.SceneOf(v, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Plan(whatif.Variation{})
	if err == nil || len(p.Limits) != 1 || p.Limits[0].Resource != "node dark" {
		t.Errorf("limits %v, error %v; want node dark named", p.Limits, err)
	}
}
