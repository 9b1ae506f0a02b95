// Package nrt has the names of NodeResourceTopology (topology.node.k8s.io/v1alpha2) that its writer (node/nrt) and its
// reader (cluster/nrt) share, and a client of an API server.
//
// Invariant: the names are those that other producers and readers use; nothing here depends on the content of an
// object. The package translates nothing, and the client neither retries nor caches.
package nrt

import (
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"github.com/tenon-numa/tenon/core/place"
)

// Kind is the kind of the objects, and Resource their plural name, as in the path of a request.
const (
	Kind     = "NodeResourceTopology"
	Resource = "noderesourcetopologies"
)

// Names of attributes, beside those of package podfingerprint. Producers and the scheduler plugin
// NodeResourceTopologyMatch agree on them; they are not part of the API's module.
const (
	AttributePolicy   = "topologyManagerPolicy"
	AttributeScope    = "topologyManagerScope"
	AttributeMaxNUMAs = "topologyManagerMaxNUMANodes"
)

// DefaultMaxNUMAs is the kubelet's limit if max-allowable-numa-nodes is not set.
const DefaultMaxNUMAs = 8

// FormerPolicy returns the value of the deprecated field topologyPolicies, which has policy and scope in one word.
// For the policy none it is the same for both scopes.
func FormerPolicy(p place.Policy, s place.Scope) v1alpha2.TopologyManagerPolicy {
	byScope := map[place.Policy][2]v1alpha2.TopologyManagerPolicy{
		place.BestEffort: {v1alpha2.BestEffortContainerLevel, v1alpha2.BestEffortPodLevel},
		place.Restricted: {v1alpha2.RestrictedContainerLevel, v1alpha2.RestrictedPodLevel},
		place.SingleNUMA: {v1alpha2.SingleNUMANodeContainerLevel, v1alpha2.SingleNUMANodePodLevel},
	}
	names, ok := byScope[p]
	if !ok {
		return v1alpha2.None
	}
	return names[s]
}
