package defrag

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// device is a device of a node.
type device struct {
	numa int
	pod  string // the UID of the pod that has it, or ""
}

// rack has the devices of nodes, by name.
type rack map[string][]device

// gpus are pods that want so many devices: the first ones near the pod, and then any others, if they need not be near.
type gpus struct {
	rack rack
	n    int
}

// Lacks implements whatif.Devices.
func (g *gpus) Lacks(at whatif.Site) []place.Reason {
	all := slices.Clone(g.rack[at.Node])
	for i := range all {
		if slices.Contains(at.Freed, all[i].pod) {
			all[i].pod = ""
		}
	}
	for _, x := range at.Given {
		before, _ := x.Devices.(*gpus)
		before.take(all, "given", x.NUMAs, x.Must)
	}
	if !g.take(all, "wanted", at.NUMAs, at.Must) {
		return []place.Reason{{Code: place.NoDevices, Resource: "none is free"}}
	}
	return nil
}

// Unsure implements whatif.Devices.
func (g *gpus) Unsure() bool { return false }

// take gives a pod devices, and reports whether there are enough.
func (g *gpus) take(all []device, pod string, near []int, must bool) bool {
	left := g.n
	for _, close := range []bool{true, false} {
		for i := range all {
			is := len(near) == 0 || slices.Contains(near, all[i].numa)
			if all[i].pod == "" && left > 0 && is == close && (close || !must) {
				all[i].pod, left = pod, left-1
			}
		}
	}
	return left == 0
}

// withDevices draws a small cluster in which some pods have devices of claims, and some pods that wait want some.
func withDevices(t testing.TB, r *rand.Rand) (Problem, rack) {
	devices := rack{}
	for i := range 3 {
		name := string(rune('x' + i))
		for range 1 + r.IntN(4) {
			devices[name] = append(devices[name], device{numa: r.IntN(2)})
		}
	}
	kinds := []*gpus{{devices, 1}, {devices, 2}}
	some := func(of, in int) whatif.Devices { // for so many pods
		if r.IntN(in) >= of {
			return nil
		}
		return kinds[r.IntN(2)]
	}
	var p Problem
	policies := []place.Policy{place.SingleNUMA, place.SingleNUMA, place.Restricted, place.BestEffort, place.None}
	for i := range 2 + r.IntN(2) {
		p.Nodes = append(p.Nodes, node(t, string(rune('x'+i)), policies[r.IntN(len(policies))]))
	}
	for i := range 8 + r.IntN(6) {
		w, at, name := pod(1+r.Int64N(2), 0), r.IntN(len(p.Nodes)), fmt.Sprint("p", i)
		w.Devices = some(2, 3)
		if w.Devices != nil && len(w.Devices.Lacks(whatif.Site{Node: p.Nodes[at].Name})) > 0 {
			continue
		}
		m, ok := settle(p.Nodes, at, name, w)
		if !ok {
			continue
		}
		if g, has := w.Devices.(*gpus); has {
			g.take(devices[p.Nodes[at].Name], name, where(&p.Nodes[at], name), false)
		}
		m.Weight, m.Priority, m.Started = 1+r.Int64N(2), r.Int32N(2), r.Int64N(3)
		if len(p.Movers) < 6 && r.IntN(5) > 0 {
			p.Movers = append(p.Movers, m)
		}
	}
	w := pod(2+r.Int64N(3), 0)
	w.Devices = some(4, 5)
	p.Pods = asking(slices.Repeat([]*whatif.Want{w}, 1+r.IntN(2))...)
	for i := range p.Pods {
		p.Pods[i].Priority = r.Int32N(3)
	}
	p.Most = 1 + r.IntN(6)
	return p, devices
}

