package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// The protocol between scheduler, node and agent, small enough to follow every interleaving: three pods, two reports,
// one restart of the scheduler. The model's node uses place itself, so the test checks only the protocol.

// step is the progress of a pod.
type step int

const (
	fresh    step = iota
	reserved      // in the book
	bound         // had its turn, or another scheduler bound it: the API server has it
	admitted      // the node has admitted it
	ended         // the node has removed or refused it
)

// model is one state of the whole system.
type model struct {
	book *Book
	// answered are the states of the node for which checkAnswers was called.
	answered map[string]bool
	// restarted are the states, without the book, in which the scheduler was restarted.
	restarted map[digest]bool
	pods      []modelPod
	// log has the events of pods in the API server, seen is how many of them the scheduler has received: a watch
	// delivers events in the order in which they were written.
	log   []event
	seen  int
	node  *node
	empty state.Layout // of the node, without pods
	// cpus and nics are what the empty node has for pods.
	cpus, nics int
	// taken are reports that the agent has made and the book has not received; lastReport is the last that it
	// received.
	taken      []state.Layout
	lastReport *state.Layout
	// reports and restarts are how many are left.
	reports, restarts int
	// lies is the number of remaining reports of another node that lists all pods as its own; lied: it has made one.
	lies int
	lied bool
	// losses is how many times the node's report may still be deleted; lost: it was.
	losses int
	lost   bool
	// surprised: predictions may be wrong, since a pod may end before the scheduler knows that it was admitted.
	surprised bool
	trace     *move
}

// move is the last event; pod is -1 if it is about no pod.
type move struct {
	what   string
	pod    int
	before *move
}

// String returns all moves up to this one, in order.
func (m *move) String() string {
	var all []string
	for ; m != nil; m = m.before {
		if m.pod < 0 {
			all = append(all, m.what)
		} else {
			all = append(all, fmt.Sprint(m.what, " ", m.pod))
		}
	}
	slices.Reverse(all)
	return strings.Join(all, ", ")
}

// event is one event of a pod in the API server: its binding, its admission, or its end.
type event struct {
	pod  int
	what step
}

type modelPod struct {
	pod     *place.Pod
	demand  place.Demand
	foreign bool
	ends    bool // it will end
	created int64
	at      step
	known   bool // the scheduler has its binding
	said    step // the last status that the node has written
	refused bool
	// clear: when it had its turn, and since then, no pod was bound without the scheduler's knowledge.
	clear bool
	// keeps: it has to get its CPUs where they were predicted when it was reserved, which is kept. steady: since its turn
	// no pod has ended, and the scheduler was not restarted.
	keeps, steady bool
	kept          topo.Mask
}

// draws reports whether the node has to choose among devices for the pod. The test follows the choice that place does
// not predict.
func (p modelPod) draws() bool { return len(p.pod.Containers[0].Devices) > 0 }

func (m *model) clone() *model {
	out := *m
	out.book = m.book.clone()
	out.pods = slices.Clone(m.pods)
	out.log = slices.Clone(m.log)
	out.node = &node{usage: m.node.usage, entries: slices.Clone(m.node.entries)}
	out.taken = slices.Clone(m.taken)
	return &out
}

// clone copies a book of few nodes.
func (b *Book) clone() *Book {
	out := New()
	out.limits = b.limits
	out.snap.Store(b.snap.Load())
	maps.Copy(out.assumedOn, b.assumedOn)
	maps.Copy(out.held.first, b.held.first)
	for uid, nodes := range b.held.more {
		out.held.more[uid] = slices.Clone(nodes)
	}
	for key, nodes := range b.partners {
		out.partners[key] = maps.Clone(nodes)
	}
	for name, a := range b.nodes {
		a.shared = true
		c := *a
		c.ended, c.doubts = maps.Clone(a.ended), maps.Clone(a.doubts)
		c.leaving = maps.Clone(a.leaving)
		c.mu, c.changed, c.excess = &sync.Mutex{}, nil, maps.Clone(a.excess)
		c.assumed = nil
		for _, f := range a.assumed {
			g := *f
			c.assumed = append(c.assumed, &g)
		}
		out.nodes[name] = &c
	}
	return out
}

