package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file looks for devices as the scheduler does.

// kind are pods whose claims ask for the same.
type kind struct {
	c       *Cluster
	specs   []*resourcev1.ResourceClaimSpec
	request string
	// spent is the time that its allocations have taken, and unsure is as in whatif.Devices.
	spent  time.Duration
	unsure bool
}

// result is what a pod gets: devices, or the reason why it gets none.
type result struct {
	devices []structured.DeviceID
	why     []place.Reason
	// unjudged: the reason is that it could not be found out.
	unjudged bool
	// doubtful: the pod gets devices, and perhaps others than these.
	doubtful bool
}

// past is what pods have got on a node, one after the other.
type past struct {
	node   string
	freed  []string // of the first one, which has no result
	before *past    // nil: the first one
	kind   *kind
	result
}

// step is a question: what a pod gets after others.
type step struct {
	before *past
	kind   *kind
	near   string
}

// Lacks implements whatif.Devices.
func (k *kind) Lacks(at whatif.Site) []place.Reason {
	out := k.at(at)
	k.unsure = k.unsure || out.unjudged
	return out.why
}

// Unsure implements whatif.Devices.
func (k *kind) Unsure() bool { return k.unsure }

// at returns what a pod gets at a site.
func (k *kind) at(at whatif.Site) result {
	p := k.c.first(at)
	for _, g := range at.Given {
		if other, is := g.Devices.(*kind); is {
			p = k.c.next(p, other, g.Near)
		}
	}
	return k.c.next(p, k, at.Near).result
}

// first returns a node from which pods have left.
func (c *Cluster) first(at whatif.Site) *past {
	out := &past{node: at.Node}
	key := at.Node
	for _, uid := range at.Freed {
		if len(c.freed[uid]) > 0 {
			key, out.freed = key+" "+uid, append(out.freed, uid)
		}
	}
	if c.firsts[key] == nil {
		c.firsts[key] = out
	}
	return c.firsts[key]
}

// next returns a node after one more pod, which gets devices there or does not.
func (c *Cluster) next(before *past, k *kind, near whatif.Near) *past {
	key := step{before, k, fmt.Sprint(near)}
	out := c.known[key]
	if out == nil {
		out = &past{node: before.node, before: before, kind: k, result: k.search(before, near)}
		if len(c.known) >= maxKnown {
			clear(c.known)
			clear(c.firsts)
		}
		c.known[key] = out
	}
	return out
}

// takenAt returns the devices of a node that pods have.
func (c *Cluster) takenAt(p *past) sets.Set[structured.DeviceID] {
	out := sets.New[structured.DeviceID]()
	for _, s := range c.slices[p.node] {
		for _, id := range idsOf(s) {
			if c.taken.Has(id) {
				out.Insert(id)
			}
		}
	}
	var got []structured.DeviceID
	for ; p.before != nil; p = p.before {
		got = append(got, p.devices...)
	}
	for _, uid := range p.freed {
		out.Delete(c.freed[uid]...)
	}
	return out.Insert(got...)
}

func idsOf(s *resourcev1.ResourceSlice) []structured.DeviceID {
	out := make([]structured.DeviceID, len(s.Spec.Devices))
	for i := range s.Spec.Devices {
		out[i] = structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)
	}
	return out
}

