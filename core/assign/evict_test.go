package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/state"
)

// held puts pods on a node one after the other, and adds a unit for each. A pod that does not fit is left out.
func (e *Evictions) held(node int, priority int32, cpus ...int) {
	for _, c := range cpus {
		id := state.PodID{UID: fmt.Sprint("held-", len(e.Units))}
		next, ok := e.Nodes[node].With(id, pod(0, c).Pod)
		if !ok {
			continue
		}
		e.Nodes[node] = next
		e.Units = append(e.Units, Unit{evict.Victim{Priority: priority, Started: int64(len(e.Units)), Size: int64(c)},
			[]Held{{node, id.UID}}})
	}
}

// The pods that are evicted for a gang are the cheapest ones over all its nodes, and units go whole.
func TestACheapSetMakesRoomForAGang(t *testing.T) {
	e := Evictions{Problem: Problem{Nodes: []*state.Node{node(t, "a"), node(t, "b"), node(t, "c")},
		Pods: []Pod{pod(0, 6), pod(1, 6), pod(2, 6)}, Least: 3, Budget: plenty}}
	e.held(0, 5, 4, 4)       // units 0 and 1, one on each NUMA node
	e.held(1, 1, 4, 4)       // units 2 and 3
	e.held(2, 9, 4, 2, 4, 2) // units 4 to 7, two on each NUMA node
	if set, spent := Evict(e); !slices.Equal(set, []int{1, 2, 3}) || spent {
		t.Errorf("units %v are evicted, spent %t, want the two of priority 1, and the younger one of priority 5", set, spent)
	}
	e.Units[2].Pods, e.Units[2].Victim.Pods = append(e.Units[2].Pods, e.Units[3].Pods...), 2
	e.Units = slices.Delete(e.Units, 3, 4)
	if set, _ := Evict(e); !slices.Equal(set, []int{1, 2}) {
		t.Errorf("units %v are evicted, want the group on node b, and one pod", set)
	}
	e.Room = func(node int, pods, gone []int) bool { return node != 1 }
	if set, spent := Evict(e); len(set) != 4 || spent {
		t.Errorf("units %v are evicted where node b has no room, spent %t", set, spent)
	}
	e.Room, e.Least = nil, 1
	e.Nodes = append(e.Nodes, node(t, "empty"))
	if set, spent := Evict(e); set != nil || spent {
		t.Errorf("units %v are evicted where one pod fits without, spent %t", set, spent)
	}
	e.Pods, e.Least = []Pod{pod(0, 8)}, 1
	if set, spent := Evict(e); set != nil || spent {
		t.Errorf("units %v are evicted for a pod that no empty node takes, spent %t", set, spent)
	}
	e.Pods, e.Budget = []Pod{pod(0, 7), pod(1, 7), pod(2, 7)}, 20
	if set, spent := Evict(e); set != nil || !spent {
		t.Errorf("units %v are evicted with hardly any work, spent %t", set, spent)
	}
}

// On many nodes the search finds a good set with bounded work.
func TestVictimsAmongMany(t *testing.T) {
	e := Evictions{Problem: Problem{Least: 8, Budget: plenty}}
	for i := range 8 {
		e.Pods = append(e.Pods, pod(i, 7))
	}
	for i := range 300 {
		e.Nodes = append(e.Nodes, node(t, fmt.Sprint("n", i)))
		priority := int32(5)
		if i%60 == 7 {
			priority = 1
		}
		e.held(i, priority, 4, 3, 4, 3)
	}
	set, spent := Evict(e)
	if spent || len(set) != 16 {
		t.Fatalf("units %v are evicted, spent %t, want two for each of eight pods", set, spent)
	}
	for _, i := range set {
		if e.Units[i].Priority != 1 {
			t.Errorf("unit %d of priority %d is evicted", i, e.Units[i].Priority)
		}
	}
}

// In small cases no other set that makes room costs less: every set is tried with every assignment.
func TestFewUnitsCostTheLeast(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		e := Evictions{Problem: Problem{Budget: plenty}, Budgets: []int{rapid.IntRange(0, 2).Draw(r, "disruptions")}}
		for i := range rapid.IntRange(1, 3).Draw(r, "nodes") {
			e.Nodes = append(e.Nodes, node(t, fmt.Sprint("n", i)))
			for range rapid.IntRange(0, 3).Draw(r, "held") {
				e.held(i, int32(rapid.IntRange(0, 2).Draw(r, "priority")), rapid.IntRange(1, 7).Draw(r, "cpus"))
			}
		}
		for i := range e.Units {
			if rapid.IntRange(0, 3).Draw(r, "protected") == 0 {
				e.Units[i].Budgets = []int{0}
			}
		}
		if len(e.Units) > 1 && rapid.IntRange(0, 2).Draw(r, "group") == 0 {
			last := e.Units[len(e.Units)-1]
			e.Units = e.Units[:len(e.Units)-1]
			e.Units[0].Pods, e.Units[0].Victim.Pods = append(e.Units[0].Pods, last.Pods...), 2
		}
		for i := range rapid.IntRange(1, 3).Draw(r, "pods") {
			e.Pods = append(e.Pods, pod(i, rapid.IntRange(1, 7).Draw(r, "wants")))
		}
		e.Least = rapid.IntRange(1, len(e.Pods)).Draw(r, "least")
		set, spent := Evict(e)
		if spent {
			r.Fatal("the search was not finished")
		}
		want, found := cheapestOfAll(e)
		cost := evict.Problem{Budgets: e.Budgets}
		for _, u := range e.Units {
			cost.Victims = append(cost.Victims, u.Victim)
		}
		switch {
		case found != (set != nil):
			r.Fatalf("evicts %v, and the cheapest of all sets is %v", set, want)
		case found && cost.Cost(set).Compare(cost.Cost(want)) != 0:
			r.Fatalf("evicts %v, and %v costs less", set, want)
		}
	})
}

// cheapestOfAll tries all sets of units. found is false if none is enough, or none is needed.
func cheapestOfAll(e Evictions) (best []int, found bool) {
	cost := evict.Problem{Budgets: e.Budgets}
	for _, u := range e.Units {
		cost.Victims = append(cost.Victims, u.Victim)
	}
	for m := range 1 << len(e.Units) {
		nodes, gone := slices.Clone(e.Nodes), []int{}
		for i, u := range e.Units {
			if m>>i&1 == 0 {
				continue
			}
			gone = append(gone, i)
			for _, h := range u.Pods {
				nodes[h.Node] = nodes[h.Node].Without(h.UID)
			}
		}
		if !anyAssignment(nodes, e.Pods, e.Least) {
			continue
		}
		if m == 0 {
			return nil, false
		}
		if !found || cost.Cost(gone).Compare(cost.Cost(best)) < 0 {
			best, found = gone, true
		}
	}
	return best, found
}

// anyAssignment reports whether at least least of the pods fit, in their order, on some nodes.
func anyAssignment(nodes []*state.Node, pods []Pod, least int) bool {
	if least <= 0 {
		return true
	}
	if len(pods) < least {
		return false
	}
	for i, n := range nodes {
		if next, ok := n.With(pods[0].ID, pods[0].Pod); ok {
			with := slices.Clone(nodes)
			with[i] = next
			if anyAssignment(with, pods[1:], least-1) {
				return true
			}
		}
	}
	return anyAssignment(nodes, pods[1:], least)
}
