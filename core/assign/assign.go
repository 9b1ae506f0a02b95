// Package assign finds a node for each pod of a group.
//
// kube-scheduler takes the pods of a group in a fixed order, and each of them gets the node that looks best at that
// moment. A small pod can so take the place that a large one would have needed. This package looks for nodes on which
// all pods fit, by trying one assignment after the other.
//
// Invariant: on every node that Find returns, the pods that get it fit one after the other, in their order, as
// [state.Node] judges them. The result depends on the arguments alone. The work is counted: a search that reaches its
// bound ends without a result, and reports that. Pods that have to be together get one node. Pods do not come in
// another order than the given one, because kube-scheduler keeps that order.
package assign

import (
	"cmp"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Pod is a pod of a group.
type Pod struct {
	ID     state.PodID
	Pod    *place.Pod
	Demand place.Demand
	// Kind is equal for pods that all nodes treat alike.
	Kind string
	// Effort is how many containers are placed in the time that a call of Barred for the pod takes, if that is more than
	// one.
	Effort int
}

// Problem is what [Find] solves. Nodes that are nil take no pods.
type Problem struct {
	Nodes []*state.Node
	Pods  []Pod
	// Least is how many pods have to get nodes.
	Least int
	// Budget bounds the work: the containers that are placed, and the calls of Barred. A node that has no room for a pod
	// alone costs a tenth of that.
	Budget int
	// Barred reports whether something else than NUMA nodes keeps a pod from a node; equal for pods of one kind. Room
	// reports whether a node has room for all of some pods at once by such other rules. Nil stands for no such rules.
	Barred func(node, pod int) bool
	Room   func(node int, pods []int) bool
}

// Left is the node of a pod that is left out.
const Left = -1

// Bounds of a scheduler's search for the nodes of a gang, so that it holds up other pods for some tenths of a second at
// most. Simulations have the same bounds, so that they find what a scheduler would find.
const (
	// SchedulerBudget bounds the containers that one search places.
	SchedulerBudget = 20_000
	// GangBudget bounds the containers that all searches for one gang place, on whatever sets of nodes, until it is tried
	// again.
	GangBudget = 10 * SchedulerBudget
	// SchedulerTries is how many assignments are tried on a set of nodes: other rules may refuse one.
	SchedulerTries = 3
	// SchedulerPods bounds the gangs for which nodes are searched. A larger one gets nodes pod by pod only.
	SchedulerPods = 256
)

// Find returns the index of a node for each pod. If no assignment has nodes for all pods, some get [Left], as few as
// possible, and at least Least pods get nodes. The result is nil if there is no such assignment. If the search reached
// its bound before it knew that, spent is true. A pod gets only nodes on which it fits alone, and other pods are taken
// to make no room for it.
func Find(p Problem) (at []int, spent bool) {
	at, left := FindLeft(p)
	return at, at == nil && left < 0
}

// FindLeft is Find, and returns what is left of the budget: less than 0 if the search reached its bound.
func FindLeft(p Problem) (at []int, left int) {
	s := newSearch(p)
	for s.spare = s.lacking(); s.spare <= len(p.Pods)-max(p.Least, 1); s.spare++ {
		for _, s.order = range [][]int{s.hardest, s.given} {
			if s.try(0) {
				return s.at, s.Budget
			}
			if s.Budget < 0 {
				return nil, s.Budget
			}
		}
	}
	return nil, s.Budget
}

// search is the state of a search.
type search struct {
	Problem
	spare int // how many pods may still be left out
	// order has the pods in the order in which they are decided: hardest, where pods with the fewest nodes come first,
	// which soon finds an assignment, and then given, their own order, which finds one if there is one. In their own
	// order, what a pod gets does not depend on pods that are decided later.
	order, hardest, given []int
	// fits has by kind the nodes on which a pod fits alone, the nodes that fewest kinds want first. See enough.
	fits map[string][]int
	seen int           // containers for which a node was seen to have no room, less than glances
	at   []int         // the node of each pod, or Left
	on   map[int][]int // the pods of each node, in their order
}

func newSearch(p Problem) *search {
	s := &search{Problem: p, at: make([]int, len(p.Pods)), on: map[int][]int{}, fits: map[string][]int{}}
	wanted := make([]int, len(p.Nodes))
	for i := range p.Pods {
		s.at[i], s.given = Left, append(s.given, i)
		kind := p.Pods[i].Kind
		if _, known := s.fits[kind]; !known {
			s.fits[kind] = s.alone(i)
			for _, n := range s.fits[kind] {
				wanted[n]++
			}
		}
	}
	for _, list := range s.fits {
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(wanted[a], wanted[b]) })
	}
	s.hardest = slices.Clone(s.given)
	slices.SortStableFunc(s.hardest, func(i, k int) int {
		a, b := &p.Pods[i], &p.Pods[k]
		return cmp.Or(cmp.Compare(len(s.fits[a.Kind]), len(s.fits[b.Kind])), cmp.Compare(size(b), size(a)),
			cmp.Compare(a.Kind, b.Kind))
	})
	return s
}

// size returns the CPUs that a pod requests.
func size(p *Pod) (milli int64) {
	for _, c := range p.Pod.Containers {
		milli += c.MilliCPU
	}
	return milli
}

// glances is how many times a node may be seen to have no room for a container in the time that placing one takes.
const glances = 10

