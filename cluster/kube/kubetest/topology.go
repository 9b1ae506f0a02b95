package kubetest

import (
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topology returns a NodeResourceTopology of a node that has, for each number in free, a NUMA node of 16 CPUs with
// that many free.
func Topology(node string, version int, free ...int64) *v1alpha2.NodeResourceTopology {
	o := &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: node, ResourceVersion: fmt.Sprint(version)},
		TopologyPolicies: []string{string(v1alpha2.SingleNUMANodeContainerLevel)}}
	for i, n := range free {
		o.Zones = append(
			o.Zones,
			v1alpha2.Zone{Name: fmt.Sprintf("node-%d", i), Type: "Node", Resources: v1alpha2.ResourceInfoList{
				{
					Name:        "cpu",
					Capacity:    resource.MustParse("16"),
					Allocatable: resource.MustParse("16"),
					Available:   *resource.NewQuantity(n, resource.DecimalSI),
				}}},
		)
	}
	return o
}
