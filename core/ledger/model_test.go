package ledger

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// The protocol between scheduler, node and agent, small enough to follow every interleaving: three pods,
// two reports, one restart of the scheduler. The node is played by place itself, so that what is checked
// is the protocol and nothing else.

// step is how far a pod has come.
type step int

const (
	fresh    step = iota
	reserved      // in the book
	bound         // had its turn, or somebody else bound it: the API server has it
	admitted      // the node has dealt with it
	ended         // the node has let go of it, or has refused it
)

// model is one state of the whole.
type model struct {
	book *Book
	// answered are the states of the node for which checkAnswers was called.
	answered map[string]bool
	pods     []modelPod
	// log is what was written to the API server of pods, seen how much of it the scheduler has seen: a
	// watch tells in the order in which it was written.
	log   []event
	seen  int
	node  *node
	empty Layout // of the node, with nothing on it
	// taken are reports that the agent has made and the book has not got; told is the last that it got.
	taken []Layout
	told  *Layout
	// reports and restarts are how many are left.
	reports, restarts int
	// lies are the reports that are left of another node that lists all pods as its own; lied: it has made one.
	lies  int
	lied  bool
	trace []string
}

// event is what the API server was told of a pod: its binding, that it was admitted, that it has ended.
type event struct {
	pod  int
	what step
}

type modelPod struct {
	pod     *place.Pod
	foreign bool
	ends    bool // it will end
	at      step
	known   bool // the scheduler knows of its binding
	said    step // the last thing that the node has told the API server
	refused bool
	// clear: nothing was bound that the scheduler had not seen when it had its turn, nor since.
	clear bool
}

// draws reports whether the node has to choose among devices for the pod. The choice that place does not foresee
// is the one to follow.
func (p modelPod) draws() bool { return len(p.pod.Containers[0].Devices) > 0 }

func (m *model) clone() *model {
	out := *m
	out.book = m.book.clone()
	out.pods = slices.Clone(m.pods)
	out.log = slices.Clone(m.log)
	out.node = &node{usage: m.node.usage, entries: slices.Clone(m.node.entries)}
	out.taken = slices.Clone(m.taken)
	out.trace = slices.Clone(m.trace)
	return &out
}

// clone copies a book of few nodes.
func (b *Book) clone() *Book {
	out := New()
	out.snap.Store(b.snap.Load())
	maps.Copy(out.where, b.where)
	maps.Copy(out.held.first, b.held.first)
	for uid, nodes := range b.held.more {
		out.held.more[uid] = slices.Clone(nodes)
	}
	for name, a := range b.nodes {
		c := *a
		c.gone, c.counted, c.doubts = maps.Clone(a.gone), maps.Clone(a.counted), maps.Clone(a.doubts)
		c.mu, c.changed, c.excess = &sync.Mutex{}, make(chan struct{}), maps.Clone(a.excess)
		c.flights = nil
		for _, f := range a.flights {
			g := *f
			c.flights = append(c.flights, &g)
		}
		out.nodes[name] = &c
	}
	return out
}

// key is equal for states from which the same may follow.
func (m *model) key() string {
	var b strings.Builder
	for _, p := range m.pods {
		fmt.Fprint(&b, p.at, p.known, p.said, p.refused, p.clear, ";")
	}
	fmt.Fprint(&b, m.log[m.seen:], m.bindings(), m.reports, m.restarts, m.lies)
	list := func(es []Entry) {
		for _, e := range es {
			b.WriteString("|" + e.Pod.UID + text(m.empty.Machine, e.Holdings))
		}
		b.WriteByte('/')
	}
	list(m.node.entries)
	for _, l := range m.taken {
		list(l.Entries)
	}
	if m.told != nil {
		list(m.told.Entries)
	}
	a := m.book.nodes["n"]
	var moments []int
	for _, f := range a.flights {
		moments = append(moments, f.turned, f.acked)
	}
	slices.Sort(moments)
	rank := func(at int) int { return slices.Index(slices.Compact(slices.Clone(moments)), at) }
	for _, f := range a.flights {
		fmt.Fprint(&b, f.id.UID, rank(f.turned), rank(f.acked), f.turned != 0, f.acked != 0, f.uncertain)
		for _, c := range []choices{f.options, f.earlier.kept} {
			for _, o := range c.of {
				b.WriteString(text(m.empty.Machine, o))
			}
			fmt.Fprint(&b, c.more)
		}
	}
	fmt.Fprint(&b, slices.Sorted(maps.Keys(a.gone)), len(a.refused), a.buried, slices.Sorted(maps.Keys(a.doubts)))
	return b.String()
}