// enough is how many nodes are looked for on which a pod fits alone, if it is not related to others. More are not
// needed: whatever nodes the other pods get, one of these takes no other pod. There are twice as many, so that fewer
// pods are tried on one node.
func (s *search) enough(p *Pod) int {
	if p.Demand.Relates() {
		return len(s.Nodes)
	}
	return 2 * len(s.Pods)
}

// alone returns the nodes on which a pod fits without the others of its group, as many as are enough. The others may
// move it to another NUMA node: so what it demands about other pods does not count.
func (s *search) alone(i int) (out []int) {
	p := &s.Pods[i]
	for node, n := range s.Nodes {
		if len(out) >= s.enough(p) {
			return out
		}
		if n == nil || !s.mayTake(n, p) {
			continue
		}
		if s.Budget -= max(1, p.Effort); s.Budget < 0 {
			return out
		}
		if (s.Barred == nil || !s.Barred(node, i)) && (s.Room == nil || s.Room(node, []int{i})) {
			out = append(out, node)
		}
	}
	return out
}

// mayTake reports whether a node takes a pod that is not related to others. Most nodes of a full cluster have no room
// for it even without its demand, which is found out at once.
func (s *search) mayTake(n *state.Node, p *Pod) bool {
	s.seen += len(p.Pod.Containers)
	s.Budget -= s.seen / glances
	if s.seen %= glances; s.Budget < 0 || !n.Fits(p.Pod) {
		return false
	}
	d := p.Demand.Unrelated()
	if !d.Binds() {
		return true
	}
	s.Budget -= len(p.Pod.Containers)
	return s.Budget >= 0 && n.Takes(p.Pod, d)
}

// lacking returns how many pods get no node whatever is tried: of each kind, the pods beyond what all nodes have room
// for if no other pods come. Pods that are related to others do not count: others may make room for them.
func (s *search) lacking() (n int) {
	same := map[string][]int{}
	for i := range s.Pods {
		if s.Pods[i].Demand.Relates() {
			continue
		}
		same[s.Pods[i].Kind] = append(same[s.Pods[i].Kind], i)
	}
	for _, pods := range same {
		left := len(pods)
		for _, node := range s.fits[s.Pods[pods[0]].Kind] {
			left -= s.room(node, pods[:left])
		}
		n += left
	}
	if s.Budget < 0 {
		return 0
	}
	return n
}

// room returns how many of some equal pods a node takes.
func (s *search) room(node int, pods []int) (n int) {
	for now := s.Nodes[node]; n < len(pods); n++ {
		p := &s.Pods[pods[n]]
		if s.Budget -= len(p.Pod.Containers); s.Budget < 0 || !now.Takes(p.Pod, p.Demand) ||
			s.Room != nil && !s.Room(node, pods[:n+1]) {
			return n
		}
		now, _ = now.Join(p.ID, p.Pod, p.Demand)
	}
	return n
}

// try finds nodes for the pods from index k of s.order on.
func (s *search) try(k int) bool {
	if k == len(s.order) {
		return true
	}
	i := s.order[k]
	for _, node := range s.candidates(k) {
		s.put(i, node)
		if s.holds(node) && s.try(k+1) {
			return true
		}
		s.take(i)
		if s.Budget < 0 {
			return false
		}
	}
	if s.spare == 0 {
		return false
	}
	s.spare--
	if s.try(k + 1) {
		return true
	}
	s.spare++
	return false
}

// candidates returns the nodes that are tried for the pod at index k of s.order. Pods of one kind that follow on each
// other get nodes in the order of their list only: other assignments differ in nothing but their names. That is exact
// if the pods are decided in their own order.
func (s *search) candidates(k int) []int {
	i := s.order[k]
	list := s.fits[s.Pods[i].Kind]
	if at := s.others(i); at != Left {
		if !slices.Contains(list, at) {
			return nil
		}
		list = []int{at}
	}
	if k == 0 || s.Pods[s.order[k-1]].Kind != s.Pods[i].Kind {
		return list
	}
	if before := s.at[s.order[k-1]]; before != Left {
		return list[max(0, slices.Index(list, before)):]
	}
	return nil // the one before was left out
}

// others returns the node of the pods of the group that a pod has to be together with, or Left if none has a node yet.
func (s *search) others(i int) int {
	key := s.Pods[i].Demand.Together
	for k := range s.Pods {
		if key != "" && k != i && s.Pods[k].Demand.Together == key && s.at[k] != Left {
			return s.at[k]
		}
	}
	return Left
}

func (s *search) put(i, node int) {
	s.at[i] = node
	pods := s.on[node]
	to, _ := slices.BinarySearch(pods, i)
	s.on[node] = slices.Insert(slices.Clone(pods), to, i)
}

func (s *search) take(i int) {
	node := s.at[i]
	s.on[node] = slices.DeleteFunc(slices.Clone(s.on[node]), func(j int) bool { return j == i })
	s.at[i] = Left
}

// holds reports whether the pods that a node has got fit there one after the other.
func (s *search) holds(node int) bool {
	pods := s.on[node]
	if s.Room != nil && !s.Room(node, pods) {
		s.Budget--
		return false
	}
	n := s.Nodes[node]
	for _, i := range pods {
		p := &s.Pods[i]
		if s.Budget -= len(p.Pod.Containers); s.Budget < 0 || !n.Takes(p.Pod, p.Demand) {
			return false
		}
		n, _ = n.Join(p.ID, p.Pod, p.Demand)
	}
	return true
}
