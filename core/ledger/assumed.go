package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/estimate"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// assumedPod is a pod that is reserved on a node or bound to it, and not yet in a report of the node.
type assumedPod struct {
	id  state.PodID
	pod *place.Pod
	// demand is the pod's own demand; the zero Demand for a pod that another scheduler bound.
	demand place.Demand
	// kept are the NUMA nodes on which the pod's CPUs and memory have to be; 0 is any. See kept.go.
	kept topo.Mask
	// shape is pod.Shape().
	shape string
	// foreign: another scheduler bound the pod, or this scheduler did before it restarted.
	foreign bool
	// uncertain: the pod may hold something else than was predicted, for example because it was bound before the book
	// was begun, or because something was released while it was assumed. The node is unsettled until it has reported
	// the pod.
	uncertain bool
	// turned is the moment of the pod's turn, from which it may be bound. acked is the moment when its status showed
	// that the node had admitted it. account.now counts moments; 0 is never.
	turned, acked int
	// created is the pod's creation time in seconds, which [Book.Turn] received; 0 is unknown. bound: the API server
	// has the pod's binding.
	created int64
	bound   bool
	// asked: its turn was asked for. passes is how many pods had their turn before this pod although they were reserved
	// after it.
	asked  bool
	passes int
	// entitled: it was promised room itself, on a node that has lost room; see Book.Entitle.
	entitled bool
	// onTrial: the booking ends, and was never meant to lead to a binding.
	onTrial bool
	// mates are the pods of its group on the node that asked for their turns together with it; see together.go.
	mates []*assumedPod
	// after is a moment: pods that had their turn before that moment are admitted before this pod. See order.go.
	after int
	// decision is what the pod holds on a node whose arbiter is the agent. nil: the arbiter decides when the pod
	// arrives.
	decision []place.Holding
	// options are the pod's possible holdings in the states of the node, likeliest first; none if the pod holds
	// nothing.
	options choices
	// earlier are the options that the pod had before something was released beside it, since it may have been
	// admitted by then. They are dropped when the node reports the pod, or when its machine or rules change.
	earlier choices
	// past is for estimated nodes, which do not report which pod holds what. It is empty on exact nodes.
	past estimate.Past
	// cost is the cost of placing the pod, see costOf. onto is the empty node on which the pod is known not to be
	// idle; see account.idle.
	cost int
	onto *place.Usage
}

// newAssumed returns an assumed pod that waits for its turn.
func newAssumed(id state.PodID, p *place.Pod) *assumedPod {
	return &assumedPod{id: id, pod: p, shape: p.Shape(), cost: costOf(p)}
}

// choices are the alternative holdings that a pod may have.
type choices struct {
	known [][]place.Holding
	// more: the pod may also hold something that is not in known, because not every possibility was followed or
	// remembered.
	more bool
}

// add adds holdings that c does not have yet. If c already has limit alternatives, add sets c.more instead.
func (c *choices) add(o []place.Holding, limit int) {
	switch {
	case contains(c.known, o):
	case len(c.known) < limit:
		c.known = append(c.known, o)
	default:
		c.more = true
	}
}

// contains reports whether o is among the options.
func contains(options [][]place.Holding, o []place.Holding) bool {
	return slices.ContainsFunc(options, func(x []place.Holding) bool { return equalHoldings(x, o) })
}

// each returns the choices with do applied to each of them.
func (c choices) each(do func([]place.Holding) []place.Holding) choices {
	out := choices{more: c.more}
	for _, o := range c.known {
		out.known = append(out.known, do(o))
	}
	return out
}

// equalHoldings reports whether two lists have equal holdings in the same order.
func equalHoldings(a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool { return x.Matches(y) && y.Matches(x) })
}

// holdings returns the first of the pod's options, or nil.
func (f *assumedPod) holdings() []place.Holding {
	if len(f.options.known) == 0 {
		return nil
	}
	return f.options.known[0]
}

// unsureDevices reports whether the NUMA nodes of the pod's devices are uncertain until the node reports. If they are
// certain, later pods find equally many devices of each kind there, whichever devices the pod gets (see blur).
func (f *assumedPod) unsureDevices() bool { return slices.ContainsFunc(f.options.known, unsureDevices) }

// unsureDevices is assumedPod.unsureDevices for some holdings.
func unsureDevices(hs []place.Holding) bool {
	for _, h := range hs {
		for _, d := range h.Devices {
			if d.Loose || d.Free && d.NUMAs.Len() > 1 {
				return true
			}
		}
	}
	return false
}

