package ledger

import (
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file computes the possible states of a node from its last report and the pods that are assumed there.
//
// The order of admission between two pods is certain only in the cases of order.go. All other orders are followed,
// except between pods of equal shape, whose order makes no difference. Nearly always there is one state: pods of this
// scheduler take turns, and a report ends the question of order for the pods that it lists.

// maxStates bounds the states of a node, and maxSteps the admissions that are tried to find them. maxOptions bounds
// the alternative holdings that are remembered for a pod until its node reports it.
const (
	maxStates  = 16
	maxSteps   = 256
	maxOptions = 8
)

// manyPods is the number of pods from which a search remembers where it was. With fewer that costs more than it saves.
const manyPods = 3

// limits are these bounds in one book; tests lower them. At a bound the ledger has less information, but none of it
// is wrong.
type limits struct{ states, steps, options int }

// nodeState is one possible state of the node.
type nodeState struct {
	base  *state.Node // the node without assumed pods
	usage *place.Usage
	// got[i] is what the i-th assumed pod holds. It is nil if the pod holds nothing or is refused.
	got [][]place.Holding
}

// with returns the state in which the i-th assumed pod holds hs. It does not change w.
func (w *nodeState) with(i int, hs []place.Holding) *nodeState {
	u := w.usage
	if len(hs) > 0 {
		u = u.Hold(hs...)
	}
	return w.holding(i, hs, u)
}

// holding is with; u is the usage of that state.
func (w *nodeState) holding(i int, hs []place.Holding, u *place.Usage) *nodeState {
	out := &nodeState{base: w.base, usage: u, got: slices.Clone(w.got)}
	out.got[i] = hs
	return out
}

// blur returns hs with devices marked as one possible choice (DeviceBlock.Free) if a pod that is admitted in w has
// devices of the same resource with that mark. For the later pod it is then certain how many devices are left, but
// not which ones. blur does not change hs itself.
func (w *nodeState) blur(hs []place.Holding) []place.Holding {
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

// search follows every possible order of admission.
type search struct {
	limits  limits
	assumed []*assumedPod // the pods that had their turn
	after   []int         // the result of ticketMoments
	done    []bool        // by index in assumed: the pod is admitted in the state that follow has reached
	found   []*nodeState
	memo    memo
	// reached has the states from which all orders of the other pods were followed, by the admitted pods (see marks).
	reached map[string][]*nodeState
	steps   int // admissions tried
	effort  int // see maxEffort
	// full: a bound is reached; the search stops.
	full bool
	// spent: the search took too much effort; its result must not be used.
	spent bool
	// cut: the search did not follow everything.
	cut bool
	// refuses: in one of the orders a pod is refused. willing: the caller wants orders without refusals only, so the
	// search ends at the first refusal, perhaps without a state.
	refuses, willing bool
}

// withoutWaiting returns the node after it has admitted all pods that had their turn, without the pods that wait for
// their turn.
func (a *account) withoutWaiting() *state.Node {
	s := a.newSearch()
	sure := a.search(&s)
	nodes := make([]*state.Node, len(s.found))
	for i, w := range s.found {
		n := *w.base
		n.Usage, nodes[i] = w.usage, &n
	}
	nodes[0].Others, nodes[0].Unsettled, nodes[0].Promised = nodes[1:], !sure, a.promised
	return nodes[0]
}

// newSearch returns a search of the pods that had their turn, before its first step.
func (a *account) newSearch() search {
	turned := a.assumed[:a.turnedCount()]
	return search{limits: a.limits, assumed: turned, after: ticketMoments(turned), done: make([]bool, len(turned))}
}

// search runs a new search. It stores in s.found the possible states of the node after it has admitted all pods that
// had their turn, the likeliest first: at least one, unless s.willing. sure is false if there may be more. If the
// search took too much effort, s.spent is set, and s.found has only the node without assumed pods.
func (a *account) search(s *search) (sure bool) {
	if len(s.assumed) >= manyPods {
		s.memo, s.reached = newMemo(), map[string][]*nodeState{}
	}
	s.cut = slices.ContainsFunc(s.assumed, func(f *assumedPod) bool { return f.past.More() })
	starts, known := a.starts()
	for _, w := range starts {
		w.usage = s.memo.same(w.usage)
		s.follow(w, len(s.assumed))
	}
	if len(s.found) == 0 && !(s.willing && s.refuses) {
		// No order explains what the node did, or there are too many orders: use the order of binding.
		s.cut = true
		s.found = []*nodeState{s.inTurnOrder(starts[0])}
	}
	if a.effort += s.effort; s.spent {
		s.found = starts[:1]
	}
	return !s.cut && !s.uncertainHolds() && known
}

// starts returns the states of the node without the assumed pods. known is false if there may be other states: pods
// may have left the node since it reported, or it is an estimated node with more states than are followed.
func (a *account) starts() (out []*nodeState, known bool) {
	nodes := []*state.Node{a.base}
	if a.estimated() {
		nodes, known = a.estimatedStates()
	} else {
		known = !slices.ContainsFunc(a.base.Entries, func(e state.Entry) bool {
			return a.doubts[e.Pod.UID] && !a.overdue[e.Pod.UID]
		})
		nodes = append(nodes, a.openStates()...)
	}
	for _, n := range nodes {
		out = append(out, &nodeState{base: n, usage: n.Usage, got: make([][]place.Holding, len(a.assumed))})
	}
	return out, known
}

// follow tries every pod that the node may admit next in state w, and for each of them all orders of the other pods.
// remaining is the number of pods that are not admitted in w.
func (s *search) follow(w *nodeState, remaining int) {
	if remaining == 0 {
		s.add(w)
		return
	}
	if s.wasHere(w) {
		return
	}
	lo := slices.Index(s.done, false)
	for i := lo; i < len(s.assumed) && !s.full; i++ {
		f := s.assumed[i]
		if s.done[i] || !s.mayBeNext(i, lo) {
			continue
		}
		if !s.memo.has(f, w.usage) && !s.spend(f) {
			return
		}
		x := s.memo.place(f, w.usage)
		options, refused, ok := alternatives(w.usage, f, x.verdict)
		if !ok {
			continue // the pod was admitted, so this order did not happen
		}
		if s.refuses = s.refuses || refused; s.refuses && s.willing {
			s.full = true
			return
		}
		s.done[i] = true
		for _, o := range options {
			if s.steps++; s.steps > s.limits.steps {
				s.cut, s.full = true, true
			}
			if s.full {
				break
			}
			s.follow(s.next(w, i, o, x), remaining-1)
		}
		s.done[i] = false
	}
}

// next returns the state in which the i-th pod holds o; x is the result of its placement in w.
func (s *search) next(w *nodeState, i int, o []place.Holding, x *tried) *nodeState {
	got := w.blur(o)
	if len(o) > 0 && len(x.verdict.Holdings) > 0 && &o[0] == &x.verdict.Holdings[0] {
		return w.holding(i, got, x.after)
	}
	out := w.with(i, got)
	out.usage = s.memo.same(out.usage)
	return out
}

// wasHere reports whether the search has followed the other pods from a state that equals w, and if not, remembers w.
func (s *search) wasHere(w *nodeState) bool {
	if !s.memo.on() {
		return false
	}
	at := marks(s.done)
	for _, o := range s.reached[at] {
		if o.usage == w.usage && o.equal(w) {
			return true
		}
	}
	s.reached[at] = append(s.reached[at], w)
	return false
}

// spend adds the cost of placing a pod. If the sum would exceed maxEffort, it ends the search and ok is false.
func (s *search) spend(f *assumedPod) (ok bool) {
	if s.effort+f.cost > maxEffort {
		s.spent, s.cut, s.full = true, true, true
		return false
	}
	s.effort += f.cost
	return true
}

// uncertainHolds reports whether an uncertain pod holds something in one of the found states.
func (s *search) uncertainHolds() bool {
	for i, f := range s.assumed {
		if f.uncertain && slices.ContainsFunc(s.found, func(w *nodeState) bool { return len(w.got[i]) > 0 }) {
			return true
		}
	}
	return false
}

// mayBeNext reports whether the search tries to admit the i-th pod before all other remaining pods; lo is the index
// of the first remaining one. Of pods with equal shapes, and of pods with decisions, it tries only the first, since
// their order makes no difference.
func (s *search) mayBeNext(i, lo int) bool {
	f := s.assumed[i]
	for j := lo; j < len(s.assumed); j++ {
		g := s.assumed[j]
		if s.done[j] || j == i {
			continue
		}
		decided := f.decision != nil && g.decision != nil // decided pods take nothing from each other
		if g.admittedBefore(f) || g.turned < s.after[i] || j < i && (g.shape == f.shape || decided) {
			return false
		}
	}
	return true
}

// alternatives returns what the pod may get from the usage, likeliest first; nil holdings mean that it is refused. v is
// the verdict on it there, and refused reports whether it does not fit. ok is false if the pod is known to be admitted
// and does not fit, which excludes this order.
func alternatives(u *place.Usage, f *assumedPod, v place.Verdict) (out [][]place.Holding, refused, ok bool) {
	out, only := f.past.Options(u) // exact nodes have no past
	if f.acked != 0 && only {
		return out, false, true
	}
	switch {
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

// distinct drops repeated holdings.
func distinct(in [][]place.Holding) (out [][]place.Holding) {
	for _, o := range in {
		if !contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// inTurnOrder returns the state in which pods were admitted in the order of their turns. A pod that does not fit
// holds nothing. inTurnOrder stops early if that takes too much effort.
func (s *search) inTurnOrder(w *nodeState) *nodeState {
	for i, f := range s.assumed {
		if !s.spend(f) {
			return w
		}
		if options, _, ok := alternatives(w.usage, f, f.place(w.usage)); ok {
			w = w.with(i, w.blur(options[0]))
		}
	}
	return w
}

// add adds a state unless an equal one was found. If the bound on states is reached, add records that the search is
// incomplete.
func (s *search) add(w *nodeState) {
	if slices.ContainsFunc(s.found, w.equal) {
		return
	}
	if len(s.found) == s.limits.states {
		s.cut, s.full = true, true
		return
	}
	s.found = append(s.found, w)
}

// equal reports whether two states of a search count as equal.
func (w *nodeState) equal(o *nodeState) bool {
	return w.base == o.base && slices.EqualFunc(w.got, o.got, func(a, b []place.Holding) bool {
		return slices.EqualFunc(a, b, func(x, y place.Holding) bool { return sameHolding(w.usage.Machine, x, y) })
	})
}

// sameHolding reports whether two holdings differ at most in the container's name, and in the kubelet's choice among
// devices with the same NUMA nodes.
func sameHolding(m *topo.Machine, a, b place.Holding) bool {
	return a.CPUs.Equal(b.CPUs) && slices.Equal(a.Memory, b.Memory) &&
		slices.EqualFunc(a.Devices, b.Devices, func(x, y place.DeviceBlock) bool {
			return x.Resource == y.Resource && x.Free == y.Free && slices.Equal(ids(m, x), ids(m, y))
		})
}

// ids returns the ids of a block's devices. If the kubelet chooses the devices, it returns for each one a text with
// its NUMA nodes in binary, sorted.
func ids(m *topo.Machine, b place.DeviceBlock) []string {
	if !b.Free {
		return b.IDs
	}
	r, _ := m.Resource(b.Resource)
	out := make([]string, len(b.IDs))
	for i, id := range b.IDs {
		out[i] = "any@" + strconv.FormatUint(uint64(r.Device(id).NUMAs), 2)
	}
	slices.Sort(out)
	return out
}

// predict returns the node in its likeliest state, with all other possible states in Others. In each state, the pods
// that wait for their turn come after the pods that had it, in the order of their reservations. predict also sets the
// options of every assumed pod: what a pod that had its turn gets in these states, and what a waiting pod gets in the
// likeliest one.
func (a *account) predict() *state.Node {
	if a.overrun() {
		return a.unfollowed()
	}
	s := a.newSearch()
	sure := a.search(&s)
	for _, f := range a.assumed[len(s.assumed):] {
		s.effort += len(s.found) * f.cost
	}
	if a.predicted = s.effort; s.spent || s.effort > maxEffort {
		a.markFlooded()
		return a.unfollowed()
	}
	if sure && len(a.assumed) == 0 && len(a.doubts) == 0 && len(s.found) == 1 && s.found[0].base == a.base {
		return a.base // nothing is open: most nodes, most of the time, so they share it
	}
	// partial: pods that had their turn may hold something that is in none of these states.
	states, partial := s.found, s.cut || s.uncertainHolds()
	for i, f := range a.assumed {
		if f.turned != 0 {
			f.options = choices{more: partial}
			for _, w := range states {
				if len(w.got[i]) > 0 {
					f.options.add(w.got[i], a.limits.options)
				}
			}
			f.past.Close(f.options.known, f.options.more)
		}
	}
	nodes := make([]*state.Node, len(states))
	for k, w := range states {
		for i, f := range a.assumed {
			if f.turned != 0 {
				continue
			}
			// Other pods may have moved before f, so that it no longer fits. Then it holds nothing, and Turn will
			// decide.
			var hs []place.Holding
			if v := f.place(w.usage); v.Fits() {
				hs = v.Holdings
			}
			w = w.with(i, hs)
			if k == 0 {
				f.options = choices{}
				if len(hs) > 0 {
					f.options.known = [][]place.Holding{hs}
				}
			}
		}
		nodes[k] = a.node(w)
	}
	nodes[0].Others, nodes[0].Unsettled, nodes[0].Promised = nodes[1:], !sure, a.promised
	nodes[0].Basis.Queue = a.queue()
	nodes[0].Basis.Uncertain = a.uncertainUIDs()
	return nodes[0]
}

// uncertainUIDs returns the UIDs of the pods whose holdings are open until the node's next report.
func (a *account) uncertainUIDs() (uids []string) {
	for _, e := range a.base.Entries {
		if a.doubts[e.Pod.UID] {
			uids = append(uids, e.Pod.UID)
		}
	}
	for _, f := range a.assumed {
		if f.uncertain {
			uids = append(uids, f.id.UID)
		}
	}
	return uids
}

// node returns the node in one of its states.
func (a *account) node(w *nodeState) *state.Node {
	n := *w.base
	n.Entries = slices.Clip(n.Entries)
	for i, f := range a.assumed {
		if len(w.got[i]) > 0 {
			n.Entries = append(n.Entries, state.Entry{Pod: f.id, Source: state.Predicted, Holdings: w.got[i]})
		}
	}
	n.Usage, n.Basis.Relations = w.usage, a.shareRelations()
	return &n
}
