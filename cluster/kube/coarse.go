package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/state"
)

// This file feeds the ledger with nodes that have only a NodeResourceTopology, or only a Numatopology, which arrives
// in the same form. A valid layout takes precedence over both, and a NodeResourceTopology over a Numatopology. An
// object that is not used is kept, and is used when the object with precedence is gone.

// coarse is the state of a node's NodeResourceTopology and Numatopology.
type coarse struct {
	// topology and numatopology are the newest objects of both kinds; one of them may be nil.
	topology, numatopology *v1alpha2.NodeResourceTopology
	// reported is set if the ledger has the amounts of the object that is used, or of an earlier version of it.
	reported bool
	problem  string // why the object was rejected, or ""
	// conditions name the parts of the object that were not understood, or were corrected.
	conditions []string
	// ended are pods that ended recently and may still be in the amounts, in the order in which they ended.
	ended []*boundPod
	// misses counts consecutive readings whose fingerprint matched no set of pods that was tried.
	misses int
	// accounted is set if the last reading showed which pods its amounts contain.
	accounted bool
	// past are the UIDs of the pods that ended longer than settlePeriod ago, but no more than the last maxPast.
	past []string
}

// object returns the node's NodeResourceTopology or, if there is none, its Numatopology. It is nil if there is
// neither.
func (c *coarse) object() *v1alpha2.NodeResourceTopology { return cmp.Or(c.topology, c.numatopology) }

// reset records that the ledger has no amounts of the object.
func (c *coarse) reset() { c.reported, c.ended, c.past = false, nil, nil }

// newest returns a pointer to the field of c for o's kind: topology or numatopology.
func (c *coarse) newest(o *v1alpha2.NodeResourceTopology) **v1alpha2.NodeResourceTopology {
	if nrt.KindOf(o) == nrt.Numatopology {
		return &c.numatopology
	}
	return &c.topology
}

// goneName is the name under which the deletion of an object is remembered. For a Numatopology it has a slash, which
// no name of a node has.
func goneName(o *v1alpha2.NodeResourceTopology) string {
	if nrt.KindOf(o) == nrt.Numatopology {
		return nrt.Numatopology + "/" + o.Name
	}
	return o.Name
}

// Topologies returns the handlers for an informer of NodeResourceTopologies, whose transform is [nrt.Typed] or
// [nrt.TypedOthers], or of Numatopologies, whose transform is [nrt.TypedNumatopology].
func (f *Feed) Topologies() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { each(o, f.Topology) },
		UpdateFunc: func(_, o any) { each(o, f.Topology) },
		DeleteFunc: func(o any) { each(o, f.TopologyGone) },
	}
}

// OnRefusedTopology registers a callback for NodeResourceTopologies that cannot be read. It is called once per error,
// and again when the error changes. Register it before the first event; the callback must not call the feed.
func (f *Feed) OnRefusedTopology(refused func(node string, err error)) { f.onTopology = refused }

// Topology receives a NodeResourceTopology that was added or changed, and ignores one that is not newer than the
// last. It keeps the object and does not change it. Before Begin it only records the object: without the pods,
// Topology cannot compute which pods the amounts contain.
func (f *Feed) Topology(o *v1alpha2.NodeResourceTopology) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.coarse[o.Name]
	last, known := f.goneTopologies.get(goneName(o))
	if c != nil && *c.newest(o) != nil {
		last, known = (*c.newest(o)).ResourceVersion, true
	}
	if known && compare(o.ResourceVersion, last) <= 0 {
		return
	}
	if c == nil {
		c = &coarse{}
		f.coarse[o.Name] = c
	}
	before := c.object()
	*c.newest(o) = o
	if c.object() != o {
		return // a NodeResourceTopology takes precedence
	}
	if before != nil && nrt.KindOf(before) != nrt.KindOf(o) {
		f.withdraw(o.Name, c)
	}
	f.apply(o.Name, c)
}

// withdraw removes from the ledger what the node's object has reported, because the object is no longer used.
func (f *Feed) withdraw(node string, c *coarse) {
	if c.reported {
		f.book.Forget(node)
	}
	c.reported, c.problem, c.conditions = false, "", nil
}