// moves returns the states that may follow, each with what happened.
func (m *model) moves(t *testing.T) (out []*model) {
	try := func(what string, do func(*model) bool) {
		n := m.clone()
		n.trace = append(n.trace, what)
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
			{"admit", p.at == bound && (*depth >= 3 || !p.draws()), (*model).admit},
			{"admit, with the last devices,", p.at == bound && p.draws(), (*model).admitLast},
			{"end", p.ends && p.at == admitted, (*model).end},
			{"tell of", p.at >= admitted && p.said != p.at, (*model).tell},
		} {
			if move.may {
				try(fmt.Sprint(move.what, " ", i), func(n *model) bool { return move.do(n, t, i) })
			}
		}
	}
	if m.seen < len(m.log) {
		try("see", func(n *model) bool { n.see(); return true })
	}
	if m.reports > 0 {
		try("take report", func(n *model) bool {
			n.reports--
			n.taken = append(n.taken, n.layout())
			return true
		})
	}
	if len(m.taken) > 0 {
		try("deliver report", func(n *model) bool { n.deliver(t); return true })
	}
	if m.lies > 0 {
		try("lie", func(n *model) bool { n.lies, n.lied = n.lies-1, true; n.lie(); return true })
	}
	if m.restarts > 0 {
		try("restart", func(n *model) bool { n.restart(); return true })
	}
	return out
}

// lie has another node list all pods as its own.
func (m *model) lie() {
	l := m.empty
	for i := range m.pods {
		l.Entries = append(l.Entries, Entry{Pod: id(i), Source: Observed, Holdings: []place.Holding{
			{Container: "c", CPUs: idset.Of(idset.CPU(1 + i))}}})
	}
	m.book.Report("liar", l)
}

func (m *model) layout() Layout {
	out := m.empty
	out.Entries = slices.Clone(m.node.entries)
	return out
}

func (m *model) reserve(_ *testing.T, i int) bool {
	p := &m.pods[i]
	v, ok := m.book.Reserve("n", id(i), p.pod, place.Demand{})
	p.at = reserved
	return ok && v.Fits()
}

// bind is the turn of an own pod, or another scheduler's whim.
func (m *model) bind(t *testing.T, i int) bool {
	p := &m.pods[i]
	if !p.foreign {
		v, wait, err := m.book.Turn(id(i).UID)
		if err != nil {
			m.fail(t, "turn of pod %d: %v", i, err)
		}
		if wait != nil {
			return false
		}
		if !v.Fits() { // it is scheduled anew
			p.at = fresh
			return true
		}
		p.known = true
	}
	p.at, p.clear = bound, true
	m.log = append(m.log, event{i, bound})
	for j := range m.pods {
		q := &m.pods[j]
		if p.foreign && q.at == bound {
			q.clear = false // it comes in beside one that is on its way
		}
		if q.at >= bound && !q.known {
			p.clear = false
		}
	}
	return true
}

// see brings the next event of a pod into the book.
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
	case e.what == admitted:
		m.book.Admitted(id(e.pod).UID)
	case p.refused:
		m.book.Refuse(id(e.pod).UID, place.TopologyAffinityError)
	default:
		m.book.Release(id(e.pod).UID)
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

// admitLast has the node draw other devices than place does.
func (m *model) admitLast(t *testing.T, i int) bool {
	return m.answer(t, i, func(hs []place.Holding) []place.Holding { return m.last(hs) })
}

// answer has the node deal with a pod; draw chooses among devices.
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
	m.node.admit(Entry{Pod: id(i), Source: Observed, Holdings: observed(draw(v.Holdings))})
	return true
}

// last returns the holdings with the last of the free devices on the numas of those that are drawn.
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

// observed returns the holdings as a report has them: nothing in it is open.
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

// tell writes a pod's status. The node does so when it pleases, and may leave steps out.
func (m *model) tell(_ *testing.T, i int) bool {
	p := &m.pods[i]
	p.said = p.at
	m.log = append(m.log, event{i, p.at})
	return true
}

