// Package promise keeps room for pods that have been promised a place and have not come yet.
//
// A request (a ProvisioningRequest of Tenon's class) names pods and gets a place for each of them, or for none. Until
// the pods come, the [Keeper] has their places: the ledger refuses pods whose CPUs, memory or devices would take the
// room on NUMA nodes, and Filter refuses those that would take the plain amounts. A pod that names the request uses up
// one of its places, whichever node it goes to.
//
// Invariant: what is kept has been judged by the ledger and the amounts of the node after it was kept, so no place is
// promised twice, whatever is reserved meanwhile. The keeper is bounded by [MaxPods]. It decides neither which request
// gets room nor how long: package capacity does. It keeps no host ports, volumes and claims of devices.
package promise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// MaxPods bounds the places that are kept at a time, and MaxOnNode those on one node: each is judged again whenever
// another pod might go to the node.
const (
	MaxPods   = 20_000
	MaxOnNode = 64
)

// Book keeps the promises of nodes as far as NUMA nodes are concerned. [ledger.Book] implements it.
type Book interface {
	Promise(node string, list []state.Promised)
}

// Pod is a pod that a request will bring.
type Pod struct {
	Pod    *place.Pod
	Demand place.Demand
	// Needs are the plain amounts that it requests.
	Needs whatif.Amounts
}

// Place is a pod of a request with its node.
type Place struct {
	Node string
	Pod
}

// Keeper has the places that are kept. Its methods may be called by any goroutine.
type Keeper struct {
	book Book
	// judge reports whether a node still has room, with all that is kept there: sum is the sum of their plain amounts.
	judge func(node string, sum whatif.Amounts) bool
	// freed is called for every node where less is kept than before.
	freed func(node string)

	count atomic.Int64 // the places that are kept
	// sums has the sum of the plain amounts that are kept on each node. Filter reads it for every node.
	sums atomic.Pointer[map[string]whatif.Amounts]
	open atomic.Bool // see Open

	mu       sync.Mutex
	requests map[string][]*kept // of each request, in its order
	on       map[string][]*kept // by node
	used     map[string]*kept   // by the UID of the pod that has used up a place, until its request ends
}

// kept is a place that is kept.
type kept struct {
	promised state.Promised
	index    int // in its request
	node     string
	needs    whatif.Amounts
	holds    bool // the pod needs alignment
}

// compare puts places in the order in which the pods of each request come.
func compare(p, q *kept) int {
	return cmp.Or(strings.Compare(p.promised.For, q.promised.For), cmp.Compare(p.index, q.index))
}

// insert inserts a place into a list in order.
func insert(list []*kept, p *kept) []*kept {
	at, _ := slices.BinarySearchFunc(list, p, compare)
	return slices.Insert(slices.Clone(list), at, p)
}

// NewKeeper returns a keeper without places.
func NewKeeper(book Book, judge func(node string, sum whatif.Amounts) bool, freed func(node string)) *Keeper {
	return &Keeper{book: book, judge: judge, freed: freed, requests: map[string][]*kept{}, on: map[string][]*kept{},
		used: map[string]*kept{}}
}

// Open records that requests are answered: from now on, places may be kept at any time.
func (k *Keeper) Open() { k.open.Store(true) }

// IsOpen reports whether Open was called. A nil keeper is not open.
func (k *Keeper) IsOpen() bool { return k != nil && k.open.Load() }

// Any reports whether a place is kept. It takes no lock. A nil keeper keeps none.
func (k *Keeper) Any() bool { return k != nil && k.count.Load() > 0 }

// Keep keeps the places of a request if all of them have room, beside everything that is reserved and kept. Otherwise
// it keeps none, and full has the names of the nodes that lack room, ascending.
func (k *Keeper) Keep(request string, places []Place) (full []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.requests[request]; known {
		return nil, fmt.Errorf("request %s has its places already", request)
	}
	if int(k.count.Load())+len(places) > MaxPods {
		return nil, fmt.Errorf("%d places are kept for pods that have not come, at most %d: wait until some have come",
			k.count.Load(), MaxPods)
	}
	nodes := k.add(request, places)
	for _, node := range nodes {
		if len(k.on[node]) > MaxOnNode || !k.judge(node, k.sum(k.on[node], "")) {
			full = append(full, node)
		}
	}
	if len(full) > 0 {
		k.drop(request)
	}
	return full, nil
}

// Restore keeps the places of a request without judging them: after a restart, the API objects say what is promised.
func (k *Keeper) Restore(request string, places []Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.requests[request]; !known && int(k.count.Load())+len(places) <= MaxPods {
		k.add(request, places)
	}
}

// add adds places, and returns their nodes, ascending.
func (k *Keeper) add(request string, places []Place) []string {
	nodes := map[string]bool{}
	list := []*kept{}
	for i, x := range places {
		id := state.PodID{UID: fmt.Sprintf("promised %s %d", request, i), Name: fmt.Sprintf("%s %d", request, i)}
		p := &kept{state.Promised{ID: id, For: request, Pod: x.Pod.Pod, Demand: x.Demand}, i, x.Node, x.Needs,
			!x.Pod.Pod.Plain()}
		list, nodes[x.Node] = append(list, p), true
		k.on[x.Node] = insert(k.on[x.Node], p)
	}
	k.requests[request] = list
	k.count.Add(int64(len(list)))
	sorted := slices.Sorted(maps.Keys(nodes))
	for _, node := range sorted {
		k.tell(node)
	}
	return sorted
}

