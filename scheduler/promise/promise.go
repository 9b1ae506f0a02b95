// Package promise keeps room for pods that have been promised a place and have not come yet.
//
// A request (a ProvisioningRequest of Tenon's class) names pods and gets a place for each of them, or for none. Until
// the pods come, the [Keeper] has their places: the ledger refuses pods whose CPUs, memory or devices would take the
// room on NUMA nodes, and Filter refuses those that would take the plain amounts. A pod that names the request uses up
// one of its places, whichever node it goes to, and so does a later pod of the controller that the request names.
//
// Invariant: what is kept has been judged by the ledger and the amounts of the node after it was kept, so no place is
// promised twice, whatever is reserved meanwhile. The keeper is bounded by [MaxPods]. It decides neither which request
// gets room nor how long: package capacity does. It keeps no host ports and volumes.
package promise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// MaxPods bounds the places that are kept at a time, and MaxOnNode those on one node: each is judged again whenever
// another pod might go to the node. MaxOfNamespace bounds the places that are kept for one namespace. It is for those
// who give places; see [Keeper.Restore].
const (
	MaxPods        = 20_000
	MaxOnNode      = 64
	MaxOfNamespace = 5_000
)

// Book keeps the promises of nodes as far as NUMA nodes are concerned, and lets pods have what is left.
// [ledger.Book] implements it.
type Book interface {
	Promise(node string, list []state.Promised)
	Entitle(uid string)
}

// Pod is a pod that a request will bring.
type Pod struct {
	Set    int // see [state.Promised]
	Pod    *place.Pod
	Demand place.Demand
	// Needs are the plain amounts that it requests.
	Needs whatif.Amounts
	// Claims is equal for pods whose claims of devices (DRA) are alike. Claimed is true if devices have to be kept for it.
	Claims  string
	Claimed bool
}

// Request is a request as the keeper knows it.
type Request struct {
	Name string // "namespace/name"
	// Owner is the controller whose pods use up the places without naming the request, "namespace/UID", or "". They are
	// those that were created at Since, in seconds, or later.
	Owner string
	Since int64
}

// Place is a pod of a request with its node.
type Place struct {
	Node string
	Pod
	Devices
}

// Coming is a pod that may use up a place of a request.
type Coming struct {
	UID, Request string
	Node         string // where it is reserved
	Pod          *place.Pod
	Demand       place.Demand
	Claims       string    // see Pod
	On           topo.Mask // the NUMA nodes that it gets there; 0 if that is not known
}

// Judge reports whether a node has room for all places of a list, beside everything that is reserved there: list has
// those that need alignment, and sum is the sum of the plain amounts of all.
type Judge func(node string, list []state.Promised, sum whatif.Amounts) bool

// Keeper has the places that are kept. Its methods may be called by any goroutine.
type Keeper struct {
	book  Book
	judge Judge
	// rejudge is the judge of places that are kept already.
	rejudge Judge
	// freed is called for every node where less is kept than before, and released for an owner whose pods are not held
	// back any more.
	freed, released func(name string)
	held            held

	count atomic.Int64 // the places that are kept
	// sums has the sum of the plain amounts that are kept on each node. Filter reads it for every node.
	sums atomic.Pointer[map[string]whatif.Amounts]
	open atomic.Bool // see Open
	// hidden has the devices that are kept; nil if there are none. taken may be nil; see Check.
	hidden atomic.Pointer[map[claims.ID]bool]
	taken  func([]claims.ID) bool

	mu       sync.Mutex
	owners   map[claims.ID]*kept  // of the devices that are kept
	requests map[string][]*kept   // of each request, in its order
	on       map[string][]*kept   // by node
	used     map[string]*kept     // by the UID of the pod that has used up a place, until its request ends
	owned    map[string][]Request // of each owner, by name; only of requests
}

