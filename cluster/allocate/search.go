package allocate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file looks for devices as the scheduler does.

// kind are pods whose claims ask for the same.
type kind struct {
	c              *Cluster
	name           string
	specs          []*resourcev1.ResourceClaimSpec
	request, owner string
}

// result is what a pod gets: devices, or the reason why it gets none.
type result struct {
	devices []structured.DeviceID
	why     []place.Reason
}

// Lacks implements whatif.Devices.
func (k *kind) Lacks(at whatif.Site) []place.Reason { return k.at(at).why }

// at returns what a pod gets at a site.
func (k *kind) at(at whatif.Site) result {
	name := fmt.Sprint(at.Node, at.Freed, k.name, at.Near)
	for _, g := range at.Given {
		other, _ := g.Devices.(*kind)
		name += fmt.Sprint(" ", other.name, g.Near)
	}
	out, known := k.c.known[name]
	if !known {
		out = k.search(at.Node, k.c.after(at), at.Near)
		if len(k.c.known) >= maxKnown {
			clear(k.c.known)
		}
		k.c.known[name] = out
	}
	return out
}

// after returns the devices of a node that pods have.
func (c *Cluster) after(at whatif.Site) sets.Set[structured.DeviceID] {
	out := sets.New[structured.DeviceID]()
	for _, s := range c.slices[at.Node] {
		for _, id := range idsOf(s) {
			if c.taken.Has(id) {
				out.Insert(id)
			}
		}
	}
	for _, uid := range at.Freed {
		out.Delete(c.freed[uid]...)
	}
	for i, g := range at.Given {
		if k, is := g.Devices.(*kind); is {
			before := whatif.Site{Node: at.Node, Freed: at.Freed, Given: at.Given[:i], Near: g.Near}
			out.Insert(k.at(before).devices...)
		}
	}
	return out
}

func idsOf(s *resourcev1.ResourceSlice) (out []structured.DeviceID) {
	for i := range s.Spec.Devices {
		out = append(out, structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name))
	}
	return out
}

// search looks for devices as TenonClaims does: near the pod first, and elsewhere if they need not be near.
func (k *kind) search(node string, taken sets.Set[structured.DeviceID], near whatif.Near) result {
	c := k.c
	if c.nodes[node] == nil {
		return result{why: []place.Reason{{Code: place.ByPlugin, Resource: notKnown, Want: 1}}}
	}
	far, kept := sets.New[structured.DeviceID](), sets.New[structured.DeviceID]()
	for id, numas := range c.where[node] {
		if len(near.NUMAs) > 0 && len(numas) > 0 && !slices.ContainsFunc(numas, func(id int) bool {
			return slices.Contains(near.NUMAs, id)
		}) {
			far.Insert(id)
		}
	}
	request := ""
	for _, d := range c.kept[node] {
		if k.request != "" && d.request == k.request || k.request == "" && d.owner != "" && d.owner == k.owner {
			continue
		}
		if kept.Insert(d.id); request == "" || d.request < request {
			request = d.request
		}
	}
	none := sets.New[structured.DeviceID]()
	tries := []sets.Set[structured.DeviceID]{taken.Union(kept).Union(far), taken.Union(kept), taken.Union(far), taken,
		none}
	for i, hidden := range tries {
		got, fault := c.allocate(node, k.specs, hidden)
		switch {
		case fault != "":
			return result{why: []place.Reason{{Code: place.ByPlugin, Resource: fault, Want: 1}}}
		case got == nil:
		case i == 0 || i == 1 && !near.Must:
			return result{devices: got}
		case i == 1: // see below whether near ones are kept
			why := place.Reason{Code: place.FarDevices, Resource: noneNear}
			if len(kept) > 0 {
				if with, _ := c.allocate(node, k.specs, tries[2]); with != nil {
					why = place.Reason{Code: place.Promised, With: request}
				}
			}
			return result{why: []place.Reason{why}}
		case i == 2 || i == 3 && !near.Must:
			return result{why: []place.Reason{{Code: place.Promised, With: request}}}
		default:
			return result{why: []place.Reason{{Code: place.NoDevices, Resource: noneFree}}}
		}
	}
	return result{why: []place.Reason{{Code: place.ByPlugin, Resource: noneThere, Want: 1}}}
}

// The texts of reasons.
const (
	noneNear  = "the pod's claims get no devices on the NUMA nodes where its CPUs and memory would be"
	noneFree  = "cannot allocate all claims"
	noneThere = "the node has no devices that the pod's claims allow"
	notKnown  = "which devices the node would have is not known"
)

// allocate returns the devices of a node that claims get without the hidden ones; nil if they get none. fault is why
// that could not be found out.
func (c *Cluster) allocate(node string, specs []*resourcev1.ResourceClaimSpec,
	hidden sets.Set[structured.DeviceID]) (out []structured.DeviceID, fault string) {
	object := c.nodes[node]
	if len(c.slices[node]) == 0 {
		return nil, ""
	}
	if c.spent >= maxSpent {
		return nil, tooLong
	}
	began := c.now()
	defer func() { c.spent += c.now().Sub(began) }()
	ctx, cancel := context.WithTimeout(context.Background(), maxOne)
	defer cancel()
	a, err := structured.NewAllocator(ctx, structured.Features{PrioritizedList: true, DeviceTaints: true},
		structured.AllocatedState{AllocatedDevices: hidden}, c.classes, c.slices[node], c.cel)
	if err != nil {
		return nil, printable.Clip(err.Error(), maxFault)
	}
	var all []*resourcev1.ResourceClaim
	for i, spec := range specs {
		name := fmt.Sprint("claim-", i)
		all = append(all, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec: *spec})
	}
	results, err := a.Allocate(ctx, object, all)
	switch {
	case ctx.Err() != nil:
		return nil, tooLong
	case err != nil && !onNode(err):
		return nil, printable.Clip(strings.TrimSpace(err.Error()), maxFault)
	case err != nil || results == nil:
		return nil, ""
	}
	out = []structured.DeviceID{}
	for i := range results {
		for _, r := range results[i].Devices.Results {
			out = append(out, structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out, ""
}

const (
	tooLong  = "to allocate devices for the pod's claims takes too long"
	maxFault = 300
)