// where returns the NUMA nodes of a pod's exclusive CPUs.
func where(n *whatif.Node, uid string) (out []int) {
	e, _ := n.State.Entry(uid)
	for _, h := range e.Holdings {
		for i, x := range n.State.Machine.NUMAs() {
			if x.CPUs.AndLen(h.CPUs) > 0 && !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	return out
}

// cheapestWithDevices is oracle for a cluster with devices: it tries all sets and all places, and gives devices by
// itself.
func cheapestWithDevices(p Problem, devices rack) (best Cost, found bool) {
	for bits := range 1 << len(p.Movers) {
		var set []int
		for i := range p.Movers {
			if bits>>i&1 == 1 {
				set = append(set, i)
			}
		}
		if !needed(p, set) || found && p.Cost(set).Compare(best) >= 0 {
			continue
		}
		free := map[string][]device{}
		for name, all := range devices {
			free[name] = slices.Clone(all)
			for i := range all {
				if slices.ContainsFunc(set, func(m int) bool { return p.Movers[m].Pod.UID == all[i].pod }) {
					free[name][i].pod = ""
				}
			}
		}
		nodes, wants := after(p, set)
		if settledWith(p, nodes, wants, free) {
			best, found = p.Cost(set), true
		}
	}
	return best, found
}

// settledWith reports whether pods have places and devices.
func settledWith(p Problem, nodes []whatif.Node, wants []*whatif.Want, free map[string][]device) bool {
	if len(wants) == 0 {
		return true
	}
	w := wants[0]
	for at := range nodes {
		if len(nodes[at].Lacks(w.Needs)) > 0 {
			continue
		}
		uid := fmt.Sprint("back", len(wants))
		next, ok := nodes[at].State.Join(state.PodID{UID: uid, Namespace: "ns", Name: uid}, w.Pod, w.Demand)
		if !ok {
			continue
		}
		rest, left := slices.Clone(nodes), map[string][]device{}
		rest[at].State, rest[at].Used = next, rest[at].Used.Add(w.Needs)
		for name := range free {
			left[name] = slices.Clone(free[name])
		}
		if g, has := w.Devices.(*gpus); has {
			policy := next.Rules.Topology.Policy
			must := policy == place.SingleNUMA || policy == place.Restricted
			if !g.take(left[rest[at].Name], uid, where(&rest[at], uid), must) {
				continue
			}
		}
		if settledWith(p, rest, wants[1:], left) {
			return true
		}
	}
	return false
}

// Pods with devices of claims move and get room: compared with all sets and all places, no plan costs more, none lacks
// devices, and none is missing where that is certain.
func TestPlansWithDevicesOfClaims(t *testing.T) {
	plans, moves, uncertain, moved, missed := 0, 0, 0, 0, 0
	for k := range uint64(*cases) {
		p, devices := withDevices(t, rand.New(rand.NewPCG(*seed+k, 13)))
		got := find(t, p)
		want, ok := cheapestWithDevices(p, devices)
		if got.Plan != nil && (!ok || got.Plan.Cost.Compare(want) < 0) ||
			got.Cheapest && ((got.Plan != nil) != ok || ok && got.Plan.Cost != want) {
			t.Fatalf("seed %d: found %s, certainly the cheapest %t, and an exhaustive search %t, %+v", *seed+k, text(p, got),
				got.Cheapest, ok, want)
		}
		if !got.Cheapest {
			uncertain++
		}
		if got.Plan == nil {
			if ok {
				missed++
			}
			continue
		}
		plans++
		for _, m := range got.Plan.Moves {
			if moves++; p.Movers[m.Mover].Want.Devices != nil {
				moved++
			}
		}
		verify(t, p, got.Plan)
	}
	t.Logf("%d clusters, %d plans, %d missed, %d moves, %d of them of pods with devices; %d answers are not certain",
		*cases, plans, missed, moves, moved, uncertain)
	if plans < *cases/4 || moved < *cases/20 {
		t.Errorf("only %d plans and %d moves of pods with devices: the clusters test too little", plans, moved)
	}
}

// unknown are devices that cannot be judged.
type unknown struct{ asked bool }

// Lacks implements whatif.Devices.
func (u *unknown) Lacks(whatif.Site) []place.Reason {
	u.asked = true
	return []place.Reason{{Code: place.ByPlugin, Resource: "not judged"}}
}

// Unsure implements whatif.Devices.
func (u *unknown) Unsure() bool { return u.asked }

// That no plan was found is not certain if it could not be found out whether a pod gets devices.
func TestDevicesThatAreNotJudged(t *testing.T) {
	for _, pod := range []string{"goal", "mover"} {
		p, _ := withDevices(t, rand.New(rand.NewPCG(*seed, 13)))
		p.Movers, p.Must, p.Most = p.Movers[:1], nil, 1
		p.Movers[0].Want.Devices = nil
		w := *p.Pods[0].Want
		w.Devices = &unknown{}
		if pod == "mover" {
			w.Devices, p.Movers[0].Want.Devices, p.Must = nil, w.Devices, []int{0}
		}
		p.Pods = asking(&w)
		if got := find(t, p); got.Plan != nil || got.Cheapest || !got.Spent {
			t.Errorf("devices of a %s are not judged: plan %t, certain %t, spent %t", pod, got.Plan != nil, got.Cheapest,
				got.Spent)
		}
	}
}
