package stage

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Pods of one workload exclude each other as a plan places them, by ports and by anti-affinity. Nodes without labels
// differ by their names.
func TestPodsOfAWorkloadKeepEachOtherAway(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"replicas": 3, "template": {
			"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": {"podAntiAffinity": {
			"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
			"labelSelector": {"matchLabels": {"app": "x"}}}]}}}}}}`: "pod default/x is there, which the pod's required " +
			"anti-affinity excludes (kubernetes.io/hostname)",
		`{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"replicas": 3, "template": {
			"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}}}`: "host port 80/TCP " +
			"is taken by pod default/x",
	} {
		labelled := made(t, []v1.Node{node("a", nil), node("b", nil)})
		bareStage, err := bare(slices.Clone(labelled.Nodes()), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Stage{labelled, bareStage} {
			w := read(t, s, text)
			plan := whatif.New(s.Nodes(), whatif.Rules{})
			got, err := plan.Fill(w.Want, w.Count, func(i int) state.PodID { return w.ID(1, i) }, func() error { return nil })
			if err != nil || len(got.Placed) != 2 || len(got.Refusals) != 1 || texts(got.Refusals[0].Reasons) != want {
				t.Errorf("placed %d, refusals %+v, %v; want 2 and %q", len(got.Placed), got.Refusals, err, want)
			}
			if len(w.Unjudged) > 0 {
				t.Errorf("not judged: %v", w.Unjudged)
			}
			for _, x := range got.Refusals[0].Reasons {
				if x.Remedy() == "" || x.When() != place.Later {
					t.Errorf("%s: %s, remedy %q", x.Text(), x.When(), x.Remedy())
				}
			}
		}
	}
}
