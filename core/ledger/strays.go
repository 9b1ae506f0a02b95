package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxStrays bounds the pods that ended without anybody knowing which part of the amounts was theirs; with
// more of them, the next report is waited for.
const maxStrays = 3

// stray notes the end of a pod that is counted without an entry of its own.
func (a *account) stray(uid string) {
	if r, ok := a.coarse.counted[uid]; ok && !r.absent && a.layout != nil && a.layout.Amounts != nil {
		a.coarse.strays = append(a.coarse.strays[:len(a.coarse.strays):len(a.coarse.strays)], r)
	}
}

// scattered returns the states in which a coarse node may be: pods keep what no report shows, and strays
// have left it. What each container of a stray held was on any one of the numas that hold as much. sure is
// false where there are too many, or one may have been on several numas, and where somebody is on the way
// to a node of which not all states are followed: what that one gets depends on them.
func (a *account) scattered(base *Node) (out []*Node, sure bool) {
	out, a.coarse.hazy = a.kept(base)
	sure = !a.coarse.hazy || len(a.assumed) == 0 || a.assumed[0].turned == 0
	if len(a.coarse.strays) > maxStrays {
		return out, false
	}
	for _, r := range a.coarse.strays {
		hs, ok := a.needs(r.pod)
		if !ok {
			continue // it never held anything that is known
		}
		for _, lot := range a.lots(r.pod, a.shown(hs)) {
			next := without(out, lot)
			if len(next) == 0 || len(next) > a.limits.states {
				return out, false
			}
			out = next
		}
	}
	return out, sure
}

// lots returns the amounts of a pod's holdings that were on one numa together.
func (a *account) lots(p *place.Pod, hs []place.Holding) (out []map[string]int64) {
	if a.together(p, hs) || a.layout.Amounts.Whole {
		return []map[string]int64{sum(hs)}
	}
	for _, h := range hs {
		out = append(out, sum([]place.Holding{h}))
	}
	return out
}

// without returns the nodes without amounts that were on any one numa. Equal ones are one.
func without(nodes []*Node, amounts map[string]int64) (out []*Node) {
	seen := map[string]bool{}
	for _, n := range nodes {
		for i := range n.Machine.NUMAs() {
			m, ok := less(n, i, amounts)
			if !ok {
				continue
			}
			if key := left(m.Usage); !seen[key] {
				seen[key], out = true, append(out, m)
			}
		}
	}
	return out
}

// less returns the node with amounts given back of what nobody is known to hold on one numa.
func less(n *Node, i int, amounts map[string]int64) (*Node, bool) {
	at := slices.IndexFunc(n.Entries, func(e Entry) bool { return e.Pod.UID == "" })
	if at < 0 {
		return nil, len(amounts) == 0
	}
	rest := n.Entries[at].Holdings[0]
	cpus := n.Machine.NUMAs()[i].CPUs.And(rest.CPUs).List()
	if int64(len(cpus)) < amounts["cpu"] {
		return nil, false
	}
	rest.CPUs = rest.CPUs.Minus(idset.Of(cpus[:amounts["cpu"]]...))
	rest.Memory, rest.Devices = slices.Clone(rest.Memory), slices.Clone(rest.Devices)
	left := maps.Clone(amounts)
	delete(left, "cpu")
	for k, m := range rest.Memory {
		if m.NUMAs == 1<<uint(i) && m.Bytes >= left[m.Kind] {
			rest.Memory[k].Bytes -= left[m.Kind]
			delete(left, m.Kind)
		}
	}
	// A block of nothing would tie its numa to a group all the same.
	rest.Memory = slices.DeleteFunc(rest.Memory, func(b place.Block) bool { return b.Bytes == 0 })
	for k, d := range rest.Devices {
		mine := slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !on(n.Machine, d.Resource, id, i) })
		if want := left[d.Resource]; int64(len(mine)) >= want {
			mine = mine[:want]
			rest.Devices[k].IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return slices.Contains(mine, id) })
			delete(left, d.Resource)
		}
	}
	if len(left) > 0 {
		return nil, false
	}
	out := *n
	out.Entries = slices.Clone(n.Entries)
	out.Entries[at].Holdings = []place.Holding{rest}
	out.Usage = n.Usage.Empty().Hold(holdings(out.Entries)...)
	return &out, true
}

func on(m *topo.Machine, resource, id string, numa int) bool {
	r, _ := m.Resource(resource)
	return slices.ContainsFunc(r.Devices, func(d topo.Device) bool { return d.ID == id && d.NUMAs.Has(numa) })
}
