package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// flight is a pod on its way to a node: reserved, perhaps bound, not yet observed there.
type flight struct {
	id  PodID
	pod *place.Pod
	// demand is what Reserve was asked for, the zero Demand for a pod that somebody else bound.
	demand place.Demand
	// shape is pod.Shape().
	shape string
	// foreign: somebody else bound it, or this book did before it was lost.
	foreign bool
	// uncertain: it may hold something else than was predicted. It was bound before the book was begun, or something was
	// released while it was on its way. The node is unsettled until it has reported the pod.
	uncertain bool
	// turned is when it had its turn, that is, may have been bound; acked when it became known that the
	// node has admitted it. Moments are counted by account.now; 0 is never.
	turned, acked int
	// options are what it may hold, the likeliest first; none where it will hold nothing or nothing is known.
	options choices
	// earlier is for coarse nodes, which do not say who holds what; see earlier.go.
	earlier earlier
	// cost is what it takes to place the pod, see costOf; onto is the usage on which it was found not to be idle.
	cost int
	onto *place.Usage
}

// newFlight returns a flight of a pod that waits for its turn.
func newFlight(id PodID, p *place.Pod) *flight {
	return &flight{id: id, pod: p, shape: p.Shape(), cost: costOf(p)}
}

// choices are holdings of which a pod has one lot.
type choices struct {
	of [][]place.Holding
	// more: or it has something else, since not everything that is possible was followed or remembered.
	more bool
}

// or returns the choices of both, at most so many.
func (c choices) or(d choices, most int) choices {
	out := choices{slices.Clone(c.of), c.more || d.more}
	for _, o := range d.of {
		switch {
		case out.has(o):
		case len(out.of) < most:
			out.of = append(out.of, o)
		default:
			out.more = true
		}
	}
	return out
}

func (c choices) has(o []place.Holding) bool {
	return slices.ContainsFunc(c.of, func(x []place.Holding) bool { return same(x, o) })
}

func same(a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool { return x.Matches(y) && y.Matches(x) })
}

// holdings are what the flight is most likely to get.
func (f *flight) holdings() []place.Holding {
	if len(f.options.of) == 0 {
		return nil
	}
	return f.options.of[0]
}

// vague reports whether one cannot say what a pod after this one will find: not even the numas of the devices
// that the node draws are sure, and its report will tell. Which devices of a numa they are is nothing to pods after
// it: they find as many of each kind (see redraw).
func (f *flight) vague() bool { return slices.ContainsFunc(f.options.of, vague) }

func vague(hs []place.Holding) bool {
	for _, h := range hs {
		for _, d := range h.Devices {
			if d.Loose || d.Free && d.NUMAs.Len() > 1 {
				return true
			}
		}
	}
	return false
}

// queue returns the shape of the pods that are on their way and not admitted; mixed is true where whoever comes
// has to wait, or may have to.
func (a *account) queue() (shape string, mixed bool) {
	for _, f := range a.flights {
		switch {
		case f.acked != 0:
			mixed = mixed || f.vague()
		default:
			mixed = mixed || a.odd(f) || shape != "" && shape != f.shape
			shape = f.shape
		}
	}
	return shape, mixed
}

// Waits reports whether a pod of that shape, if it were reserved now, might have to wait for others before it
// is bound.
func (n *Node) Waits(shape string) bool { return n.mixed || n.queue != "" && n.queue != shape }

// odd reports whether pods of its shape may not change places with it unnoticed. The report of a coarse node does
// not tell one drawn device from another, so there nothing may be drawn.
func (a *account) odd(f *flight) bool {
	return f.vague() || a.base.Quality == Coarse && !place.Verdict{Holdings: f.holdings()}.Exact()
}

// Of pods of equal shape that were bound together nobody says which one the node admitted first. Each has a part: a
// moment of its turn and what is predicted for it. It is as if the node had admitted them in the order of their
// parts; so whoever is known to be admitted takes the first part that is left. That matters where a pod of another
// shape comes between them.

// advance gives a pod that is admitted the first part of its shape whose pod is not known to be admitted.
func (a *account) advance(f *flight) {
	a.change(f, func(g *flight) bool { return g.acked == 0 })
}

// arrange gives pods that a report lists the first parts of their shapes: those that it does not list were admitted
// after it was made.
func (a *account) arrange(listed func(uid string) bool) {
	for _, f := range a.flights {
		if f.turned != 0 && listed(f.id.UID) {
			a.change(f, func(g *flight) bool { return !listed(g.id.UID) })
		}
	}
}

// change has a pod change parts with the first one of its shape before it of which with says so.
func (a *account) change(f *flight, with func(*flight) bool) {
	for _, g := range a.flights {
		switch {
		case g == f || g.turned == 0:
			return
		case g.shape != f.shape || g.uncertain != f.uncertain || !with(g):
			continue
		}
		f.turned, g.turned = g.turned, f.turned
		f.options, g.options = renamed(g.options, g.pod, f.pod), renamed(f.options, f.pod, g.pod)
		f.earlier.kept, g.earlier.kept = renamed(g.earlier.kept, g.pod, f.pod), renamed(f.earlier.kept, f.pod, g.pod)
		if g.acked != 0 {
			a.keep(g)
		}
		a.sort()
		return
	}
}

