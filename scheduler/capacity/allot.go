package capacity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// This file gives the pods of a request devices. Package whatif does not know devices, so how many pods of a set get
// some on a node is counted before, as an amount of its own; and after nodes were found, devices are allocated there
// pod by pod. Where that fails, fewer pods are tried on the node.

const (
	// again is the least time between two searches for other devices on a node.
	again = time.Second
	// maxAllocations bounds how often one look allocates devices to count; only the last node may exceed it.
	maxAllocations = 512
	// maxAllotted is how often other nodes are tried for a request, and maxGiven is after how many allocations of a look
	// no other nodes are tried.
	maxAllotted = 16
	maxGiven    = 4_096
	// maxCounts bounds the counts that are kept.
	maxCounts = 50_000
	// countsLast is how long a count is kept, since labels of nodes decide which slices of devices they may use.
	countsLast = 5 * time.Minute
	// allotFor bounds how long devices are allocated to count, and then for the places, in one search for one request.
	// Each place that it asks for adds placeFor. slowFor is how long a node counts as having no devices for pods whose
	// allocation there took most of that time.
	allotFor = time.Second
	placeFor = time.Millisecond
	slowFor  = 10 * time.Minute
)

// errDevices is about devices that a request does not get now.
var errDevices = errors.New("no devices")

// errUncounted is about a request for which this look may not count more.
var errUncounted = fmt.Errorf("%w: the devices of some nodes are not counted yet", errDevices)

// errSlow is about devices that take too long to allocate.
var errSlow = fmt.Errorf("%w: to allocate devices for its claims takes too long", errDevices)

// errBlind is about a node that got a pod although it is not known whether its kubelet would take it.
var errBlind = errors.New("nothing is known of the NUMA nodes of node")

// counts are how many pods of a kind get devices on nodes, from round to round.
type counts map[countKey]counted

type countKey struct {
	node string
	kind [sha256.Size]byte // see set
}

// counted is a count, and what the node was like.
type counted struct {
	mark  uint64
	state *state.Node
	kept  int // places
	most  int // the pods that were tried
	n     int
	at    time.Time // when it was counted
	slow  time.Time // until when n is 0, because an allocation takes too long
}

// clock bounds the time of allocations that may be made in several parts.
type clock struct {
	now   func() time.Time
	left  time.Duration
	until time.Time
	ctx   context.Context
	end   func()
}

// start begins a part. stop has to end it.
func (t *clock) start(ctx context.Context) {
	t.until = t.now().Add(t.left)
	t.ctx, t.end = context.WithTimeout(ctx, t.left)
}

func (t *clock) stop() {
	t.end()
	t.left = t.until.Sub(t.now())
}

// over reports whether the time is over.
func (t *clock) over() bool { return t.ctx.Err() != nil || !t.now().Before(t.until) }

// allotting is the search for devices for one request.
type allotting struct {
	*deciding
	r    *request
	look Look
	room []map[string]int // of each set with claims, by node
	// lower has how many of a set really got devices on a node, beside other pods of the request, where that is fewer.
	lower []map[string]int
	left  bool // some nodes were not counted
	cut   bool // some of them because this look may not allocate more, or because the time was over
	// counting and giving bound the time of count and give, and slow and late report that pods on one node, or all places,
	// took too much of it.
	counting, giving clock
	slow, late       bool
}

// claimed reports whether a set of the request needs devices.
func (r *request) claimed() bool {
	return slices.ContainsFunc(r.sets, func(s set) bool { return s.claiming != nil })
}

// devicesOf is the name of an amount: how many more pods of a set get devices on a node.
func (r *request) devicesOf(set int) string {
	return "devices for the claims of " + r.sets[set].pod.Name
}

// allot begins the search for devices for a request.
func (d *deciding) allot(r *request) (*allotting, error) {
	if d.look == nil {
		look, err := d.claims.Look()
		if err != nil {
			return nil, err
		}
		d.look = look
		if d.recount.Swap(false) || d.counts == nil {
			d.counts = counts{}
		}
		maps.DeleteFunc(d.counts, func(_ countKey, x counted) bool {
			return d.now().Sub(x.at) > countsLast && d.now().After(x.slow)
		})
	}
	a := &allotting{deciding: d, r: r, look: d.look, counting: clock{now: d.now, left: allotFor},
		giving: clock{now: d.now, left: allotFor + time.Duration(r.pods())*placeFor}}
	for range r.sets {
		a.lower = append(a.lower, map[string]int{})
	}
	return a, nil
}

// hides returns whether a device is one of these.
func hides(hidden map[claims.ID]bool) func(claims.ID) bool {
	return func(id claims.ID) bool { return hidden[id] }
}

