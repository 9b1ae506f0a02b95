package steer

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file hides devices that are kept for pods that have not come. To the wrapped plugin they are allocated.

// Promises has the devices that are kept for pods that have not come.
type Promises interface {
	// Hidden returns all devices that are kept; empty if there are none. The result is never changed.
	Hidden() map[claims.ID]bool
	// Offers returns which of them a pod may get, by node: one of the lists. The first one is what was kept for it. It is
	// called in PreFilter for a pod with claims to allocate, with what Hidden has returned: the pod gets no others of it.
	Offers(cs fwk.CycleState, pod *v1.Pod, hidden map[claims.ID]bool) map[string][][]claims.ID
	// Take is called in Reserve with the devices of a pod. If it returns false, they are kept for others.
	Take(cs fwk.CycleState, pod *v1.Pod, devices []claims.ID) bool
}

// KeptText is why a pod may have got no devices: some are kept for others.
const KeptText = "some devices there are kept for pods that have not come yet"

// noneFree is why the wrapped plugin refuses a node without the devices that a pod needs.
const noneFree = "cannot allocate all claims"

// Heed has the plugin hide the devices that are kept. It must be called before the first pod is scheduled.
func (p *Plugin) Heed(promises Promises) { p.promises = promises }

// hiding returns a function that returns the devices that are kept from a pod; nil if no devices are kept.
func (p *Plugin) hiding(cs fwk.CycleState, pod *v1.Pod) func() sets.Set[structured.DeviceID] {
	if p.promises == nil {
		return nil
	}
	all := p.promises.Hidden()
	if len(all) == 0 {
		return nil
	}
	return func() sets.Set[structured.DeviceID] { return p.hidden(cs, pod, all) }
}

// hidden returns which of all kept devices are kept from a pod. On each node that keeps devices for the pod, it may get
// the ones near the NUMA nodes where it would be, or else the first ones.
func (p *Plugin) hidden(cs fwk.CycleState, pod *v1.Pod, all map[claims.ID]bool) sets.Set[structured.DeviceID] {
	out := make(sets.Set[structured.DeviceID], len(all))
	for id := range all {
		out.Insert(deviceID(id))
	}
	offers := p.promises.Offers(cs, pod, all)
	if len(offers) == 0 {
		return out
	}
	if list, err := p.dra.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules(); err == nil {
		p.index.update(list)
	}
	for node, lists := range offers {
		for _, id := range p.nearest(cs, node, lists) {
			out.Delete(deviceID(id))
		}
	}
	return out
}

// nearest returns the first list whose devices are near a pod on a node, or else the first one. One list needs no
// prediction of where the pod would be.
func (p *Plugin) nearest(cs fwk.CycleState, node string, lists [][]claims.ID) []claims.ID {
	if len(lists) == 1 {
		return lists[0]
	}
	n, near := p.index.nodes[node], p.places.Predicted(cs, node)
	if n == nil || near.Unknown || len(near.NUMAs) == 0 {
		return lists[0]
	}
	for _, list := range lists {
		if _, apart := n.apart(list, near.NUMAs); !apart && len(list) == len(lists[0]) {
			return list
		}
	}
	return lists[0]
}

func deviceID(id claims.ID) structured.DeviceID {
	return structured.MakeDeviceID(id.Driver, id.Pool, id.Name)
}

// keeps reports whether devices of a node are kept from the pod.
func (c *cycle) keeps(node string) bool {
	if n := c.nodes[node]; n != nil {
		for _, ids := range n.ids {
			for _, id := range ids {
				if c.kept.Has(id) {
					return true
				}
			}
		}
	}
	return false
}

// explain adds to a refusal for want of devices that some of the node are kept for others, which passes by itself.
// Other refusals stay as they are: more devices would not help.
func (c *cycle) explain(node string, status *fwk.Status) *fwk.Status {
	if c == nil || len(c.kept) == 0 || !status.IsRejected() ||
		status.Code() != fwk.Unschedulable && !slices.Contains(status.Reasons(), noneFree) || !c.keeps(node) {
		return status
	}
	return fwk.NewStatus(fwk.Unschedulable, append(status.Reasons(), KeptText)...)
}
