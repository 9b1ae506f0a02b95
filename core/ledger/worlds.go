package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file works out in which states a node may be, given what it reported and who is on the way.
//
// Pods that were bound are admitted in an order that is sure only where one was known to be admitted
// before the next was bound. Every order that is possible is followed, but for pods of equal shape, which
// change places unnoticed; and where a pod has kept options, every one of them. That is one state nearly
// always: own pods take turns, and a report settles what it shows.

// maxWorlds bounds the states of a node, maxSteps the work of finding them, and maxOptions what is remembered of a pod
// that its node does not report while others come and go.
const (
	maxWorlds  = 16
	maxSteps   = 256
	maxOptions = 8
)

// limits are these bounds in one book. Where one is reached, less is known and nothing is wrong; the model's test lowers
// them.
type limits struct{ worlds, steps, options int }

// world is one state of a node that may be.
type world struct {
	base  *Node // what the node has beside the flights
	usage *place.Usage
	// got[i] is what the i-th flight holds; nil: nothing, or it is refused.
	got [][]place.Holding
}

func (w *world) with(i int, hs []place.Holding) *world {
	out := &world{base: w.base, usage: w.usage, got: slices.Clone(w.got)}
	out.got[i] = hs
	if len(hs) > 0 {
		out.usage = w.usage.Hold(hs...)
	}
	return out
}

// blur marks devices as any of several where somebody before took any of several of the same resource:
// their number is sure, and nobody knows which are left.
func (w *world) blur(hs []place.Holding) []place.Holding {
	drawn := map[string]bool{}
	for _, got := range w.got {
		for _, h := range got {
			for _, d := range h.Devices {
				drawn[d.Resource] = drawn[d.Resource] || d.Free
			}
		}
	}
	if len(drawn) == 0 {
		return hs
	}
	out := slices.Clone(hs)
	for i, h := range out {
		out[i].Devices = slices.Clone(h.Devices)
		for j, d := range h.Devices {
			out[i].Devices[j].Free = d.Free || drawn[d.Resource]
		}
	}
	return out
}

// search follows every order and option.
type search struct {
	limits  limits
	flights []*flight // those that had their turn
	done    []bool
	found   []*world
	seen    map[string]bool
	steps   int
	effort  int // see maxEffort
	// full: a bound is reached, and nothing more will be found.
	full bool
	// spent: it took too much effort, and what was found is not to be used.
	spent bool
	// cut: not everything was followed.
	cut bool
	// refuses: in one of the orders a pod is refused.
	refuses bool
}

// worlds returns the states in which the node may be once the flights that had their turn are admitted:
// at least one, the likeliest first. sure is false where there may be more.
func (a *account) worlds() (out []*world, sure bool) {
	var s search
	sure = a.search(&s)
	return s.found, sure
}

// search follows every order and option of the flights that had their turn. sure is false where there may be
// more than was found.
func (a *account) search(s *search) (sure bool) {
	n := a.turned()
	*s = search{limits: a.limits, flights: a.flights[:n], done: make([]bool, n), seen: map[string]bool{}}
	s.cut = slices.ContainsFunc(s.flights, func(f *flight) bool { return f.earlier.kept.more })
	starts, known := a.starts()
	for _, w := range starts {
		s.follow(w, n)
	}
	if len(s.found) == 0 {
		// The node did what no order explains, or there are too many: take the order of binding.
		s.cut = true
		s.found = []*world{s.straight(starts[0])}
	}
	if a.effort += s.effort; s.spent {
		s.found = starts[:1]
	}
	return !s.cut && !s.lost() && known
}

// starts returns the node before the flights. known is false where pods may have left it since it reported.
func (a *account) starts() (out []*world, known bool) {
	nodes := []*Node{a.base}
	known = !slices.ContainsFunc(a.base.Entries, func(e Entry) bool { return a.doubts[e.Pod.UID] })
	if a.base.Quality == Coarse {
		nodes, known = a.scattered(a.base)
	}
	for _, n := range nodes {
		out = append(out, &world{base: n, usage: n.Usage, got: make([][]place.Holding, len(a.flights))})
	}
	return out, known
}

// follow admits every flight that may be the next.
func (s *search) follow(w *world, left int) {
	if left == 0 {
		s.add(w)
		return
	}
	lo := slices.Index(s.done, false)
	for i := lo; i < len(s.flights) && !s.full; i++ {
		f := s.flights[i]
		if s.done[i] || !s.next(i, lo) {
			continue
		}
		if !s.spend(f) {
			return
		}
		options, refused, ok := alternatives(w.usage, f)
		if !ok {
			continue // it was admitted, so this is not what happened
		}
		s.refuses = s.refuses || refused
		s.done[i] = true
		for _, o := range options {
			if s.steps++; s.steps > s.limits.steps {
				s.cut, s.full = true, true
			}
			if s.full {
				break
			}
			s.follow(w.with(i, w.blur(o)), left-1)
		}
		s.done[i] = false
	}
}

// spend takes what a placement of the pod costs from what is left; ok is false where that is too little.
func (s *search) spend(f *flight) (ok bool) {
	if s.effort+f.cost > maxEffort {
		s.spent, s.cut, s.full = true, true, true
		return false
	}
	s.effort += f.cost
	return true
}

// lost reports whether there is a pod that holds something, and nobody can say what.
func (s *search) lost() bool {
	for i, f := range s.flights {
		if f.uncertain && slices.ContainsFunc(s.found, func(w *world) bool { return len(w.got[i]) > 0 }) {
			return true
		}
	}
	return false
}