// count counts for each set how many of its pods get devices on nodes: on all of them, or on enough for the set.
func (a *allotting) count(ctx context.Context, all bool) {
	a.counting.start(ctx)
	defer a.counting.stop()
	a.left, a.cut, a.room = false, false, make([]map[string]int, len(a.r.sets))
	hidden := hides(a.keeper.Hidden())
	for k := range a.r.sets {
		s := &a.r.sets[k]
		if s.claiming == nil {
			continue
		}
		a.room[k] = map[string]int{}
		affinity, sum := kube.RequiredAffinity(s.pod), 0
		for i, n := range a.stage.Nodes() {
			if sum >= s.count && !all {
				a.left = true
				break
			}
			if n.Gone || !a.look.Publishes(n.Name) {
				continue
			}
			if objects := a.stage.Objects(); objects != nil {
				if bars, err := kube.Bars(s.pod, affinity, objects[i]); err == nil && len(bars) > 0 {
					continue
				}
			}
			c, known := a.countOn(s, &n, hidden)
			if a.left, a.cut = a.left || !known, a.cut || !known; known {
				if lower, has := a.lower[k][n.Name]; has {
					c = min(c, lower)
				}
				a.room[k][n.Name] = c
				sum += c
			}
		}
	}
}

// countOn returns how many pods of a set get devices on a node, beside what is kept there. known is false if this look
// may not count any more.
func (a *allotting) countOn(s *set, n *whatif.Node, hidden func(claims.ID) bool) (c int, known bool) {
	on := a.keeper.On(n.Name)
	most := max(0, min(s.count, promise.MaxOnNode-len(on)))
	key := countKey{n.Name, s.kind}
	now := counted{mark: a.markOf(n.Name, hidden), state: n.State, kept: len(on), most: most, at: a.now()}
	began, old := a.now(), a.counts[key]
	switch {
	case began.Before(old.slow):
		return 0, true
	case old.slow.IsZero() && began.Sub(old.at) <= countsLast && old.mark == now.mark && old.state == now.state &&
		old.kept == now.kept && (old.most >= most || old.n < old.most):
		return min(old.n, most), true
	case a.allocations >= maxAllocations || a.counting.over():
		return 0, false
	}
	in, ok := a.beside(a.counting.ctx, n.State, n.Name, on, hidden, map[claims.ID]bool{})
	for ok && now.n < most && !a.counting.over() {
		a.allocations++
		if _, why := in.next(&s.Pod, s.claiming); why != "" {
			break
		}
		now.n++
	}
	if a.counting.over() && now.n < most {
		if a.now().Sub(began) < allotFor/2 {
			return 0, false // the next look has more time for this node
		}
		if a.slow = true; now.n == 0 {
			now.slow = a.now().Add(slowFor)
		}
	}
	a.counts.add(key, now)
	return now.n, true
}

// add adds a count. If there are too many, it drops another one.
func (c counts) add(key countKey, x counted) {
	if _, has := c[key]; !has && len(c) >= maxCounts {
		for other := range c {
			delete(c, other)
			break
		}
	}
	c[key] = x
}

// markOf returns the mark of a node, which this look computes once, and again after it has kept places.
func (d *deciding) markOf(node string, hidden func(claims.ID) bool) uint64 {
	mark, known := d.marks[node]
	if !known {
		mark = d.look.Mark(node, hidden)
		if d.marks == nil {
			d.marks = map[string]uint64{}
		}
		d.marks[node] = mark
	}
	return mark
}

// beside returns a node after all pods have come for which it keeps places. mine gets the devices of those that come
// then.
func (a *allotting) beside(ctx context.Context, n *state.Node, name string, on []promise.Kept,
	hidden func(claims.ID) bool, mine map[claims.ID]bool) (*sequence, bool) {
	s := newSequence(ctx, a.look, bareNode(n, name), hidden, mine)
	for i := range on {
		if _, why := s.next(&on[i].Pod, nil); why != "" {
			return nil, false
		}
	}
	return s, true
}

// plan returns a plan that counts devices, made of the nodes of another one.
func (a *allotting) plan(p *whatif.Plan, rules whatif.Rules) *whatif.Plan {
	nodes := slices.Clone(p.Nodes())
	for i := range nodes {
		n := &nodes[i]
		all, used := whatif.Amounts{}, whatif.Amounts{}
		for k, room := range a.room {
			if room != nil {
				// The node has as many as it can keep, so that none is never enough.
				all[a.r.devicesOf(k)], used[a.r.devicesOf(k)] = promise.MaxOnNode, promise.MaxOnNode-int64(room[n.Name])
			}
		}
		n.Allocatable, n.Used = n.Allocatable.Add(all), n.Used.Add(used)
		if n.State != nil && slices.ContainsFunc(n.State.Promised, func(x state.Promised) bool { return x.On != 0 }) {
			// Pods that exchange devices with each other may be planned in any order. Keep judges what was found.
			with := *n.State
			with.Promised = slices.Clone(n.State.Promised)
			for j := range with.Promised {
				with.Promised[j].On = 0
			}
			n.State = &with
		}
	}
	return whatif.New(nodes, rules)
}

