//go:build !upto1.35

package claims_test

import (
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/cluster/claims"
)

// A device may be equally near to several NUMA nodes.
func TestListsOfNUMANodes(t *testing.T) {
	for _, c := range []struct {
		list, want []int64
		fault      string
	}{
		{[]int64{5, 4, 6}, []int64{5, 4, 6}, ""},
		{[]int64{}, nil, "is no number"},
		{[]int64{0, -1}, nil, "outside 0..1023"},
	} {
		s := slice("s", "d.example.com", 1, 1, attributes{numaNode: {IntValues: c.list}})
		n := claims.Published([]resourcev1.ResourceSlice{s}, nil)["a"]
		var got []int64
		for _, id := range n.Devices[0].NUMAs {
			got = append(got, int64(id))
		}
		why := strings.Join(n.Problems, "\n")
		if !slices.Equal(got, c.want) || !strings.Contains(why, c.fault) || (why == "") != (c.fault == "") {
			t.Errorf("%v: on NUMA nodes %v, problems %q; want %v and %q", c.list, got, why, c.want, c.fault)
		}
	}
}
