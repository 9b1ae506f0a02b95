package stage

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/core/place"
)

// A node that can allocate one device of two now, because one is unhealthy, does not lack the second one for good.
func TestUnhealthyDevicesAreNotLackedForGood(t *testing.T) {
	const gpu = "example.com/gpu"
	n := v1.Node{}
	n.Name = "a"
	n.Status.Allocatable = v1.ResourceList{gpu: resource.MustParse("1")}
	n.Status.Capacity = v1.ResourceList{gpu: resource.MustParse("2")}
	s, err := assemble([]v1.Node{n}, nil, nil, &Requests{})
	if err != nil {
		t.Fatal(err)
	}
	for want, when := range map[int64]place.When{2: place.Later, 3: place.Never} {
		lacks := s.nodes[0].Lacks(map[string]int64{gpu: want})
		if len(lacks) != 1 || lacks[0].When() != when {
			t.Errorf("a pod of %d devices lacks %v, want %s", want, lacks, when)
		}
	}
}