// TopologyGone receives a NodeResourceTopology that was deleted. A newer one of the same name stays.
func (f *Feed) TopologyGone(o *v1alpha2.NodeResourceTopology) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.coarse[o.Name]
	if c == nil || *c.newest(o) == nil || compare(o.ResourceVersion, (*c.newest(o)).ResourceVersion) < 0 {
		return
	}
	f.goneTopologies.put(goneName(o), o.ResourceVersion)
	used := c.object() == *c.newest(o)
	awaited := f.lacksData(o.Name)
	*c.newest(o) = nil
	if !used {
		return
	}
	if awaited && !c.reported {
		f.book.Forget(o.Name) // until now the ledger may have kept the last layout; see layoutLost
	}
	f.withdraw(o.Name, c)
	if c.object() == nil {
		delete(f.coarse, o.Name)
	} else {
		f.apply(o.Name, c)
	}
	if !f.exact[o.Name] {
		f.later(0, func() { f.onFreed(o.Name) })
	}
}

// TopologyProblem returns why a node's NodeResourceTopology, or the Numatopology in its place, was rejected. It
// returns "" if the object was not rejected, and for a node with a valid layout.
func (f *Feed) TopologyProblem(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.coarse[node]; c != nil && !f.exact[node] {
		return c.problem
	}
	return ""
}

// TopologyConditions returns texts about the parts of a node's NodeResourceTopology that were not understood, or were
// corrected. It returns nil for a node whose NodeResourceTopology is not used.
func (f *Feed) TopologyConditions(node string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.coarse[node]; c != nil && c.reported {
		return slices.Clone(c.conditions)
	}
	return nil
}

// OnTopologyConditions registers a callback for the conditions of a node's NodeResourceTopology. The callback is
// called when the conditions change, unless none is left. Register it before the first event; the callback must not
// call the feed.
func (f *Feed) OnTopologyConditions(changed func(node string, conditions []string)) {
	f.onConditions = changed
}

// OnLeftOut registers a callback for nodes that have no valid layout, and whose NodeResourceTopology arrived without
// its data (see [nrt.TypedOthers]). The caller reads it, and passes it to Complete. Register the callback before the
// first event; it must not call the feed.
func (f *Feed) OnLeftOut(needed func(node string)) { f.onLeftOut = needed }

// Complete receives a NodeResourceTopology that was read because its data was left out. It uses the object, and
// returns true, only if the object has the version that the informer delivered last. A later version will be
// delivered, too, and is then read again. If the feed used it earlier, and the informer missed the object's deletion,
// the informer would report the deletion of its own, older version, and the feed would ignore that.
func (f *Feed) Complete(o *v1alpha2.NodeResourceTopology) (used bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.coarse[o.Name]
	if c == nil || c.topology == nil || !nrt.LeftOut(c.topology) || c.topology.ResourceVersion != o.ResourceVersion {
		return false
	}
	c.topology = o
	f.apply(o.Name, c)
	return true
}