// search looks for devices that no other pod has. Of those that are kept for its request, a pod gets the devices of one
// place. If the request keeps several on the node, it is not known here which devices belong to one place: any one
// device does, if each place has some.
func (k *kind) search(p *past, near whatif.Near) result {
	c := k.c
	if c.nodes[p.node] == nil {
		return refused(place.Reason{Code: place.ByPlugin, Resource: notKnown, Want: 1})
	}
	places := c.places[p.node][k.request]
	taken, doubtful := c.takenAt(p), false
	for q := p; q.before != nil; q = q.before {
		if doubtful = doubtful || q.doubtful; q.kind.request == k.request {
			places--
		}
	}
	own := sets.New[structured.DeviceID]()
	var nearest []structured.DeviceID
	for _, d := range c.kept[p.node] {
		if d.request != k.request || k.request == "" || taken.Has(d.id) || own.Has(d.id) {
			continue
		}
		if own = own.Insert(d.id); len(nearest) == 0 || c.isFar(p.node, nearest[0], near) && !c.isFar(p.node, d.id, near) {
			nearest = []structured.DeviceID{d.id}
		}
	}
	switch {
	case doubtful && k.asks():
		return notJudged(before)
	case places < 2 || len(own) == 0:
		return k.among(p.node, taken, near)
	case int64(len(own)) < places:
		nearest = nil
	}
	one := k.among(p.node, taken.Union(own.Clone().Delete(nearest...)), near)
	if len(one.why) == 0 {
		one.doubtful = int64(len(own)) > places || !own.HasAll(one.devices...)
		return one
	}
	all := k.among(p.node, taken, near)
	if len(all.why) == 0 {
		return notJudged(whichPlace)
	}
	return all
}

// among looks for devices that are not taken as TenonClaims does: near the pod first, and elsewhere if they need not be
// near.
func (k *kind) among(node string, taken sets.Set[structured.DeviceID], near whatif.Near) result {
	c := k.c
	far, kept, request := c.far(node, near), sets.New[structured.DeviceID](), ""
	for _, d := range c.kept[node] {
		if k.request != "" && d.request == k.request {
			continue
		}
		if kept.Insert(d.id); request == "" || d.request < request {
			request = d.request
		}
	}
	promised := place.Reason{Code: place.Promised, With: request}
	tries := []sets.Set[structured.DeviceID]{taken.Union(kept).Union(far), taken.Union(kept), taken.Union(far), taken,
		sets.New[structured.DeviceID]()}
	for i, hidden := range tries {
		got, doubtful, err := k.spread(i, node, hidden, near)
		switch {
		case errors.Is(err, errLong) && (i > 1 || i == 1 && near.Must): // only the reason is not known
			return refused(place.Reason{Code: place.NoDevices, Resource: noneFree})
		case errors.Is(err, errLong):
			return notJudged(err.Error())
		case err != nil:
			return refused(place.Reason{Code: place.ByPlugin, Resource: err.Error(), Want: 1})
		case got == nil:
		case i == 0 || i == 1 && !near.Must:
			return result{devices: got, doubtful: doubtful}
		case i == 1: // see below whether near ones are kept
			if len(kept) > 0 {
				if with, _ := k.allocate(node, c.slices[node], tries[2]); with != nil {
					return refused(promised)
				}
			}
			return refused(place.Reason{Code: place.FarDevices, Resource: noneNear})
		case i == 2 || i == 3 && !near.Must:
			return refused(promised)
		default:
			return refused(place.Reason{Code: place.NoDevices, Resource: noneFree})
		}
	}
	if c.incomplete[node] {
		return refused(place.Reason{Code: place.ByPlugin, Resource: notWhole})
	}
	return refused(place.Reason{Code: place.ByPlugin, Resource: noneThere, Want: 1})
}

// spread makes a try of among with the devices in the order in which the scheduler tries them: those near the pod
// first. For a pod that is nowhere it tries sets of NUMA nodes; doubtful is true if the scheduler may compare several
// of these, which is not done here.
func (k *kind) spread(try int, node string, hidden sets.Set[structured.DeviceID], near whatif.Near) (
	out []structured.DeviceID, doubtful bool, err error) {
	c := k.c
	switch {
	case try == 1 && len(near.NUMAs) > 0 && !near.Must:
		out, err = k.allocate(node, c.ordered(node, near), hidden)
		return out, false, err
	case try > 0 || len(near.NUMAs) > 0 || !k.asks() || !c.laidOut[node]:
		out, err = k.allocate(node, c.slices[node], hidden)
		return out, false, err
	}
	chooses := slices.ContainsFunc(k.specs, func(s *resourcev1.ResourceClaimSpec) bool {
		return slices.ContainsFunc(s.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return r.Exactly == nil })
	})
	for _, target := range c.targets(node, hidden) {
		out, err = k.allocate(node, c.slices[node], hidden.Union(c.far(node, whatif.Near{NUMAs: target})))
		if out != nil || err != nil {
			return out, chooses, err
		}
	}
	out, err = k.allocate(node, c.slices[node], hidden)
	return out, false, err
}