// renamed returns what a pod may hold as another one of its shape would hold it.
func renamed(options choices, from, to *place.Pod) choices {
	name := map[string]string{}
	for i, c := range from.Containers {
		name[c.Name] = to.Containers[i].Name
	}
	out := choices{more: options.more}
	for _, hs := range options.of {
		hs = slices.Clone(hs)
		for i := range hs {
			hs[i].Container = name[hs[i].Container]
		}
		out.of = append(out.of, hs)
	}
	return out
}

// before reports whether the node admits f before g for sure.
func (f *flight) before(g *flight) bool { return f.acked != 0 && f.acked <= g.turned }

// Result says how a prediction came out.
type Result string

const (
	// Confirmed: the node gave what was predicted.
	Confirmed Result = "confirmed"
	// Wrong: the node gave something else.
	Wrong Result = "wrong"
	// Rejected: the node refused a pod that was predicted to fit.
	Rejected Result = "rejected"
)

// Outcome is one prediction met by an observation.
type Outcome struct {
	Node      string
	Pod       PodID
	Result    Result
	Predicted []place.Holding
	Seen      []place.Holding
	Error     place.RefusalReason // where the result is Rejected
	Foreign   bool                // the pod was bound by somebody else
}

// settle ends the flights of pods that the node now reports. ended says that pods which the node had admitted may have
// ended: what the others got then depends on whether these had ended before.
func (a *account) settle(ended bool) []Outcome {
	var out []Outcome
	seen := map[string]Entry{}
	for _, e := range a.layout.Entries {
		seen[e.Pod.UID] = e
	}
	a.arrange(func(uid string) bool { _, ok := seen[uid]; return ok })
	rest := a.flights[:0:0]
	left := maxEffort
	for _, f := range a.flights {
		e, ok := seen[f.id.UID]
		if !ok {
			rest = append(rest, f)
			continue
		}
		a.landed = append(a.landed, f.id.UID)
		if len(f.options.of) == 0 {
			continue
		}
		o := Outcome{Node: a.name, Pod: f.id, Result: Confirmed, Predicted: f.holdings(), Seen: e.Holdings, Foreign: f.foreign}
		if !a.foresaw(f, e.Holdings, &left) {
			if ended || a.incomplete(f) || left < 0 {
				continue // nobody could have predicted it, or it takes too much to compare
			}
			o.Result = Wrong
		}
		out = append(out, o)
	}
	a.flights = rest
	return out
}

// foresaw reports whether the holdings were predicted for the pod, or for a pod of the same shape that
// had its turn together with it. What it takes is subtracted from left; below 0 it is given up.
func (a *account) foresaw(f *flight, seen []place.Holding, left *int) bool {
	has := func(g *flight) bool {
		may := func(o []place.Holding) bool {
			*left -= f.cost
			return *left >= 0 && matches(g.pod, o, f.pod, seen)
		}
		return slices.ContainsFunc(g.options.of, may)
	}
	return has(f) || slices.ContainsFunc(a.flights, func(g *flight) bool { return g != f && g.alike(f) && has(g) })
}

// incomplete reports whether it was known that the pod, or one that may have changed places with it, may get what
// is not among its options.
func (a *account) incomplete(f *flight) bool {
	return slices.ContainsFunc(a.flights, func(g *flight) bool { return g.alike(f) && (g.options.more || g.uncertain) })
}

// alike reports whether g is f or may have changed places with it.
func (g *flight) alike(f *flight) bool { return g == f || g.shape == f.shape && g.turned != 0 }

// matches compares what was predicted for a pod with what was seen of a pod of the same shape, container by
// container; the names of the other pod's containers may be others. Memory of an init container may be gone:
// the memory manager takes it back when the next container starts. It may be there as a whole, too: a kubelet
// that was restarted admits its pods anew, and what is not in the memory manager's file by then it gives once
// more.
func matches(of *place.Pod, predicted []place.Holding, as *place.Pod, seen []place.Holding) bool {
	want, got := inOrder(of, predicted), inOrder(as, seen)
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
		if !p.Matches(s.Holding) && !comesOf(of, p, s) {
			return false
		}
	}
	return true
}

// placed is a holding of the container that is the at-th one of its pod; -1: of the pod as a whole.
type placed struct {
	at int
	place.Holding
}

// inOrder returns the holdings that take something, in the order of the pod's containers.
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

// comesOf reports whether an init container that was predicted to hold p may be seen with s: with all the
// memory that it asks for, or with none.
func comesOf(of *place.Pod, p, s placed) bool {
	if p.at < 0 || of.Containers[p.at].Kind != place.Init {
		return false
	}
	whole := again(&of.Containers[p.at], s.Holding)
	p.Memory = nil
	if whole {
		s.Memory = nil
	}
	return p.Matches(s.Holding)
}

// again reports whether an init container is seen with all the memory that it asks for.
func again(c *place.Container, seen place.Holding) bool {
	if len(seen.Memory) != len(c.Memory) {
		return false
	}
	for _, want := range c.Memory {
		if !slices.ContainsFunc(seen.Memory, func(b place.Block) bool { return b.Kind == want.Kind && b.Bytes == want.Bytes }) {
			return false
		}
	}
	return true
}

// trimmed drops holdings that take nothing: reports differ in whether they list them.
func trimmed(in []place.Holding) []place.Holding {
	return slices.DeleteFunc(slices.Clone(in), func(h place.Holding) bool { return h.Empty() })
}