func (m *model) end(t *testing.T, i int) bool {
	p := &m.pods[i]
	p.at = ended
	at := slices.IndexFunc(m.node.entries, func(e Entry) bool { return e.Pod.UID == id(i).UID })
	m.node.entries = slices.Delete(slices.Clone(m.node.entries), at, at+1)
	m.node.usage = place.NewUsage(m.empty.Machine, m.empty.Rules).Hold(holdings(m.node.entries)...)
	return true
}

func (m *model) deliver(t *testing.T) {
	l := m.taken[0]
	m.taken, m.told = m.taken[1:], &l
	for _, o := range m.book.Report("n", l) {
		i := number(o.Pod.UID)
		if o.Result == Wrong && m.pods[i].clear {
			m.fail(t, "pod %d: predicted %v, seen %v", i, o.Predicted, o.Seen)
		}
	}
}

// restart begins with an empty book: what the API server has is all that is known.
func (m *model) restart() {
	m.restarts--
	m.book = New()
	if n := len(m.taken); n > 0 {
		m.told, m.taken = &m.taken[n-1], nil
	}
	m.book.Report("n", *m.told)
	if m.lied {
		m.lie()
	}
	m.book.Doubt(func(uid string) bool {
		p := m.pods[number(uid)]
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
		}
	}
	for _, i := range m.bindings() {
		if m.pods[i].said == admitted {
			m.take(event{i, admitted})
		}
	}
}

// check holds in every state: nothing is held twice, and where nothing foreign interferes, one of the
// states that the book thinks possible has what the node has given to the pods that the book knows.
func (m *model) check(t *testing.T) {
	m.checkAnswers(t)
	n := m.book.Snapshot().Node("n")
	if n.Unsettled {
		return
	}
	for _, w := range append([]*Node{n}, n.Others...) {
		cpus, nics := w.Usage.FreeCPUs().Len(), len(w.Usage.FreeDevices("nic"))
		for _, e := range w.Entries {
			for _, h := range e.Holdings {
				cpus += h.CPUs.Len()
				for _, d := range h.Devices {
					nics += len(d.IDs)
				}
			}
		}
		if cpus != 12 || nics != 6 {
			m.fail(t, "held and free CPUs are %d, devices %d", cpus, nics)
		}
	}
	for i, p := range m.pods {
		if p.at >= bound && (!p.clear || !p.known || p.refused) || (p.at == ended && !slices.Contains(m.log[:m.seen], event{i, ended})) {
			return
		}
	}
	for _, w := range append([]*Node{n}, n.Others...) {
		if m.explains(w) {
			return
		}
	}
	m.fail(t, "the node holds %s, which is none of the %d states that are thought possible: first %s",
		m.describe(m.node.entries), len(n.Others)+1, m.describe(n.Entries))
}

// explains reports whether the holdings of every admitted pod are those of a pod of its shape.
func (m *model) explains(w *Node) bool {
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

// label is equal for pods of a shape that hold the same, but for which devices of the same numas.
func (m *model) label(e Entry) string {
	return m.pods[number(e.Pod.UID)].pod.Shape() + text(m.empty.Machine, anyOf(e.Holdings))
}

// anyOf returns the holdings as if all devices were drawn.
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

func (m *model) describe(es []Entry) string {
	var out []string
	for _, e := range es {
		out = append(out, e.Pod.UID+" "+text(m.empty.Machine, e.Holdings))
	}
	return strings.Join(out, " ")
}

func (m *model) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("after %s: %s", strings.Join(m.trace, ", "), fmt.Sprintf(format, args...))
}

// depth is what to follow. 0: what takes seconds, also under the race detector; 1: nearly all cases with one report,
// in a few minutes; 2: all of them, with two reports; 3: nodes may draw the devices that place foresees, too.
var depth = flag.Int("model.depth", 0, "0 to 3: how many interleavings are followed")

