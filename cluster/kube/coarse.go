package kube

import (
	"maps"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
)

// This file feeds nodes of which only a NodeResourceTopology is known. A layout that is understood goes
// before it: the object is then kept, and is what counts as soon as there is no such layout any more.

// coarse is what is kept of the NodeResourceTopology of a node.
type coarse struct {
	object *v1alpha2.NodeResourceTopology // the newest
	// counts: the book has the amounts of this object, or of one before it.
	counts  bool
	problem string // why the object was refused, or ""
	// conditions are what of the object was not understood or put right.
	conditions []string
	// ended are pods that ended lately and may be in the amounts still, the first to end first.
	ended []*boundPod
	// misses counts the readings in a row whose fingerprint was of no pods that were thought of.
	misses int
	// told: the last reading said which pods it accounts for.
	told bool
	// past are the UIDs of the last pods that ended longer than settlePeriod ago.
	past []string
}

// Topologies returns the handlers for an informer of NodeResourceTopologies, of which [nrt.Typed] made
// typed objects.
func (f *Feed) Topologies() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { each(o, f.Topology) },
		UpdateFunc: func(_, o any) { each(o, f.Topology) },
		DeleteFunc: func(o any) { each(o, f.TopologyGone) },
	}
}

// OnRefusedTopology has a callback told of NodeResourceTopologies that cannot be read, each reason once
// in a row. It is called before the first event, and the callback must not call the feed.
func (f *Feed) OnRefusedTopology(told func(node string, err error)) { f.onTopology = told }

// Topology takes a NodeResourceTopology that was added or changed. The object is not changed, and kept.
// Before Begin it waits: whom the amounts account for cannot be told before the pods are known.
func (f *Feed) Topology(o *v1alpha2.NodeResourceTopology) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.coarse[o.Name]
	last, known := f.goneTopologies.get(o.Name)
	if c != nil {
		last, known = c.object.ResourceVersion, true
	}
	if known && compare(o.ResourceVersion, last) <= 0 {
		return
	}
	if c == nil {
		c = &coarse{}
		f.coarse[o.Name] = c
	}
	c.object = o
	f.count(o.Name, c)
}

// TopologyGone takes a NodeResourceTopology that was deleted. If a newer one of that name is known
// already, it stays.
func (f *Feed) TopologyGone(o *v1alpha2.NodeResourceTopology) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.coarse[o.Name]
	if c == nil || compare(o.ResourceVersion, c.object.ResourceVersion) < 0 {
		return
	}
	f.goneTopologies.put(o.Name, o.ResourceVersion)
	delete(f.coarse, o.Name)
	if c.counts {
		f.book.Forget(o.Name)
	}
	if !f.exact[o.Name] {
		f.later(0, func() { f.onFreed(o.Name) })
	}
}

// TopologyProblem returns why the NodeResourceTopology of a node was refused, or "".
func (f *Feed) TopologyProblem(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.coarse[node]; c != nil && !f.exact[node] {
		return c.problem
	}
	return ""
}

// TopologyConditions returns what of the NodeResourceTopology by which a node is known was not understood
// or put right.
func (f *Feed) TopologyConditions(node string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.coarse[node]; c != nil && c.counts {
		return slices.Clone(c.conditions)
	}
	return nil
}

// OnOddTopology has a callback told of what of NodeResourceTopologies was not understood or put right, each
// time that is something else. It is called before the first event, and the callback must not call the feed.
func (f *Feed) OnOddTopology(told func(node string, conditions []string)) { f.onOdd = told }

// beginCoarse brings the objects that waited into the book.
func (f *Feed) beginCoarse() {
	for _, node := range slices.Sorted(maps.Keys(f.coarse)) {
		f.count(node, f.coarse[node])
	}
}

// unlaid notes that a node has no layout that is understood any more: what else is known of it counts.
func (f *Feed) unlaid(node string) {
	delete(f.exact, node)
	c := f.coarse[node]
	if c != nil && c.counts {
		return
	}
	f.book.Forget(node)
	if c != nil {
		f.count(node, c)
	}
}

// laid notes that a node has a layout that is understood.
func (f *Feed) laid(node string) {
	f.exact[node] = true
	if c := f.coarse[node]; c != nil {
		c.counts, c.ended, c.past = false, nil, nil
	}
}

// count brings the amounts of a node into the book, unless it has better.
func (f *Feed) count(node string, c *coarse) {
	if !f.begun || f.exact[node] {
		return
	}
	r, err := nrt.ReadOn(c.object, f.machines.New)
	if err != nil {
		if why := err.Error(); c.problem != why {
			c.problem = why
			f.onTopology(node, err)
		}
		c.counts, c.ended, c.past = false, nil, nil
		f.book.Forget(node)
		return
	}
	c.problem = ""
	if !slices.Equal(c.conditions, r.Conditions) && len(r.Conditions) > 0 {
		f.onOdd(node, r.Conditions)
	}
	c.conditions = r.Conditions
	if !c.counts {
		f.recount(node, c)
	}
	counts, either := f.accounted(node, c, r)
	c.told = counts != nil
	f.report(node, c, r, &ledger.Amounts{Counts: counts, Either: either})
	c.counts = true
}

// report brings amounts and what is known of them into the book.
func (f *Feed) report(node string, c *coarse, r *nrt.Reading, a *ledger.Amounts) {
	a.Held, a.Whole = r.Held, r.Whole
	a.Seen, a.Past = f.seen(node, c)
	for _, o := range f.book.Report(node, ledger.Layout{Machine: r.Machine, Rules: r.Rules, Amounts: a}) {
		f.onOutcome(o)
	}
	f.chosen(c, a.Either)
}

// recount books all pods of a node of whose amounts nothing was known so far: the first reading says
// which of them are in the amounts.
func (f *Feed) recount(node string, c *coarse) {
	c.ended, c.past, c.misses = nil, nil, 0
	pods := f.bound.on(node)
	for _, p := range pods {
		p.counted = false
		put(p, f.book.Recover)
	}
	for _, p := range pods {
		f.admitted(p)
		f.begin(p)
	}
}

// begin notes that a pod's init containers are over, and has told of the node where that frees memory.
func (f *Feed) begin(p *boundPod) {
	if p.spec == nil || !p.begun {
		return
	}
	if node, changed := f.book.Begun(p.id.UID); changed {
		f.later(0, func() { f.onFreed(node) })
	}
}

// OnFreed has a callback told of nodes where a pod may fit that did not, though no report came: something
// became free that reports do not show, or what was known of the node is gone. It is called before the
// first event; the callback runs by itself.
func (f *Feed) OnFreed(told func(node string)) { f.onFreed = told }