// without returns the plan after the request has its places, without the amounts that only it asks for.
func (a *allotting) without(p *whatif.Plan, rules whatif.Rules) *whatif.Plan {
	nodes := slices.Clone(p.Nodes())
	ours := func(name string, _ int64) bool {
		for k, room := range a.room {
			if room != nil && name == a.r.devicesOf(k) {
				return true
			}
		}
		return false
	}
	for i := range nodes {
		n := &nodes[i]
		n.Allocatable, n.Used = maps.Clone(n.Allocatable), maps.Clone(n.Used)
		maps.DeleteFunc(n.Allocatable, ours)
		maps.DeleteFunc(n.Used, ours)
	}
	return whatif.New(nodes, rules)
}

// give allocates devices for the places that were found. Where pods of a set get none, it lowers how many of them the
// node takes, and returns false. It also returns false when the time is over.
func (a *allotting) give(ctx context.Context, places []promise.Place) bool {
	a.giving.start(ctx)
	defer a.giving.stop()
	in, given, failed := map[string]*sequence{}, map[string]map[int]int{}, false
	mine, hidden := map[claims.ID]bool{}, hides(a.keeper.Hidden())
	lower := func(node string, set int) {
		failed = true
		a.room[set][node], a.lower[set][node] = given[node][set], given[node][set]
	}
	for i := range places {
		x := &places[i]
		if given[x.Node] == nil {
			given[x.Node] = map[int]int{}
			in[x.Node], _ = a.beside(a.giving.ctx, a.stateOf(x.Node), x.Node, a.keeper.On(x.Node), hidden, mine)
		}
		s, claiming := in[x.Node], a.r.sets[x.Set].claiming
		if s == nil {
			if claiming != nil {
				lower(x.Node, x.Set)
			}
			continue
		}
		a.allocations++
		devices, why := s.next(&x.Pod, claiming)
		switch {
		case a.giving.over():
			a.late = true
			return false
		case why == "":
			x.Devices = devices
			given[x.Node][x.Set]++
		case claiming != nil:
			lower(x.Node, x.Set)
		}
	}
	return !failed
}

// lacksDevices reports whether a reason is that too few devices are left on a node: the end of pods need not help.
func (r *request) lacksDevices(x place.Reason) bool {
	if x.Code != place.Lacking {
		return false
	}
	for k := range r.sets {
		if r.sets[k].claiming != nil && x.Resource == r.devicesOf(k) {
			return true
		}
	}
	return false
}

// together places the pods of a request on a plan, with devices where they need some. The places are nil unless all
// fit. The plan that it returns has the places.
func (d *deciding) together(ctx context.Context, r *request, p *whatif.Plan, rules whatif.Rules,
	gang whatif.Gang) (out whatif.GangOutcome, with *whatif.Plan, places []promise.Place, err error) {
	if r.slow = false; !r.claimed() {
		if out, err = p.Together(gang, ctx.Err); err == nil && out.Fits {
			places, err = r.placesAt(p, out)
		}
		return out, p, places, err
	}
	a, err := d.allot(r)
	if err != nil {
		return out, p, nil, fmt.Errorf("%w: %w", errDevices, err)
	}
	defer func() { r.slow = a.slow || a.late }()
	all := false
	a.count(ctx, all)
	for range maxAllotted {
		with = a.plan(p, rules)
		if out, err = with.Together(gang, ctx.Err); err != nil {
			return out, with, nil, err
		}
		if !out.Fits {
			if all || !a.left {
				break
			}
			all = true
			a.count(ctx, all)
			continue
		}
		if places, err = r.placesAt(with, out); err != nil {
			return out, with, nil, err
		}
		if a.give(ctx, places) {
			return out, a.without(with, rules), places, nil
		}
		if a.allocations > maxGiven || a.late {
			break
		}
	}
	switch {
	case a.late, a.slow && a.cut:
		return out, with, nil, errSlow
	case a.cut:
		d.Kick() // the next round goes on
		return out, with, nil, errUncounted
	case out.Fits:
		return out, with, nil, fmt.Errorf("%w: there are not enough for the claims of all pods together, or not near their "+
			"CPUs and memory", errDevices)
	}
	return out, with, nil, nil
}

// served makes the pods of sets that turn out to be served by DRA need devices.
func (d *deciding) served(ctx context.Context, s *set) error {
	if s.claiming != nil || len(d.stage.Allocated(s.pod)) == 0 {
		return nil
	}
	x, err := d.claiming(ctx, s.pod, &claimSpecs{})
	if err == nil && x == nil {
		err = invalid{errOff}
	}
	s.claiming, s.Claimed = x, x != nil
	return err
}

// placesAt returns the places that were found.
func (r *request) placesAt(p *whatif.Plan, out whatif.GangOutcome) (places []promise.Place, err error) {
	k := 0
	for _, s := range r.sets {
		for range s.count {
			node := p.Nodes()[out.Placed[k].Node].Name
			places = append(places, promise.Place{Node: node, Pod: s.Pod})
			if out.Placed[k].Blind {
				return nil, fmt.Errorf("%w %s", errBlind, node)
			}
			k++
		}
	}
	return places, nil
}