// queue describes the assumed pods of the node that a pod reserved now may have to wait for.
func (a *account) queue() (q state.Queue) {
	for _, f := range a.assumed {
		switch {
		case f.decision != nil:
			continue
		case f.acked == 0:
			q.Mixed = q.Mixed || a.noticeable(f) || q.Shape != "" && q.Shape != f.shape
			q.Shape = f.shape
		case f.unsureDevices():
			q.Mixed = true
		default:
			continue
		}
		q.Pods++
		if f.turned == 0 {
			q.Waiting++
		}
	}
	return q
}

// noticeable reports whether later pods may get something else if f exchanges its ticket with a pod of its shape.
func (a *account) noticeable(f *assumedPod) bool {
	return f.unsureDevices() || a.estimated() && f.choosesDevices()
}

// No report has the order in which a node admitted pods of equal shape that were bound together. So each of them has
// a ticket: the moment of its turn, and its prediction. A pod that becomes known to be admitted takes the first
// ticket whose pod is not. That matters if a pod of another shape had its turn between them.

// moveAdmitted moves a pod that is known to be admitted to the first ticket of its shape whose pod is not known to be
// admitted.
func (a *account) moveAdmitted(f *assumedPod) {
	a.swapEarlier(f, func(g *assumedPod) bool { return g.acked == 0 })
}

// moveReported moves the pods that a report lists to the first tickets of their shapes, since the pods that it does
// not list were admitted later.
func (a *account) moveReported(listed func(uid string) bool) {
	for _, f := range a.assumed {
		if f.turned != 0 && listed(f.id.UID) {
			a.swapEarlier(f, func(g *assumedPod) bool { return !listed(g.id.UID) })
		}
	}
}

// swapEarlier exchanges f's ticket with the ticket of the earliest pod of the same shape that accept returns true
// for. It does nothing if there is no such pod before f.
func (a *account) swapEarlier(f *assumedPod, accept func(*assumedPod) bool) {
	if f.decision != nil {
		return
	}
	for _, g := range a.assumed {
		switch {
		case g == f || g.turned == 0:
			return
		case g.decision != nil || g.shape != f.shape || g.uncertain != f.uncertain || !accept(g):
			continue
		}
		f.turned, g.turned = g.turned, f.turned
		f.options, g.options = g.options.each(renamed(g.pod, f.pod)), f.options.each(renamed(f.pod, g.pod))
		f.earlier, g.earlier = g.earlier.each(renamed(g.pod, f.pod)), f.earlier.each(renamed(f.pod, g.pod))
		if a.estimated() {
			a.swapPasts(f, g)
		}
		a.sort()
		return
	}
}

// renamed returns a function that replaces the container names of the pod from in holdings by the names of the same
// containers in the pod to, which has the same shape.
func renamed(from, to *place.Pod) func([]place.Holding) []place.Holding {
	name := map[string]string{}
	for i, c := range from.Containers {
		name[c.Name] = to.Containers[i].Name
	}
	return func(hs []place.Holding) []place.Holding {
		hs = slices.Clone(hs)
		for i := range hs {
			hs[i].Container = name[hs[i].Container]
		}
		return hs
	}
}

// compareReport removes the pods that the node now reports from the assumed ones, and returns how their predictions
// compare with the report. changed: pods that the node had admitted may have ended, or its machine or rules are other
// ones. What other pods got then depends on whether they were admitted before that, so compareReport returns no
// outcome for pods that got something else than was predicted.
func (a *account) compareReport(changed bool) []state.Outcome {
	var out []state.Outcome
	seen := map[string]state.Entry{}
	for _, e := range a.layout.Entries {
		seen[e.Pod.UID] = e
	}
	listed := func(uid string) bool { _, ok := seen[uid]; return ok }
	a.moveReported(listed)
	changed = a.markMissing(listed) || changed
	rest := a.assumed[:0:0]
	budget := maxEffort
	for _, f := range a.assumed {
		e, ok := seen[f.id.UID]
		if !ok {
			rest = append(rest, f)
			continue
		}
		a.unassumed = append(a.unassumed, f.id.UID)
		if len(f.options.known) == 0 {
			continue
		}
		o := state.Outcome{Node: a.name, Pod: f.id, Result: state.Confirmed, Predicted: f.holdings(), Seen: e.Holdings,
			Foreign: f.foreign}
		if !a.wasPredicted(f, e.Holdings, &budget) {
			if changed || a.incomplete(f) || budget < 0 {
				continue // the pod's holdings could not be predicted, or the comparison costs too much
			}
			o.Result = state.Wrong
		}
		out = append(out, o)
	}
	a.assumed = rest
	return out
}

