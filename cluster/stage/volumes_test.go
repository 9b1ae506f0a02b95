package stage

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Pods that a plan has placed count for claims of one pod at a time and for the volumes that a node attaches. A claim
// that comes with the workload is not judged, and is listed as such.
func TestVolumesOfPlacedPodsCount(t *testing.T) {
	const cluster = `{"kind": "List", "apiVersion": "v1", "items": [
		{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "8", "pods": "9"}}},
		{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "b"}, "status": {"allocatable": {"cpu": "8", "pods": "9"}}},
		{"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "a"}, "spec": {"drivers": [
			{"name": "d", "nodeID": "a", "allocatable": {"count": 0}}]}},
		{"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "s"}, "provisioner": "d",
			"volumeBindingMode": "WaitForFirstConsumer"},
		{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "one", "namespace": "default"},
			"spec": {"storageClassName": "s", "accessModes": ["ReadWriteOncePod"]}}]}`
	s, _, err := Export([]byte(cluster))
	if err != nil {
		t.Fatal(err)
	}
	deployment := func(claim string) *whatif.Workload {
		return read(t, s, `{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"replicas": 2,
			"template": {"spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", "persistentVolumeClaim": {
			"claimName": "`+claim+`"}}]}}}}`)
	}
	w := deployment("one")
	got, err := whatif.New(s.Nodes(), whatif.Rules{}).Fill(w.Want, w.Count,
		func(i int) ledger.PodID { return w.ID(1, i) }, func() error { return nil })
	if err != nil || len(got.Placed) != 1 || s.Nodes()[got.Placed[0].Node].Name != "b" || len(w.Unjudged) > 0 {
		t.Fatalf("placed %+v, not judged %v, %v; want one on b", got.Placed, w.Unjudged, err)
	}
	var said []string
	for _, r := range got.Refusals {
		said = append(said, texts(r.Reasons))
		if when := r.Reasons[0].When(); when == place.Changed {
			t.Errorf("%s: %s", texts(r.Reasons), when)
		}
	}
	slices.Sort(said)
	const used = "claim one is for one pod at a time (ReadWriteOncePod), and pod default/x uses it"
	if want := []string{used, "never on this node: volumes of d (wants 1; it attaches 0); " + used}; !slices.Equal(said,
		want) {
		t.Errorf("%q\nwant %q", said, want)
	}
	if w := deployment("new"); !slices.Equal(w.Unjudged, []string{"claim new, which is not there yet"}) {
		t.Errorf("not judged: %q", w.Unjudged)
	}
}
