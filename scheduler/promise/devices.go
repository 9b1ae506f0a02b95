package promise

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file keeps devices of claims (DRA). Which devices a place gets is decided by package capacity, with the
// allocator of kube-scheduler. The plugin that allocates claims hides them from other pods. Places of pods that are
// alike exchange devices, because the kubelet decides only when a pod comes on which NUMA node its CPUs are.

// Devices are what is kept for a pod with claims.
type Devices struct {
	// IDs are the devices. Nil: none could be kept yet.
	IDs []claims.ID
	// On are the NUMA nodes of a pod that needs the devices near; see [state.Promised].
	On topo.Mask
}

// Kept is a place that is kept.
type Kept struct {
	Request string
	Index   int // in the request
	Place
}

// Check sets a function that reports whether claims have one of some devices now, or are about to. The keeper calls it
// after it has hidden devices: a pod that was given one meanwhile is noticed here, or notices it itself; see Take.
func (k *Keeper) Check(taken func([]claims.ID) bool) { k.taken = taken }

// Hidden returns the devices that are kept. It takes no lock. The caller must not change the result, which is nil if
// there are none. A nil keeper keeps none.
func (k *Keeper) Hidden() map[claims.ID]bool {
	if k == nil {
		return nil
	}
	if hidden := k.hidden.Load(); hidden != nil {
		return *hidden
	}
	return nil
}

// Offers returns, for each node that keeps places for a pod's request, which devices the pod may get there: one list
// for the place that it uses up, and then one for each place that may exchange with it. The pod's node is ignored.
func (k *Keeper) Offers(c Coming) map[string][][]claims.ID {
	if c.Request == "" || k.Hidden() == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	here := map[string][]*kept{}
	for _, p := range k.requests[c.Request] {
		here[p.node] = append(here[p.node], p)
	}
	out := make(map[string][][]claims.ID, len(here))
	for node, list := range here {
		own := c.first(list)
		out[node] = [][]claims.ID{own.devices}
		for _, q := range k.on[node] {
			if q != own && own.alike(q) {
				out[node] = append(out[node], q.devices)
			}
		}
	}
	return out
}