// LeftOut returns the nodes for which Begin would call the callback of OnLeftOut, in ascending order. A caller that
// reads their topologies before Begin passes them to Complete, too.
func (f *Feed) LeftOut() (nodes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(f.coarse)) {
		if f.lacksData(node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// lacksData reports whether a node has no valid layout, and its topology arrived without data. f.mu is held.
func (f *Feed) lacksData(node string) bool {
	c := f.coarse[node]
	return c != nil && !f.exact[node] && nrt.LeftOut(c.object())
}

// Unreadable receives a node whose NodeResourceTopology could not be read, or was not found, after OnLeftOut's
// callback. Until it is read, the node is unknown, unless it has a valid layout.
func (f *Feed) Unreadable(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lacksData(node) {
		f.coarse[node].reset()
		f.book.Forget(node)
	}
}

// beginCoarse applies the objects that arrived before Begin.
func (f *Feed) beginCoarse() {
	for _, node := range slices.Sorted(maps.Keys(f.coarse)) {
		f.apply(node, f.coarse[node])
	}
}

// layoutLost records that a node has no valid layout any more. From then on its NodeResourceTopology or Numatopology
// is used, if it has one. f.mu is held.
func (f *Feed) layoutLost(node string) {
	delete(f.exact, node)
	c := f.coarse[node]
	if c != nil && c.reported {
		return
	}
	// The last layout counts until a topology without data is read: an unknown node may take any pod.
	if !f.begun || !f.lacksData(node) {
		f.book.Forget(node)
	}
	if c != nil {
		f.apply(node, c)
	}
}

// layoutAccepted records that a node has a valid layout, so that its other objects are not used. f.mu is held.
func (f *Feed) layoutAccepted(node string) {
	f.exact[node] = true
	if c := f.coarse[node]; c != nil {
		c.reset()
	}
}

// apply reads the object of a node that has only amounts, and reports these amounts to the ledger. If the object
// cannot be read, apply records why, and removes the node's report. It does nothing before Begin, and for a node with
// a valid layout. If the object has no data, because [nrt.TypedOthers] left it out, apply only calls OnLeftOut's
// callback.
func (f *Feed) apply(node string, c *coarse) {
	if !f.begun || f.exact[node] {
		return
	}
	if nrt.LeftOut(c.object()) {
		f.onLeftOut(node)
		return
	}
	r, err := nrt.ReadOn(c.object(), f.machines.New)
	if err != nil {
		if why := err.Error(); c.problem != why {
			c.problem = why
			f.onTopology(node, err)
		}
		c.reset()
		f.book.Forget(node)
		return
	}
	c.problem = ""
	if !slices.Equal(c.conditions, r.Conditions) && len(r.Conditions) > 0 {
		f.onConditions(node, r.Conditions)
	}
	c.conditions = r.Conditions
	if !c.reported {
		f.rebook(node, c)
	}
	counts, either := f.contained(node, c, r)
	c.accounted = counts != nil
	f.report(node, c, r, &state.Amounts{Counts: counts, Either: either})
	c.reported = true
}

// report reports the amounts of a reading to the ledger. The caller has set in a which pods these amounts contain.
func (f *Feed) report(node string, c *coarse, r *nrt.Reading, a *state.Amounts) {
	a.Held, a.Whole = r.Held, r.Whole
	a.Seen, a.Past = f.settledPods(node, c)
	for _, o := range f.book.Report(node, state.Layout{Machine: r.Machine, Rules: r.Rules, Amounts: a,
		From: nrt.KindOf(c.object()), Inexact: omitted(r)}) {
		f.onOutcome(o)
	}
	f.chosen(c, a.Either)
}

// omitted returns a reason for each resource that a reading leaves out. Beyond maxOmitted they are only counted.
func omitted(r *nrt.Reading) (out []state.Inexact) {
	const maxOmitted = 16
	for i, name := range slices.Sorted(maps.Keys(r.Omitted)) {
		if i == maxOmitted {
			return append(out, state.Inexact{Code: state.DevicesOmitted,
				Message: fmt.Sprintf("%d more resources are left out", len(r.Omitted)-i)})
		}
		out = append(out, state.OmittedDevices(name, r.Omitted[name]))
	}
	return out
}

// rebook books all pods of a node again before the node's first reading. That reading then shows which of the pods
// are contained in the amounts.
func (f *Feed) rebook(node string, c *coarse) {
	c.ended, c.past, c.misses = nil, nil, 0
	pods := f.bound.on(node)
	for _, p := range pods {
		p.counted = false
		bookPod(p, f.book.Recover)
	}
	for _, p := range pods {
		f.admitted(p)
		f.initsEnded(p)
	}
}

// initsEnded records in the ledger that a pod's init containers have ended, if they have. If that frees resources, it
// calls the callback of OnFreed.
func (f *Feed) initsEnded(p *boundPod) {
	if p.spec == nil || !p.initsOver {
		return
	}
	if node, changed := f.book.Begun(p.id.UID); changed {
		f.later(0, func() { f.onFreed(node) })
	}
}

// OnFreed registers a callback for nodes on which another pod may fit although no report has arrived. For example, a
// resource became free that reports do not show, or the node's object was deleted. Register it before the first
// event. The callback runs in a goroutine of its own, and may call the feed.
func (f *Feed) OnFreed(freed func(node string)) { f.onFreed = freed }
