package assign

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/state"
)

// Unit is pods that are evicted together or not at all: one pod, or all pods of a group.
type Unit struct {
	evict.Victim
	Pods []Held
}

// Held is a pod on a node.
type Held struct {
	Node int // index in Problem.Nodes
	UID  string
}

// Evictions is what [Evict] solves: the pods of the Problem get nodes once enough units are evicted. In place of
// Problem.Room, Room has the units that are gone from the node.
type Evictions struct {
	Problem
	Units   []Unit
	Budgets []int // of evict.Problem
	Room    func(node int, pods, gone []int) bool
}

// share is the part of the budget that one search for nodes may use: 1/share of the whole.
const share = 4

// Evict returns the cheapest units without which at least Least pods get nodes, as ascending indices. With at most
// [evict.Exhaustive] units that may help, no other set costs less; with more, the set is the cheapest one found, and
// none of its units can be left out. The result is nil if no set is enough, or if none is needed. If the budget ended
// some search for nodes, or there are too many units to try, spent is true: then nil proves nothing, and a set may have
// units that are not needed.
func Evict(p Evictions) (set []int, spent bool) {
	s := &uprooting{Evictions: p, left: p.Budget, byNode: map[int][]int{}, cleared: map[string]*state.Node{}}
	for i, u := range p.Units {
		for _, h := range u.Pods {
			s.byNode[h.Node] = append(s.byNode[h.Node], i)
		}
	}
	for node, units := range s.byNode {
		s.byNode[node] = slices.Compact(units)
	}
	pool := s.pool()
	if s.works(nil) || s.cut || len(pool) > evict.MaxVictims {
		return nil, s.cut || len(pool) > evict.MaxVictims
	}
	problem := evict.Problem{Budgets: p.Budgets}
	for _, i := range pool {
		problem.Victims = append(problem.Victims, p.Units[i].Victim)
	}
	for _, node := range s.openable {
		if g := positions(pool, s.byNode[node]); len(g) > 0 {
			problem.Groups = append(problem.Groups, g)
		}
	}
	problem.Works = func(gone []int) bool { return s.works(at(pool, gone)) }
	choice, ok := evict.Choose(problem)
	if !ok {
		return nil, s.cut
	}
	return at(pool, choice.Set), s.cut
}

// at returns the elements of a list at some indices.
func at(list, indices []int) []int {
	out := make([]int, 0, len(indices))
	for _, i := range indices {
		out = append(out, list[i])
	}
	return out
}

// positions returns the indices in a sorted list of some of its elements. Others it leaves out.
func positions(list, elements []int) (out []int) {
	for _, e := range elements {
		if i, ok := slices.BinarySearch(list, e); ok {
			out = append(out, i)
		}
	}
	return out
}

// uprooting is the state of Evict.
type uprooting struct {
	Evictions
	left   int           // of the budget
	cut    bool          // a search for nodes ended with its budget
	byNode map[int][]int // the units with pods on a node
	// ready are the nodes that take some pod as they are. openable, the cheapest first, are the nodes that take some pod
	// once all their units are gone. Other nodes are not looked at.
	ready, openable []int
	cleared         map[string]*state.Node // nodes without units, by key
}

// pool finds the nodes that matter, and returns the units to choose from: all that may help if they are few, and
// otherwise the units of the cheapest nodes, of as few nodes as are enough.
func (s *uprooting) pool() []int {
	known := map[string]bool{}
	var order []int // a pod of each kind
	for i, p := range s.Pods {
		if !known[p.Kind] {
			known[p.Kind] = true
			order = append(order, i)
		}
	}
	many := map[string]int{}
	for node, n := range s.Nodes {
		for _, i := range order {
			switch p := &s.Pods[i]; {
			case n == nil:
			case len(s.byNode[node]) > 0 && s.takes(s.without(node, s.byNode[node]), node, i, s.byNode[node]):
				s.openable = append(s.openable, node)
			case many[p.Kind] < 2*len(s.Pods) && s.takes(n, node, i, nil):
				many[p.Kind]++
				s.ready = append(s.ready, node)
			default:
				continue
			}
			break
		}
	}
	cost := evict.Problem{Budgets: s.Budgets}
	for _, u := range s.Units {
		cost.Victims = append(cost.Victims, u.Victim)
	}
	costs := map[int]evict.Cost{}
	for _, node := range s.openable {
		costs[node] = cost.Cost(s.byNode[node])
	}
	slices.SortStableFunc(s.openable, func(a, b int) int { return costs[a].Compare(costs[b]) })
	all := s.units(s.openable)
	if len(all) <= evict.Exhaustive {
		return all
	}
	most := 1
	for ; most < len(s.openable) && !s.works(s.units(s.openable[:most])); most *= 2 {
	}
	least := most/2 + 1
	most = min(most, len(s.openable))
	for least < most {
		if half := (least + most) / 2; s.works(s.units(s.openable[:half])) {
			most = half
		} else {
			least = half + 1
		}
	}
	s.openable = s.openable[:most]
	return s.units(s.openable)
}

// units returns the units with pods on some nodes.
func (s *uprooting) units(nodes []int) (out []int) {
	for _, node := range nodes {
		out = append(out, s.byNode[node]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// takes reports whether a node takes a pod once some of its units are gone. n is the node without them.
func (s *uprooting) takes(n *state.Node, node, pod int, gone []int) bool {
	p := &s.Pods[pod]
	s.left -= 1 + len(p.Pod.Containers)
	s.cut = s.cut || s.left < 0
	return s.left >= 0 && n.Takes(p.Pod, p.Demand) && (s.Barred == nil || !s.Barred(node, pod)) &&
		(s.Room == nil || s.Room(node, []int{pod}, gone))
}

// works reports whether enough pods get nodes without some units.
func (s *uprooting) works(gone []int) bool {
	if s.left < 0 {
		s.cut = true
		return false
	}
	p := s.Problem
	p.Nodes = make([]*state.Node, len(s.Nodes))
	for _, node := range s.ready {
		p.Nodes[node] = s.Nodes[node]
	}
	for _, node := range s.openable {
		p.Nodes[node] = s.without(node, s.on(node, gone))
	}
	if s.Room != nil {
		p.Room = func(node int, pods []int) bool { return s.Room(node, pods, s.on(node, gone)) }
	}
	p.Budget = min(max(0, s.left), s.Budget/share)
	found, left := FindLeft(p)
	s.left -= p.Budget - left
	s.cut = s.cut || found == nil && left < 0
	return found != nil
}

// on returns the units in a sorted list that have pods on a node.
func (s *uprooting) on(node int, units []int) (out []int) {
	for _, i := range s.byNode[node] {
		if _, is := slices.BinarySearch(units, i); is {
			out = append(out, i)
		}
	}
	return out
}

// without returns a node without the pods of some units.
func (s *uprooting) without(node int, units []int) *state.Node {
	if len(units) == 0 {
		return s.Nodes[node]
	}
	key := fmt.Sprint(node, units)
	var uids []string
	for _, i := range units {
		for _, h := range s.Units[i].Pods {
			if h.Node == node {
				uids = append(uids, h.UID)
			}
		}
	}
	n, known := s.cleared[key]
	if !known {
		s.left -= len(s.Nodes[node].Entries)
		n = s.Nodes[node].Without(uids...)
		s.cleared[key] = n
	}
	return n
}