func TestEveryInterleaving(t *testing.T) {
	own := func(cpus int64) modelPod { return modelPod{pod: pod(cpus, 1)} }
	foreign := func(cpus int64) modelPod { return modelPod{pod: pod(cpus, 1), foreign: true} }
	ends := func(p modelPod) modelPod { p.ends = true; return p }
	nics := func(p modelPod, n int64) modelPod {
		p.pod.Containers[0].Devices = []place.Count{{Resource: "nic", N: n}}
		return p
	}
	for name, c := range map[string]struct {
		depth int // from which on it is followed
		// narrow is the depth from which on it is followed with low bounds, too.
		narrow int
		pods   []modelPod
	}{
		"three shapes":               {1, 2, []modelPod{own(2), own(3), own(4)}},
		"two of a shape":             {1, 2, []modelPod{own(2), own(2), own(3)}},
		"two of a shape, one ends":   {1, 1, []modelPod{ends(own(3)), own(3), own(4)}},
		"all of a shape, two end":    {1, 1, []modelPod{ends(own(4)), ends(own(4)), own(4)}},
		"one ends, another waits":    {0, 0, []modelPod{ends(own(6)), own(6), own(4)}},
		"one is foreign":             {1, 2, []modelPod{own(2), foreign(3), own(4)}},
		"a foreign one ends":         {1, 1, []modelPod{own(3), ends(foreign(4)), own(5)}},
		"two are foreign":            {1, 2, []modelPod{foreign(2), foreign(3), own(4)}},
		"devices of three shapes":    {0, 2, []modelPod{nics(own(2), 1), nics(own(3), 1), nics(own(1), 2)}},
		"devices of one shape":       {2, 2, []modelPod{ends(nics(own(2), 1)), nics(own(2), 1), nics(own(3), 2)}},
		"one with devices ends":      {2, 2, []modelPod{ends(nics(own(2), 2)), nics(own(3), 2), nics(own(1), 1)}},
		"a foreign one has devices":  {1, 2, []modelPod{nics(own(2), 1), nics(foreign(3), 2), nics(own(1), 2)}},
		"foreign ones take the room": {1, 2, []modelPod{foreign(5), foreign(6), own(4)}},
	} {
		reports := 1
		if *depth >= 2 {
			reports = 2
		}
		if c.depth > *depth {
			continue
		}
		t.Run(name, func(t *testing.T) { t.Logf("%d states", explore(t, begin(t, c.pods, reports))) })
		if c.narrow <= *depth {
			t.Run(name+" few followed", func(t *testing.T) {
				followFew(t)
				t.Logf("%d states", explore(t, begin(t, c.pods, reports)))
			})
		}
	}
}

// A node that lists the pods of another one does not change what is known of that one, in whatever order things
// happen: all that holds without the lie holds with it.
func TestEveryInterleavingBesideALie(t *testing.T) {
	m := begin(t, []modelPod{{pod: pod(6, 1), ends: true}, {pod: pod(6, 1)}}, 1)
	m.lies = 1
	t.Logf("%d states", explore(t, m))
}

// begin returns the first state of a model.
func begin(t *testing.T, pods []modelPod, reports int) *model {
	l := smallLayout(t)
	m := &model{book: New(), answered: map[string]bool{}, pods: pods, empty: l, told: &l, reports: reports, restarts: 1,
		node: &node{usage: place.NewUsage(l.Machine, l.Rules)}}
	m.book.Report("n", l)
	return m
}

// followFew lowers the bounds until the test ends.
func followFew(t *testing.T) {
	worlds, steps, options := maxWorlds, maxSteps, maxOptions
	t.Cleanup(func() { maxWorlds, maxSteps, maxOptions = worlds, steps, options })
	maxWorlds, maxSteps, maxOptions = 2, 6, 2
}

// explore follows every move from every state once, and returns their number.
func explore(t *testing.T, start *model) int {
	seen := map[string]bool{start.key(): true}
	for todo := []*model{start}; len(todo) > 0; {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		m.check(t)
		for _, n := range m.moves(t) {
			if k := n.key(); !seen[k] {
				seen[k] = true
				todo = append(todo, n)
			}
		}
	}
	return len(seen)
}

// smallLayout is of a node of two numas with six CPUs each for pods.
func smallLayout(t *testing.T) Layout {
	m, err := topo.ParseMachine("numa 0 cpus 0-6 memory 32Gi\nnuma 1 socket 1 cpus 7-13 memory 32Gi\n" +
		"device nic a0,a1,a2 numa 0\ndevice nic b0,b1,b2 numa 1")
	if err != nil {
		t.Fatal(err)
	}
	return Layout{Machine: m, Rules: place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 7)}}}
}