// next reports whether the i-th flight may be admitted before all others that are left, which begin at lo.
func (s *search) next(i, lo int) bool {
	f := s.flights[i]
	for j := lo; j < len(s.flights); j++ {
		g := s.flights[j]
		if s.done[j] || j == i {
			continue
		}
		if g.before(f) || (j < i && g.shape == f.shape) {
			return false
		}
	}
	return true
}

// alternatives returns what the flight may get from the usage: nothing where it is refused. ok is false where the flight
// was admitted and cannot have been in this state.
func alternatives(u *place.Usage, f *flight) (out [][]place.Holding, refused, ok bool) {
	for _, o := range f.earlier.kept.of {
		if o, free := redraw(u, o); free {
			out = append(out, o)
		}
	}
	if f.acked != 0 && !f.earlier.open && len(out) > 0 {
		return out, false, true
	}
	switch v := place.Place(u, f.pod); {
	case !v.Fits():
		refused = true
	case f.acked != 0:
		out = distinct(append(out, v.Holdings))
	default:
		out = distinct(append([][]place.Holding{v.Holdings}, out...))
	}
	if len(out) == 0 && f.acked == 0 {
		out = [][]place.Holding{nil}
	}
	return out, refused, len(out) > 0
}

// distinct drops holdings that are there already.
func distinct(in [][]place.Holding) (out [][]place.Holding) {
	for _, o := range in {
		if !(choices{of: out}).has(o) {
			out = append(out, o)
		}
	}
	return out
}

// straight admits in binding order, and passes over what does not fit.
func (s *search) straight(w *world) *world {
	for i, f := range s.flights {
		if !s.spend(f) {
			return w
		}
		if options, _, ok := alternatives(w.usage, f); ok {
			w = w.with(i, w.blur(options[0]))
		}
	}
	return w
}

// add takes a state unless an equal one was found.
func (s *search) add(w *world) {
	if len(s.found) == s.limits.worlds {
		s.cut, s.full = true, true
		return
	}
	var key strings.Builder
	if len(s.flights) > 0 {
		for _, got := range w.got {
			key.WriteString(text(w.usage.Machine, got) + "\n")
		}
	}
	fmt.Fprintf(&key, "%p", w.base)
	if !s.seen[key.String()] {
		s.seen[key.String()] = true
		s.found = append(s.found, w)
	}
}

// text is equal for holdings that differ at most in containers' names, and in which devices of the same numas are drawn.
func text(m *topo.Machine, hs []place.Holding) string {
	var b strings.Builder
	for _, h := range hs {
		b.WriteString(h.CPUs.String())
		for _, m := range h.Memory {
			b.WriteString("," + m.Kind + "=" + strconv.FormatInt(m.Bytes, 10) + "@" + strconv.FormatUint(uint64(m.NUMAs), 2))
		}
		for _, d := range h.Devices {
			b.WriteString("," + d.Resource + "=" + strings.Join(ids(m, d), "+"))
		}
		b.WriteByte(';')
	}
	return b.String()
}

// predict works out the states, and what every flight gets in them.
func (a *account) predict() *Node {
	if a.overrun() {
		return a.unfollowed()
	}
	var s search
	sure := a.search(&s)
	for _, f := range a.flights[len(s.flights):] {
		s.effort += len(s.found) * f.cost
	}
	if s.spent || s.effort > maxEffort {
		a.flood()
		return a.unfollowed()
	}
	worlds, partial := s.found, s.cut || s.lost()
	for i, f := range a.flights {
		if f.turned != 0 {
			f.options = choices{more: partial}
			for _, w := range worlds {
				if len(w.got[i]) > 0 {
					f.options = f.options.or(choices{of: [][]place.Holding{w.got[i]}}, a.limits.options)
				}
			}
			f.settleWidened()
		}
	}
	nodes := make([]*Node, len(worlds))
	for k, w := range worlds {
		for i, f := range a.flights {
			if f.turned != 0 {
				continue
			}
			var hs []place.Holding // others moved into its place if it does not fit; its turn will tell
			if v := place.Place(w.usage, f.pod); v.Fits() {
				hs = v.Holdings
			}
			w = w.with(i, hs)
			if k == 0 {
				f.options = choices{}
				if len(hs) > 0 {
					f.options.of = [][]place.Holding{hs}
				}
			}
		}
		nodes[k] = a.node(w)
	}
	nodes[0].Others, nodes[0].Unsettled = nodes[1:], !sure
	nodes[0].queue, nodes[0].mixed = a.queue()
	nodes[0].uncertain = a.uncertain()
	return nodes[0]
}

// uncertain returns the UIDs of the pods whose holdings only the node's next report will tell.
func (a *account) uncertain() (uids []string) {
	for _, e := range a.base.Entries {
		if a.doubts[e.Pod.UID] {
			uids = append(uids, e.Pod.UID)
		}
	}
	for _, f := range a.flights {
		if f.uncertain {
			uids = append(uids, f.id.UID)
		}
	}
	return uids
}

// node returns the node in one of its states.
func (a *account) node(w *world) *Node {
	n := *w.base
	n.Entries = slices.Clone(n.Entries)
	for i, f := range a.flights {
		if len(w.got[i]) > 0 {
			n.Entries = append(n.Entries, Entry{Pod: f.id, Source: Predicted, Holdings: w.got[i]})
		}
	}
	n.Usage = w.usage
	return &n
}