// kept is a place that is kept.
type kept struct {
	promised state.Promised
	index    int // in its request
	node     string
	needs    whatif.Amounts
	holds    bool // the pod needs alignment
	claimed  bool
	devices  []claims.ID // nil if they have to be kept and are not
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
func NewKeeper(book Book, judge Judge, freed, released func(name string)) *Keeper {
	return &Keeper{book: book, judge: judge, rejudge: judge, freed: freed, released: released,
		requests: map[string][]*kept{}, on: map[string][]*kept{}, used: map[string]*kept{},
		owned: map[string][]Request{}, owners: map[claims.ID]*kept{}}
}

// Rejudge sets the judge of places that are kept already, and get other devices. It may ask for less than the judge of
// new places, which judges these, too, unless Rejudge is called. It must be called before places are kept.
func (k *Keeper) Rejudge(judge Judge) { k.rejudge = judge }

// Open records that requests may be answered: from now on, places may be kept at any time.
func (k *Keeper) Open() { k.open.Store(true) }

// IsOpen reports whether Open was called. A nil keeper is not open.
func (k *Keeper) IsOpen() bool { return k != nil && k.open.Load() }

// Any reports whether a place is kept. It takes no lock. A nil keeper keeps none.
func (k *Keeper) Any() bool { return k != nil && k.count.Load() > 0 }

// Keep keeps the places of a request if all of them have room, beside everything that is reserved and kept. Otherwise
// it keeps none, and full has the names of the nodes that lack room, ascending.
func (k *Keeper) Keep(r Request, places []Place) (full []string, err error) {
	full, freed, err := k.keep(r, places)
	for _, node := range freed {
		k.freed(node)
	}
	return full, err
}

// keep is Keep. It also returns the nodes that kept more for a moment.
func (k *Keeper) keep(r Request, places []Place) (full, freed []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.requests[r.Name]; known {
		return nil, nil, fmt.Errorf("request %s has its places already", r.Name)
	}
	if int(k.count.Load())+len(places) > MaxPods {
		return nil, nil, fmt.Errorf("%d places are kept for pods that have not come, at most %d: wait until some have "+
			"come", k.count.Load(), MaxPods)
	}
	all := list(r.Name, places)
	with := map[string][]*kept{}
	for _, p := range all {
		if with[p.node] == nil {
			with[p.node] = k.on[p.node]
		}
		with[p.node] = insert(with[p.node], p)
	}
	if full = k.lacking(with); len(full) > 0 {
		return full, nil, nil
	}
	k.add(r, all)
	if full = k.lacking(with); len(full) > 0 { // something was reserved meanwhile
		freed = k.drop(r.Name)
	}
	return full, freed, nil
}

// lacking returns the nodes that lack room for their places, ascending.
func (k *Keeper) lacking(with map[string][]*kept) (full []string) {
	var others []string
	for node, list := range with {
		if len(list) > MaxOnNode || !k.judge(node, promised(list), k.sum(list, "")) || !k.alone(list) {
			full = append(full, node)
		} else {
			others = append(others, node)
		}
	}
	full = append(full, k.taking(others, with)...)
	slices.Sort(full)
	return full
}

// Restore keeps the places of a request without judging them: after a restart, the API objects have what is promised.
// It keeps none, and returns an error, beyond twice MaxPods, MaxOfNamespace and MaxOnNode places: pods that have come
// use up theirs only afterwards, and who may write the API objects must not be able to fill the cluster.
func (k *Keeper) Restore(r Request, places []Place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.requests[r.Name]; known {
		return nil
	}
	if int(k.count.Load())+len(places) > 2*MaxPods {
		return fmt.Errorf("%d places are kept for pods that have not come, and %d more are too many", k.count.Load(),
			len(places))
	}
	if n := k.ofNamespace(r.Name); n+len(places) > 2*MaxOfNamespace {
		return fmt.Errorf("%d places are kept for pods of this namespace that have not come, and %d more are too many", n,
			len(places))
	}
	with := map[string]int{}
	for _, p := range places {
		with[p.Node]++
	}
	for _, node := range slices.Sorted(maps.Keys(with)) {
		if n := len(k.on[node]); n+with[node] > 2*MaxOnNode {
			return fmt.Errorf("node %.100s keeps %d places for pods that have not come, and %d more are too many", node, n,
				with[node])
		}
	}
	k.add(r, list(r.Name, places))
	return nil
}

// ofNamespace returns how many places are kept for the namespace of a request.
func (k *Keeper) ofNamespace(request string) (n int) {
	namespace, _, _ := strings.Cut(request, "/")
	for name, list := range k.requests {
		if strings.HasPrefix(name, namespace) && strings.HasPrefix(name[len(namespace):], "/") {
			n += len(list)
		}
	}
	return n
}

// list returns the places of a request.
func list(request string, places []Place) (out []*kept) {
	for i, x := range places {
		id := state.PodID{UID: fmt.Sprintf("promised %s %d", request, i), Name: fmt.Sprintf("%s %d", request, i)}
		out = append(out, &kept{state.Promised{ID: id, For: request, Set: x.Set, Pod: x.Pod.Pod, Demand: x.Demand,
			Claims: x.Claims, On: x.On}, i, x.Node, x.Needs, !x.Pod.Pod.Plain(), x.Claimed, x.IDs})
	}
	return out
}

// promised returns the places of a list that need alignment.
func promised(list []*kept) (out []state.Promised) {
	for _, p := range list {
		if p.holds {
			out = append(out, p.promised)
		}
	}
	return out
}

// add adds the places of a request.
func (k *Keeper) add(r Request, list []*kept) {
	if r.Owner != "" {
		at, _ := slices.BinarySearchFunc(k.owned[r.Owner], r.Name, func(x Request, name string) int {
			return strings.Compare(x.Name, name)
		})
		k.owned[r.Owner] = slices.Insert(k.owned[r.Owner], at, r)
	}
	nodes := map[string]bool{}
	for _, p := range list {
		nodes[p.node] = true
		k.on[p.node] = insert(k.on[p.node], p)
	}
	k.requests[r.Name] = list
	k.count.Add(int64(len(list)))
	k.hide(list...)
	k.tell(slices.Sorted(maps.Keys(nodes))...)
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
	if _, known := k.requests[request]; !known {
		return nil
	}
	for _, p := range k.requests[request] {
		k.take(p)
		nodes = append(nodes, p.node)
	}
	k.show(func(p *kept) bool { return p.promised.For == request })
	delete(k.requests, request)
	k.disown(request)
	maps.DeleteFunc(k.used, func(_ string, p *kept) bool { return p.promised.For == request })
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	k.tell(nodes...)
	return nodes
}

// disown forgets the owner of a request.
func (k *Keeper) disown(request string) {
	for owner, list := range k.owned {
		list = slices.DeleteFunc(list, func(r Request) bool { return r.Name == request })
		if k.owned[owner] = list; len(list) == 0 {
			delete(k.owned, owner)
		}
	}
}

// Owned returns the request whose place a pod of an owner uses up that was created at a time, in seconds: the first one
// that has places left, or "".
func (k *Keeper) Owned(owner string, created int64) string {
	if !k.Any() || owner == "" {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.owned[owner] {
		if created >= r.Since && len(k.requests[r.Name]) > 0 {
			return r.Name
		}
	}
	return ""
}

// take removes a place from its node and from the count.
func (k *Keeper) take(p *kept) {
	k.on[p.node] = slices.DeleteFunc(slices.Clone(k.on[p.node]), func(q *kept) bool { return q == p })
	if len(k.on[p.node]) == 0 {
		delete(k.on, p.node)
	}
	k.count.Add(-1)
}

// tell publishes what is kept on nodes.
func (k *Keeper) tell(nodes ...string) {
	sums := map[string]whatif.Amounts{}
	if old := k.sums.Load(); old != nil {
		sums = maps.Clone(*old)
	}
	for _, node := range nodes {
		if sums[node] = k.sum(k.on[node], ""); sums[node] == nil {
			delete(sums, node)
		}
	}
	k.sums.Store(&sums)
	for _, node := range nodes {
		k.book.Promise(node, promised(k.on[node]))
	}
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
// would use up there. The result is nil if nothing else is kept there, or if the request has a place there and the node
// has lost room that it kept; see Use.
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
	of := func(p *kept) bool { return p.promised.For == request }
	if slices.ContainsFunc(k.on[node], of) && k.short(node) {
		return nil
	}
	return k.sum(k.on[node], request)
}

// Short reports whether a node has lost room that it kept, so that it does not have all of it.
func (k *Keeper) Short(node string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.short(node)
}

func (k *Keeper) short(node string) bool {
	return !k.rejudge(node, promised(k.on[node]), k.sum(k.on[node], ""))
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
// The devices of the place stay hidden from others until Came or GiveBack.
//
// Where other schedulers have taken room that a node keeps, its pods get what is left in the order in which they come:
// nothing is kept for others while do runs. If each of them left the rest to the others, none would come.
func (k *Keeper) Use(c Coming, do func(kept whatif.Amounts) bool) {
	if elsewhere := k.use(c, do); elsewhere != "" {
		k.freed(elsewhere)
	}
}

// use is Use. It returns the name of another node that keeps less now, or "".
func (k *Keeper) use(c Coming, do func(kept whatif.Amounts) bool) (elsewhere string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.find(c)
	if p == nil || k.used[c.UID] != nil {
		do(k.sum(k.on[c.Node], ""))
		return ""
	}
	here := p.node == c.Node
	if here && !k.come(p, c, do) || !here && !do(k.sum(k.on[c.Node], "")) {
		return ""
	}
	k.requests[c.Request] = slices.DeleteFunc(k.requests[c.Request], func(q *kept) bool { return q == p })
	k.used[c.UID] = p
	if here {
		return ""
	}
	k.take(p)
	k.tell(p.node)
	return p.node
}

// come has a pod reserved on the node of its place, and takes that from the node if do returns true.
func (k *Keeper) come(p *kept, c Coming, do func(kept whatif.Amounts) bool) bool {
	short := k.short(c.Node)
	k.exchangeFor(p, c.On)
	k.take(p)
	rest := k.sum(k.on[c.Node], "")
	if k.tell(c.Node); short {
		rest = nil
		k.book.Promise(c.Node, nil)
		defer k.tell(c.Node)
	}
	if !do(rest) {
		k.put(p)
		return false
	}
	if short {
		k.book.Entitle(c.UID)
	}
	return true
}

// find returns the place that a pod uses up on a node: of those on the node, or else of all, the first for a pod like
// it, or else the first.
func (k *Keeper) find(c Coming) *kept {
	list := k.requests[c.Request]
	here := slices.DeleteFunc(slices.Clone(list), func(p *kept) bool { return p.node != c.Node })
	if len(here) > 0 {
		return c.first(here)
	}
	return c.first(list)
}

// first returns the first place of a list for a pod like this one, or else the first place; nil if there is none.
func (c *Coming) first(list []*kept) *kept {
	if len(list) == 0 {
		return nil
	}
	like := func(p *kept) bool { return p.promised.Like(c.Pod, c.Demand) }
	at := slices.IndexFunc(list, func(p *kept) bool { return p.promised.Claims == c.Claims && like(p) })
	if at < 0 {
		at = slices.IndexFunc(list, like)
	}
	return list[max(at, 0)]
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
func (k *Keeper) Spend(c Coming) {
	k.Use(c, func(whatif.Amounts) bool { return true })
	k.Came(c.UID)
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