// NodesFor returns the names of the nodes that keep places for a pod: such as are for a pod like it, or else all of its
// request. They are ascending. The pod's node is ignored.
func (k *Keeper) NodesFor(c Coming) (out []string) {
	if !k.Any() || c.Request == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, like := range []bool{true, false} {
		for _, p := range k.requests[c.Request] {
			if !like || p.promised.Claims == c.Claims && p.promised.Like(c.Pod, c.Demand) {
				out = append(out, p.node)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Take records that a pod which was reserved got devices. It returns false, and the pod must not keep them, if some of
// them are kept for others.
func (k *Keeper) Take(uid string, devices []claims.ID) bool {
	if k.Hidden() == nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.used[uid]
	for _, id := range devices {
		q := k.owners[id]
		if q == nil || q == own {
			continue
		}
		if own == nil || q.node != own.node || !own.alike(q) || k.gone(q) {
			return false
		}
		k.exchange(own, q)
		k.tell(own.node)
		break
	}
	return !slices.ContainsFunc(devices, func(id claims.ID) bool { return k.owners[id] != nil && k.owners[id] != own })
}

// Came ends the place of a pod that was bound: its claims have its devices.
func (k *Keeper) Came(uid string) {
	if k.Hidden() == nil {
		return
	}
	k.mu.Lock()
	p := k.used[uid]
	had := p != nil && p.devices != nil
	if had {
		k.show(func(q *kept) bool { return q == p })
		p.devices = nil
	}
	k.mu.Unlock()
	if had {
		k.freed(p.node) // the pod may have got others
	}
}

// On returns the places that are kept on a node, in the order in which the pods of each request come.
func (k *Keeper) On(node string) (out []Kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.on[node] {
		out = append(out, p.place())
	}
	return out
}

// Claimed returns the nodes that keep places of pods with claims, ascending.
func (k *Keeper) Claimed() (out []string) {
	if !k.Any() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for node, list := range k.on {
		if slices.ContainsFunc(list, func(p *kept) bool { return p.claimed }) {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}

// Assign keeps other devices for the places on a node. list is what On has returned, with other devices. It returns
// false, and changes nothing, if the places are not the same any more, the node has no room for them so, or some of the
// devices are not free; see Rejudge. Until it returns, the devices before and the others are both hidden.
func (k *Keeper) Assign(node string, list []Kept) bool {
	assigned, shown := k.assign(node, list)
	if shown {
		k.freed(node)
	}
	return assigned
}

// assign is Assign. shown is true if some devices are not hidden any more.
func (k *Keeper) assign(node string, list []Kept) (assigned, shown bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.on[node]
	same := func(p *kept, x Kept) bool { return p.promised.For == x.Request && p.index == x.Index }
	if !slices.EqualFunc(now, list, same) {
		return false, false
	}
	before, owners := make([]Devices, len(now)), k.owners
	for i, p := range now {
		before[i] = Devices{p.devices, p.promised.On}
	}
	others := maps.Clone(owners)
	maps.DeleteFunc(others, func(_ claims.ID, p *kept) bool { return slices.Contains(now, p) })
	for _, x := range list {
		if slices.ContainsFunc(x.IDs, func(id claims.ID) bool { return others[id] != nil }) {
			return false, false
		}
	}
	for i, p := range now {
		p.devices, p.promised.On = list[i].IDs, list[i].On
	}
	k.owners = maps.Clone(owners)
	k.own(now...)
	all := len(k.owners)
	if k.free(node, now) && k.rejudge(node, promised(now), k.sum(now, "")) {
		k.publish()
		assigned, shown = k.free(node, now), true // a claim may have got one meanwhile
	}
	if assigned {
		k.owners = others
		k.own(now...)
		k.tell(node)
	} else {
		k.owners = owners
		for i, p := range now {
			p.devices, p.promised.On = before[i].IDs, before[i].On
		}
	}
	if shown = shown && len(k.owners) < all; shown {
		k.publish()
	}
	return assigned, shown
}

// place returns a place as others see it.
func (p *kept) place() Kept {
	return Kept{p.promised.For, p.index, Place{p.node, Pod{p.promised.Set, p.promised.Pod, p.promised.Demand, p.needs,
		p.promised.Claims, p.claimed}, Devices{p.devices, p.promised.On}}}
}

// alike reports whether two places may exchange their devices.
func (p *kept) alike(q *kept) bool {
	return p.claimed && q.claimed && p.promised.Claims == q.promised.Claims &&
		q.promised.Like(p.promised.Pod, p.promised.Demand)
}

// gone reports whether a pod has used up a place.
func (k *Keeper) gone(p *kept) bool { return !slices.Contains(k.on[p.node], p) }

// exchangeFor gives a place devices on some NUMA nodes, if a place on its node exchanges them.
func (k *Keeper) exchangeFor(p *kept, on topo.Mask) {
	if on == 0 || p.promised.On == 0 || p.promised.On == on {
		return
	}
	for _, q := range k.on[p.node] {
		if q != p && q.promised.On == on && p.alike(q) {
			k.exchange(p, q)
			return
		}
	}
}

// exchange exchanges the devices of two places.
func (k *Keeper) exchange(p, q *kept) {
	p.devices, q.devices = q.devices, p.devices
	p.promised.On, q.promised.On = q.promised.On, p.promised.On
	for _, x := range []*kept{p, q} {
		for _, id := range x.devices {
			k.owners[id] = x
		}
	}
}

// free reports whether the devices of the places on a node are kept for no other place, and no claim has them.
func (k *Keeper) free(node string, list []*kept) bool {
	return k.alone(list) && len(k.taking([]string{node}, map[string][]*kept{node: list})) == 0
}

// alone reports whether the devices of places are kept for no other place.
func (k *Keeper) alone(list []*kept) bool {
	seen := map[claims.ID]bool{}
	for _, p := range list {
		for _, id := range p.devices {
			if q := k.owners[id]; q != nil && q != p || seen[id] {
				return false
			}
			seen[id] = true
		}
	}
	return true
}

// taking returns the nodes where claims have devices of the places in on. Mostly there are none, and k.taken, which
// copies the allocations of the cluster, is called once.
func (k *Keeper) taking(nodes []string, on map[string][]*kept) []string {
	var all []claims.ID
	for _, node := range nodes {
		for _, p := range on[node] {
			all = append(all, p.devices...)
		}
	}
	switch {
	case len(all) == 0 || k.taken == nil || !k.taken(all):
		return nil
	case len(nodes) == 1:
		return nodes
	}
	half := len(nodes) / 2
	return slices.Concat(k.taking(nodes[:half], on), k.taking(nodes[half:], on))
}

// hide hides the devices of places.
func (k *Keeper) hide(list ...*kept) {
	if k.own(list...) {
		k.publish()
	}
}

// own makes places the owners of their devices, without a change of what is hidden. It reports whether they have any.
func (k *Keeper) own(list ...*kept) (has bool) {
	for _, p := range list {
		for _, id := range p.devices {
			k.owners[id], has = p, true
		}
	}
	return has
}

// show hides the devices of the places for which of returns true no more.
func (k *Keeper) show(of func(p *kept) bool) {
	before := len(k.owners)
	maps.DeleteFunc(k.owners, func(_ claims.ID, p *kept) bool { return of(p) })
	if len(k.owners) < before {
		k.publish()
	}
}

func (k *Keeper) publish() {
	if len(k.owners) == 0 {
		k.hidden.Store(nil)
		return
	}
	hidden := make(map[claims.ID]bool, len(k.owners))
	for id := range k.owners {
		hidden[id] = true
	}
	k.hidden.Store(&hidden)
}
