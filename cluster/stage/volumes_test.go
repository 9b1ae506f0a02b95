package stage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
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
			"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "persistentVolumeClaim": {
			"claimName": "`+claim+`"}}]}}}}`)
	}
	w := deployment("one")
	got, err := whatif.New(s.Nodes(), whatif.Rules{}).Fill(w.Want, w.Count,
		func(i int) state.PodID { return w.ID(1, i) }, func() error { return nil })
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

// A driver that reports capacities makes no volume where none of its reports is large enough. Where the reports are not
// known, the answer names that.
func TestStorageCapacityIsJudged(t *testing.T) {
	const cluster = `{"kind": "List", "apiVersion": "v1", "items": [
		{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"zone": "x"}}},
		{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "b", "labels": {"zone": "y"}}},
		{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "c", "labels": {"zone": "z"}}},
		{"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "d"},
			"spec": {"storageCapacity": true}},
		{"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "s"}, "provisioner": "d",
			"volumeBindingMode": "WaitForFirstConsumer"},
		{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "big", "namespace": "default"},
			"spec": {"storageClassName": "s", "resources": {"requests": {"storage": "3Gi"}}}}%s]}`
	capacity := func(name, zone, capacity, largest string) string {
		return `, {"kind": "CSIStorageCapacity", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "` + name +
			`", "namespace": "d"}, "storageClassName": "s", "nodeTopology": {"matchLabels": {"zone": "` + zone + `"}},
			"capacity": "` + capacity + `"` + largest + `}`
	}
	pod := `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}],
		"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "big"}}]}}`
	known := capacity("x", "x", "10Gi", "") + capacity("y1", "y", "10Gi", `, "maximumVolumeSize": "2Gi"`) +
		capacity("y2", "y", "1Gi", "")
	s, _, err := Export(fmt.Appendf(nil, cluster, known))
	if err != nil {
		t.Fatal(err)
	}
	w := read(t, s, pod)
	if len(w.Unjudged) > 0 {
		t.Errorf("not judged: %q", w.Unjudged)
	}
	want := []string{"", "storage class s has no 3Gi for claim big here, at most 2Gi",
		"storage class s has no 3Gi for claim big here, at most 0"}
	for i, reasons := range w.Want.Barred(s.Nodes()) {
		if got := texts(reasons); got != want[i] {
			t.Errorf("node %s: %q, want %q", s.Nodes()[i].Name, got, want[i])
		}
		for _, r := range reasons {
			if r.When() != place.Later || r.Remedy() == "" {
				t.Errorf("%s: %s, %q", r.Text(), r.When(), r.Remedy())
			}
		}
	}
	if s, _, err = Export(fmt.Appendf(nil, cluster, "")); err != nil {
		t.Fatal(err)
	}
	if w := read(t, s, pod); !slices.Equal(w.Unjudged, []string{"storage capacity for claim big"}) {
		t.Errorf("without reports of capacity, not judged: %q", w.Unjudged)
	}
}