// moves returns the possible next states, each with its move.
func (m *model) moves(t *testing.T) (out []*model) {
	try := func(what string, pod int, do func(*model) bool) {
		n := m.clone()
		n.trace = &move{what, pod, m.trace}
		if do(n) {
			out = append(out, n)
		}
	}
	for i, p := range m.pods {
		for _, move := range []struct {
			what string
			may  bool
			do   func(*model, *testing.T, int) bool
		}{
			{"reserve", !p.foreign && p.at == fresh, (*model).reserve},
			{"bind", p.at == reserved || p.foreign && p.at == fresh, (*model).bind},
			{"admit", p.at == bound && m.mayAdmit(i) && (*depth >= 3 || !p.draws()), (*model).admit},
			{"admit, with the last devices,", p.at == bound && m.mayAdmit(i) && p.draws(), (*model).admitLast},
			{"end", p.ends && p.at == admitted, (*model).end},
			{"write status of", p.at >= admitted && p.said != p.at, (*model).writeStatus},
		} {
			if move.may {
				try(move.what, i, func(n *model) bool { return move.do(n, t, i) })
			}
		}
	}
	if m.seen < len(m.log) {
		try("see", -1, func(n *model) bool { n.see(); return true })
	}
	if m.reports > 0 {
		try("take report", -1, func(n *model) bool {
			n.reports--
			n.taken = append(n.taken, n.layout())
			return true
		})
	}
	if len(m.taken) > 0 {
		try("deliver report", -1, func(n *model) bool { n.deliver(t); return true })
	}
	if m.lies > 0 {
		try("lie", -1, func(n *model) bool { n.lies, n.lied = n.lies-1, true; n.lie(); return true })
	}
	if m.losses > 0 {
		try("lose report", -1, func(n *model) bool { n.lose(); return true })
	}
	if m.restarts > 0 && m.firstRestart() {
		try("restart", -1, func(n *model) bool { n.restart(); return true })
	}
	return out
}

// lie sends a report in which another node lists all pods as its own.
func (m *model) lie() {
	l := m.empty
	for i := range m.pods {
		l.Entries = append(l.Entries, state.Entry{Pod: id(i), Source: state.Observed, Holdings: []place.Holding{
			{Container: "c", CPUs: idset.Of(idset.CPU(1 + i))}}})
	}
	m.book.Report("liar", l)
}

func (m *model) layout() state.Layout {
	out := m.empty
	out.Entries = slices.Clone(m.node.entries)
	return out
}

func (m *model) reserve(t *testing.T, i int) bool {
	p := &m.pods[i]
	v, ok := m.book.Reserve("n", id(i), p.pod, p.demand)
	m.checkExtended(t)
	p.at = reserved
	if p.kept = 0; p.keeps && ok && v.Fits() {
		p.kept = place.Exclusive(m.empty.Machine, v.Holdings)
		m.book.Keep(id(i).UID, p.kept)
	}
	return ok && v.Fits()
}

// bind is the turn of an own pod, or a binding by another scheduler.
func (m *model) bind(t *testing.T, i int) bool {
	p := &m.pods[i]
	if !p.foreign {
		if m.book.Snapshot().Node("n") == nil {
			return false // its report is lost
		}
		v, wait, err := m.book.Turn(id(i).UID, p.created)
		if err != nil {
			m.fail(t, "turn of pod %d: %v", i, err)
		}
		if wait != nil {
			return false
		}
		if !v.Fits() { // it is scheduled again
			p.at = fresh
			return true
		}
		p.known = true
	}
	p.at, p.clear, p.steady = bound, true, true
	for j, q := range m.pods { // an end that the scheduler does not know
		p.steady = p.steady && (q.at != ended || slices.Contains(m.log[:m.seen], event{j, ended}))
	}
	m.log = append(m.log, event{i, bound})
	for j := range m.pods {
		q := &m.pods[j]
		if p.foreign && q.at == bound {
			q.clear = false // a pod arrives beside an assumed one
		}
		if q.at >= bound && !q.known {
			p.clear = false
		}
	}
	return true
}

// see delivers the next event of a pod to the book.
func (m *model) see() {
	e := m.log[m.seen]
	m.seen++
	m.take(e)
}

func (m *model) take(e event) {
	p := &m.pods[e.pod]
	switch {
	case e.what == bound:
		p.known = true
		m.book.Assume("n", id(e.pod), p.pod)
		m.relate(e.pod)
	case e.what == admitted:
		m.book.Admitted(id(e.pod).UID)
	case p.refused:
		m.book.Refuse(id(e.pod).UID, place.TopologyAffinityError)
		m.book.Relate("n", id(e.pod).UID, state.Relations{})
	default:
		m.book.Release(id(e.pod).UID)
		m.book.Relate("n", id(e.pod).UID, state.Relations{})
	}
}

// relate tells the book how a bound pod is related to others.
func (m *model) relate(i int) {
	if r := state.RelationsOf(m.pods[i].demand); r != (state.Relations{}) {
		m.book.Relate("n", id(i).UID, r)
	}
}

