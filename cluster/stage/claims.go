package stage

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Claims returns the devices that drivers publish, and who holds them by claims (DRA), as they are; nil if that was not
// read. Simulations neither place nor move devices of claims.
func (s *Stage) Claims() *document.Claims { return s.claims }

// claimed returns what decides about the devices of a pod's claims, and what of them is not judged. existing is the pod
// in the cluster that it stands for, or nil. A pod that waits wants devices for the claims that it has, and one that
// would be created again for other ones like these.
func (s *Stage) claimed(p, existing *v1.Pod) (d whatif.Devices, unjudged []string) {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	if s.allocates == nil || existing == nil {
		return nil, []string{UnjudgedClaims}
	}
	d, why := s.allocates().Of(existing.UID)
	if why != "" {
		return nil, []string{UnjudgedClaims + " (" + printable.Clip(why, 200) + ")"}
	}
	return d, nil
}

// unsettledClaims returns what of the devices of a pod's claims is not judged although the claims are: on nodes whose
// policy demands alignment and where Tenon's agent decides, the scheduler tries other places of the pod until there are
// devices near it. It names the first of these nodes to which the pod may go.
func (s *Stage) unsettledClaims(w *whatif.Want) []string {
	if w.Devices == nil || w.Pod.Plain() {
		return nil
	}
	for i := range s.nodes {
		n := s.nodes[i].State
		if n == nil || n.Machine == nil || n.Quality == state.Estimated || n.Rules.Arbiter != place.ByAgent ||
			w.Bars != nil && i < len(w.Bars.Why) && len(w.Bars.Why[i]) > 0 {
			continue
		}
		if p := n.Rules.Topology.Policy; p == place.SingleNUMA || p == place.Restricted {
			return []string{UnjudgedClaims + " (whether devices are near the pod on nodes where Tenon's agent decides, such as " +
				printable.Clip(n.Name, 60) + ")"}
		}
	}
	return nil
}

// decodeDevices adds a slice or a claim to the devices.
func decodeDevices(d *kube.Devices, kind string, text []byte) error {
	if kind == "ResourceSlice" {
		d.Slices = append(d.Slices, resourcev1.ResourceSlice{})
		return json.Unmarshal(text, &d.Slices[len(d.Slices)-1])
	}
	d.Claims = append(d.Claims, resourcev1.ResourceClaim{})
	return json.Unmarshal(text, &d.Claims[len(d.Claims)-1])
}