// wasPredicted reports whether the holdings were predicted for the pod, or for a pod of the same shape that may have
// exchanged tickets with it. Every comparison subtracts f.cost from budget; below 0 the answer is false.
func (a *account) wasPredicted(f *assumedPod, seen []place.Holding, budget *int) bool {
	predictedFor := func(g *assumedPod) bool {
		return slices.ContainsFunc(g.options.known, func(o []place.Holding) bool {
			*budget -= f.cost
			return *budget >= 0 && matches(g.pod, o, f.pod, seen)
		})
	}
	return predictedFor(f) || slices.ContainsFunc(a.assumed, func(g *assumedPod) bool {
		return g != f && g.interchangeable(f) && predictedFor(g)
	})
}

// incomplete reports whether the pod, or one that may have exchanged tickets with it, may hold something beyond its
// options.
func (a *account) incomplete(f *assumedPod) bool {
	return slices.ContainsFunc(a.assumed, func(g *assumedPod) bool {
		return g.interchangeable(f) && (g.options.more || g.uncertain)
	})
}

// interchangeable reports whether f is g or may have exchanged tickets with it.
func (f *assumedPod) interchangeable(g *assumedPod) bool {
	return f == g || f.shape == g.shape && f.turned != 0 && f.decision == nil && g.decision == nil
}

// matches reports whether the node gave what was predicted. It compares the prediction for the pod expected with the
// holdings that a report has for the pod actual, which has the same shape, container by container. Container names
// may differ. Memory of an init container may be missing, since the memory manager takes it back when the next
// container starts. It may also be complete: a restarted kubelet admits its pods again, and allocates once more what
// is no longer in the memory manager's file.
func matches(expected *place.Pod, predicted []place.Holding, actual *place.Pod, seen []place.Holding) bool {
	want, got := inOrder(expected, predicted), inOrder(actual, seen)
	for len(want) > 0 || len(got) > 0 {
		var p, s placed
		switch {
		case len(got) == 0 || len(want) > 0 && want[0].at < got[0].at:
			p, want, s.at = want[0], want[1:], want[0].at
		case len(want) == 0 || got[0].at < want[0].at:
			s, got, p.at = got[0], got[1:], got[0].at
		default:
			p, want, s, got = want[0], want[1:], got[0], got[1:]
		}
		if !p.Matches(s.Holding) && !initMatches(expected, p, s) {
			return false
		}
	}
	return true
}

// placed is a holding with the index of its container in the pod; -1 if the pod has no such container.
type placed struct {
	at int
	place.Holding
}

// inOrder returns the holdings that are not empty, in the order of the pod's containers.
func inOrder(p *place.Pod, hs []place.Holding) []placed {
	out := make([]placed, 0, len(hs))
	next := 0
	for _, h := range trimmed(hs) {
		named := func(c place.Container) bool { return c.Name == h.Container }
		at := slices.IndexFunc(p.Containers[next:], named)
		if at >= 0 {
			at += next
			next = at + 1
		} else {
			at = slices.IndexFunc(p.Containers, named)
		}
		out = append(out, placed{at, h})
	}
	slices.SortStableFunc(out, func(a, b placed) int { return a.at - b.at })
	return out
}

// initMatches reports whether p is the prediction for an init container that may be seen with s: with all the memory
// that it asks for, or with none.
func initMatches(pod *place.Pod, p, s placed) bool {
	if p.at < 0 || pod.Containers[p.at].Kind != place.Init {
		return false
	}
	complete := hasAllMemory(&pod.Containers[p.at], s.Holding)
	p.Memory = nil
	if complete {
		s.Memory = nil
	}
	return p.Matches(s.Holding)
}

// hasAllMemory reports whether an init container is seen with all the memory that it asks for.
func hasAllMemory(c *place.Container, seen place.Holding) bool {
	if len(seen.Memory) != len(c.Memory) {
		return false
	}
	for _, want := range c.Memory {
		wanted := func(b place.Block) bool { return b.Kind == want.Kind && b.Bytes == want.Bytes }
		if !slices.ContainsFunc(seen.Memory, wanted) {
			return false
		}
	}
	return true
}

// trimmed drops empty holdings; some reports list them, and some do not.
func trimmed(in []place.Holding) []place.Holding {
	return slices.DeleteFunc(slices.Clone(in), func(h place.Holding) bool { return h.Empty() })
}