// bindings returns the pods in the order in which they were bound.
func (m *model) bindings() (out []int) {
	for _, e := range m.log {
		if e.what == bound {
			out = append(out, e.pod)
		}
	}
	return out
}

func (m *model) admit(t *testing.T, i int) bool {
	return m.answer(t, i, func(hs []place.Holding) []place.Holding { return hs })
}

// mayAdmit reports whether the node may admit a pod next. It receives bindings in their order, or several at once,
// which it sorts by the second of the pods' creation. So it admits no pod before one that was bound and created
// earlier.
func (m *model) mayAdmit(i int) bool {
	for _, j := range m.bindings() {
		if j == i {
			break
		}
		if m.pods[j].at == bound && m.pods[j].created < m.pods[i].created {
			return false
		}
	}
	return true
}

// admitLast lets the node choose other devices than place does.
func (m *model) admitLast(t *testing.T, i int) bool {
	return m.answer(t, i, func(hs []place.Holding) []place.Holding { return m.last(hs) })
}

// answer lets the node admit or refuse a pod; draw chooses among devices.
func (m *model) answer(t *testing.T, i int, draw func([]place.Holding) []place.Holding) bool {
	p := &m.pods[i]
	v := place.Place(m.node.usage, p.pod)
	if !v.Fits() {
		if p.clear {
			m.fail(t, "the node refuses pod %d: %v", i, v.Reasons)
		}
		p.at, p.refused = ended, true
		return true
	}
	p.at = admitted
	if got := place.Exclusive(m.empty.Machine, v.Holdings); p.kept != 0 && p.clear && p.steady && got != p.kept {
		m.fail(t, "pod %d gets its CPUs on %b, and has to get them on %b", i, got, p.kept)
	}
	m.checkRelated(t, i, v.Holdings)
	m.node.admit(state.Entry{Pod: id(i), Source: state.Observed, Holdings: observed(draw(v.Holdings))})
	return true
}

// last returns the holdings with their devices replaced by the last free devices on the same NUMA nodes.
func (m *model) last(hs []place.Holding) []place.Holding {
	out := slices.Clone(hs)
	for i, h := range out {
		out[i].Devices = slices.Clone(h.Devices)
		for j, b := range h.Devices {
			if !b.Free {
				continue
			}
			var ids []string
			for _, d := range slices.Backward(m.node.usage.FreeDevices(b.Resource)) {
				if d.NUMAs == b.NUMAs && len(ids) < len(b.IDs) {
					ids = append(ids, d.ID)
				}
			}
			slices.Sort(ids)
			out[i].Devices[j].IDs = ids
		}
	}
	return out
}

// observed returns the holdings in the form of a report: nothing in it is open.
func observed(hs []place.Holding) []place.Holding {
	out := slices.Clone(hs)
	for i, h := range out {
		out[i].Devices = slices.Clone(h.Devices)
		for j := range h.Devices {
			out[i].Devices[j].Free = false
		}
	}
	return out
}

// writeStatus writes a pod's status. The node may do so at any time, and may leave out steps.
func (m *model) writeStatus(_ *testing.T, i int) bool {
	p := &m.pods[i]
	p.said = p.at
	m.log = append(m.log, event{i, p.at})
	return true
}

func (m *model) end(t *testing.T, i int) bool {
	p := &m.pods[i]
	p.at = ended
	m.unsteady()
	at := slices.IndexFunc(m.node.entries, func(e state.Entry) bool { return e.Pod.UID == id(i).UID })
	m.node.entries = slices.Delete(slices.Clone(m.node.entries), at, at+1)
	m.node.usage = place.NewUsage(m.empty.Machine, m.empty.Rules).Hold(state.Holdings(m.node.entries)...)
	return true
}

// unsteady notes that pods which are not admitted yet may get something else.
func (m *model) unsteady() {
	for i := range m.pods {
		m.pods[i].steady = false
	}
}

func (m *model) deliver(t *testing.T) {
	l := m.taken[0]
	m.taken, m.lastReport = m.taken[1:], &l
	if m.lost { // cluster/kube repeats the ends that the book may not have noticed
		defer m.repeatEnds()
	}
	for _, o := range m.book.Report("n", l) {
		i := number(o.Pod.UID)
		if o.Result == state.Wrong && m.pods[i].clear && !m.surprised {
			m.fail(t, "pod %d: predicted %v, seen %v", i, o.Predicted, o.Seen)
		}
	}
}

// repeatEnds delivers all ends that the scheduler has seen once more.
func (m *model) repeatEnds() {
	for _, e := range m.log[:m.seen] {
		if e.what == ended {
			m.book.Release(id(e.pod).UID)
		}
	}
}