// maxTargets bounds the sets of NUMA nodes that the scheduler tries, and the NUMA nodes of these sets.
const maxTargets = 62

// targets returns the sets of NUMA nodes that the scheduler tries for a pod that is nowhere, smaller ones first, and of
// equally large ones those with the fewest free devices; none if all free devices are on one.
func (c *Cluster) targets(node string, hidden sets.Set[structured.DeviceID]) (out [][]int) {
	free := map[int]int{}
	for id, numas := range c.where[node] {
		for _, numa := range numas {
			if !hidden.Has(id) {
				free[numa]++
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(free), func(a, b int) int {
		return cmp.Or(cmp.Compare(free[a], free[b]), cmp.Compare(a, b))
	})
	all = all[:min(len(all), maxTargets)]
	var add func(size, below int, set []int)
	add = func(size, below int, set []int) { // sets whose largest position is lower come first
		if size == 0 {
			out = append(out, set)
			return
		}
		for i := size - 1; i < below && len(out) < maxTargets; i++ {
			add(size-1, i, append(slices.Clone(set), all[i]))
		}
	}
	for size := 1; size < len(all) && len(out) < maxTargets; size++ {
		add(size, len(all), nil)
	}
	return out
}

// ordered returns the slices of a node with the devices first in each that are near a pod.
func (c *Cluster) ordered(node string, near whatif.Near) (out []*resourcev1.ResourceSlice) {
	for _, s := range c.slices[node] {
		var first, last []resourcev1.Device
		for i, id := range idsOf(s) {
			if c.isFar(node, id, near) {
				last = append(last, s.Spec.Devices[i])
			} else {
				first = append(first, s.Spec.Devices[i])
			}
		}
		copied := *s
		copied.Spec.Devices = append(first, last...)
		out = append(out, &copied)
	}
	return out
}

// far returns the devices of a node that are on other NUMA nodes than a pod; none for a pod that is nowhere.
func (c *Cluster) far(node string, near whatif.Near) sets.Set[structured.DeviceID] {
	out := sets.New[structured.DeviceID]()
	for id := range c.where[node] {
		if c.isFar(node, id, near) {
			out.Insert(id)
		}
	}
	return out
}

// isFar reports whether a device is on other NUMA nodes than a pod.
func (c *Cluster) isFar(node string, id structured.DeviceID, near whatif.Near) bool {
	numas := c.where[node][id]
	return len(near.NUMAs) > 0 && len(numas) > 0 && !claims.Touch(numas, near.NUMAs)
}

func refused(why place.Reason) result { return result{why: []place.Reason{why}} }

// notJudged is the result for a question that has no answer. The reason passes by itself as far as it is known.
func notJudged(why string) result {
	return result{why: []place.Reason{{Code: place.ByPlugin, Resource: "not judged: " + why}}, unjudged: true}
}

// The texts of reasons.
const (
	noneNear  = "the pod's claims get no devices on the NUMA nodes where its CPUs and memory would be"
	noneFree  = "cannot allocate all claims"
	noneThere = "the node has no devices that the pod's claims allow"
	notWhole  = "a driver has not published all its devices of the node yet"
	notKnown  = "which devices the node would have is not known"
	// These two follow "not judged: ".
	before     = "which devices pods before it get there is not known"
	whichPlace = "which of the devices that are kept for its request belong to one pod is not known"

	maxFault = 300
)

var errLong = errors.New("to allocate devices for the pod's claims takes too long")