// Drop ends the places of a request that its pods have not used up.
func (k *Keeper) Drop(request string) {
	k.mu.Lock()
	nodes := k.drop(request)
	k.mu.Unlock()
	for _, node := range nodes {
		k.freed(node)
	}
}

func (k *Keeper) drop(request string) (nodes []string) {
	for _, p := range k.requests[request] {
		k.take(p)
		nodes = append(nodes, p.node)
	}
	delete(k.requests, request)
	maps.DeleteFunc(k.used, func(_ string, p *kept) bool { return p.promised.For == request })
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	for _, node := range nodes {
		k.tell(node)
	}
	return nodes
}

// take removes a place from its node and from the count.
func (k *Keeper) take(p *kept) {
	k.on[p.node] = slices.DeleteFunc(slices.Clone(k.on[p.node]), func(q *kept) bool { return q == p })
	if len(k.on[p.node]) == 0 {
		delete(k.on, p.node)
	}
	k.count.Add(-1)
}

// tell publishes what is kept on a node.
func (k *Keeper) tell(node string) {
	sums := map[string]whatif.Amounts{}
	if old := k.sums.Load(); old != nil {
		sums = maps.Clone(*old)
	}
	if sums[node] = k.sum(k.on[node], ""); sums[node] == nil {
		delete(sums, node)
	}
	k.sums.Store(&sums)
	var list []state.Promised
	for _, p := range k.on[node] {
		if p.holds {
			list = append(list, p.promised)
		}
	}
	k.book.Promise(node, list)
}

// Nodes returns the names of the nodes that keep places for a request, ascending.
func (k *Keeper) Nodes(request string) (out []string) {
	if !k.Any() || request == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.requests[request] {
		out = append(out, p.node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Left returns how many places are kept for each request.
func (k *Keeper) Left() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]int{}
	for request, list := range k.requests {
		out[request] = len(list)
	}
	return out
}

// Amounts returns the sum of the plain amounts that are kept on a node, without the place that a pod of the request
// would use up there. The result is nil if nothing else is kept there.
func (k *Keeper) Amounts(node, request string) whatif.Amounts {
	if !k.Any() {
		return nil
	}
	var all whatif.Amounts
	if sums := k.sums.Load(); sums != nil {
		all = (*sums)[node]
	}
	if request == "" || all == nil {
		return all
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sum(k.on[node], request)
}

// sum returns the sum of the amounts of places, without the first one of the request.
func (k *Keeper) sum(list []*kept, request string) (out whatif.Amounts) {
	for _, p := range list {
		if p.promised.For == request {
			request = ""
			continue
		}
		out = out.Add(p.needs)
	}
	return out
}

// Use has a pod use up a place of its request while do reserves the pod on a node: a place on that node, or else one
// on another node. do gets the sum of the plain amounts that are kept on the node for others. If it returns false, the
// place is kept on. A pod whose request has no places left is reserved like any other pod. do must not call the keeper.
func (k *Keeper) Use(uid, request, node string, pod *place.Pod, d place.Demand, do func(kept whatif.Amounts) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.find(request, node, pod, d)
	if p == nil || k.used[uid] != nil {
		do(k.sum(k.on[node], ""))
		return
	}
	here := p.node == node
	if here {
		k.take(p)
		k.tell(node)
	}
	switch {
	case do(k.sum(k.on[node], "")):
		if !here {
			k.take(p)
			k.tell(p.node)
		}
		k.requests[request] = slices.DeleteFunc(k.requests[request], func(q *kept) bool { return q == p })
		k.used[uid] = p
	case here:
		k.put(p)
	}
}

// find returns the place that a pod uses up on a node: of those on the node, or else of all, the first for a pod like
// it, or else the first.
func (k *Keeper) find(request, node string, pod *place.Pod, d place.Demand) *kept {
	list := k.requests[request]
	here := slices.DeleteFunc(slices.Clone(list), func(p *kept) bool { return p.node != node })
	for _, among := range [][]*kept{here, list} {
		if len(among) == 0 {
			continue
		}
		for _, p := range among {
			if p.promised.Demand == d && p.promised.Pod.Shape() == pod.Shape() {
				return p
			}
		}
		return among[0]
	}
	return nil
}

// put keeps a place again that was taken.
func (k *Keeper) put(p *kept) {
	k.on[p.node] = insert(k.on[p.node], p)
	k.count.Add(1)
	k.tell(p.node)
}

// GiveBack keeps the place again that a pod has used up, because the pod could not be bound. The caller ends the pod's
// booking after that.
func (k *Keeper) GiveBack(uid string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.used[uid]
	if p == nil {
		return
	}
	delete(k.used, uid)
	list, known := k.requests[p.promised.For]
	if !known {
		return // the request has ended since
	}
	k.requests[p.promised.For] = insert(list, p)
	k.put(p)
}

// Spend is Use for a pod that is bound already. A pod that has used up a place changes nothing.
func (k *Keeper) Spend(uid, request, node string, pod *place.Pod, d place.Demand) {
	k.Use(uid, request, node, pod, d, func(whatif.Amounts) bool { return true })
}

// Places returns the names of the nodes that keep places, ascending, each with the requests whose places they are.
func (k *Keeper) Places() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string][]string{}
	for node, list := range k.on {
		for _, p := range list { // in order of the requests
			if n := len(out[node]); n == 0 || out[node][n-1] != p.promised.For {
				out[node] = append(out[node], p.promised.For)
			}
		}
	}
	return out
}
