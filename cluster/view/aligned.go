package view

import (
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Misaligned returns the UIDs of the pods on a node that hold parts of more NUMA nodes, or of more distant ones, than
// they would hold on the empty machine; nil if there are none. Pods that the view lacks are left out. Then complete is
// false, and a later answer may have them. For an estimated node, whose holdings are not known, the result is nil.
//
// A pod on one NUMA node is aligned, so only the others are compared.
func (c *Live) Misaligned(n *state.Node) (uids map[string]bool, complete bool) {
	complete = true
	if n.Machine == nil || n.Usage == nil || n.Quality == state.Estimated {
		return nil, true
	}
	var ideal *place.Usage
	for _, e := range n.Entries {
		if (place.Verdict{Holdings: e.Holdings}).NUMAs(n.Machine).Len() < 2 {
			continue
		}
		pod := c.view.Pod(e.Pod.Namespace, e.Pod.Name)
		if pod == nil || string(pod.UID) != e.Pod.UID {
			complete = false
			continue
		}
		p, err := podapi.ToPlace(pod)
		if err != nil {
			continue // the pod cannot be judged
		}
		if ideal == nil {
			ideal = n.Usage.Ideal()
		}
		if place.Misaligned(place.Alignments(ideal, p, e.Holdings)) {
			if uids == nil {
				uids = map[string]bool{}
			}
			uids[e.Pod.UID] = true
		}
	}
	return uids, complete
}