// restart begins with an empty book: it gets only what the API server has.
func (m *model) restart() {
	m.restarts--
	m.unsteady()
	few := m.book.limits
	m.book = New()
	m.book.limits = few
	if n := len(m.taken); n > 0 {
		m.lastReport, m.taken = &m.taken[n-1], nil
	}
	m.book.Report("n", *m.lastReport)
	if m.lied {
		m.lie()
	}
	m.book.Doubt(func(id state.PodID) bool {
		p := m.pods[number(id.UID)]
		return p.at >= bound && p.said != ended
	})
	for i := range m.pods {
		if m.pods[i].at == reserved {
			m.pods[i].at = fresh
		}
	}
	m.seen = len(m.log)
	for _, i := range m.bindings() {
		if m.pods[i].known = true; m.pods[i].said != ended {
			m.book.Recover("n", id(i), m.pods[i].pod)
			m.relate(i)
		}
	}
	for _, i := range m.bindings() {
		if m.pods[i].said == admitted {
			m.take(event{i, admitted})
		}
	}
}

// lose deletes the node's report. The reports that were not delivered yet never will be.
func (m *model) lose() {
	m.losses, m.lost = m.losses-1, true
	m.taken = nil
	m.book.Forget("n")
}

// check applies to every state. Nothing is held twice. If no foreign pod interferes, one of the possible states in
// the book agrees with the node for all pods that the book has.
func (m *model) check(t *testing.T) {
	m.checkProgress(t)
	n := m.book.Snapshot().Node("n")
	if n == nil {
		return // its report is lost
	}
	m.checkAnswers(t)
	if n.Unsettled {
		return
	}
	for _, w := range append([]*state.Node{n}, n.Others...) {
		cpus, nics := w.Usage.FreeCPUs().Len(), len(w.Usage.FreeDevices("nic"))
		for _, e := range w.Entries {
			for _, h := range e.Holdings {
				cpus += h.CPUs.Len()
				for _, d := range h.Devices {
					nics += len(d.IDs)
				}
			}
		}
		if cpus != m.cpus || nics != m.nics {
			m.fail(t, "held and free CPUs are %d, devices %d, want %d and %d", cpus, nics, m.cpus, m.nics)
		}
	}
	for i, p := range m.pods {
		if p.at >= bound && (!p.clear || !p.known || p.refused) ||
			(p.at == ended && !slices.Contains(m.log[:m.seen], event{i, ended})) {
			return
		}
	}
	for _, w := range append([]*state.Node{n}, n.Others...) {
		if m.explains(w) {
			return
		}
	}
	m.fail(t, "the node holds %s, which is none of the %d possible states in the book: first %s",
		m.describe(m.node.entries), len(n.Others)+1, m.describe(n.Entries))
}

// explains reports whether each admitted pod has the holdings of a pod of its shape in w.
func (m *model) explains(w *state.Node) bool {
	have := map[string]int{}
	for _, e := range w.Entries {
		have[m.label(e)]++
	}
	for _, e := range m.node.entries {
		if have[m.label(e)]--; have[m.label(e)] < 0 {
			return false
		}
	}
	return true
}

// label is equal for pods of a shape with equal holdings, except for which devices of the same NUMA nodes they have.
func (m *model) label(e state.Entry) string {
	return m.pods[number(e.Pod.UID)].pod.Shape() + text(m.empty.Machine, anyOf(e.Holdings))
}

// anyOf returns the holdings with all devices marked as one possible choice.
func anyOf(hs []place.Holding) []place.Holding {
	out := slices.Clone(hs)
	for i, h := range out {
		out[i].Devices = slices.Clone(h.Devices)
		for j := range h.Devices {
			out[i].Devices[j].Free = true
		}
	}
	return out
}

func number(uid string) int { return int(uid[len(uid)-1] - '0') }

func (m *model) describe(es []state.Entry) string {
	var out []string
	for _, e := range es {
		out = append(out, e.Pod.UID+" "+text(m.empty.Machine, e.Holdings))
	}
	return strings.Join(out, " ")
}

func (m *model) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("after %s: %s", m.trace, fmt.Sprintf(format, args...))
}

// text returns a text that is the same for holdings that differ at most in container names, and in the kubelet's
// choice among devices with the same NUMA nodes.
func text(m *topo.Machine, hs []place.Holding) string {
	var b strings.Builder
	for _, h := range hs {
		fmt.Fprintf(&b, "%s,%v", h.CPUs, h.Memory)
		for _, d := range h.Devices {
			fmt.Fprintf(&b, ",%s=%v", d.Resource, ids(m, d))
		}
		b.WriteByte(';')
	}
	return b.String()
}
