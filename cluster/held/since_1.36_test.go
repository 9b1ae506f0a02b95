//go:build !upto1.35

package held_test

import (
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// A device on a NUMA node that the machine lacks is at an unknown place, and one that is near two NUMA nodes is apart
// from neither.
func TestPlacesOfDevices(t *testing.T) {
	w := newWorld()
	for i, at := range map[int]resourcev1.DeviceAttribute{2: {IntValue: new(int64(7))}, 3: {IntValues: []int64{1, 0}}} {
		w.Slices[0].Spec.Devices[i].Attributes["resource.kubernetes.io/numaNode"] = at
	}
	w.claim(0, "d2", "d3")
	if got, want := w.pod(t, 0), []string{"d2@?", "d3@1"}; !slices.Equal(got, want) {
		t.Errorf("the pod holds %q, want %q", got, want)
	}
	if d := w.of(t).Nodes["node"].Devices[3]; d.Near != "0-1" {
		t.Errorf("the device is near %q", d.Near)
	}
}
