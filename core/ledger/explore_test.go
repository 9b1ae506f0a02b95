package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// depth selects the cases to explore. 0: those that take seconds, also under the race detector; 1: nearly all cases
// with one report, in a few minutes; 2: all of them, with two reports; 3: also nodes that choose the devices that
// place predicts.
var depth = flag.Int("model.depth", 0, "0 to 3: how many interleavings are followed")

func TestEveryInterleaving(t *testing.T) {
	own := func(cpus int64) modelPod { return modelPod{pod: pod(cpus, 1)} }
	foreign := func(cpus int64) modelPod { return modelPod{pod: pod(cpus, 1), foreign: true} }
	created := func(second int64, p modelPod) modelPod { p.created = second; return p }
	ends := func(p modelPod) modelPod { p.ends = true; return p }
	keeps := func(p modelPod) modelPod { p.keeps = true; return p }
	nics := func(p modelPod, n int64) modelPod {
		p.pod = withNICs(p.pod, n)
		return p
	}
	for name, c := range map[string]struct {
		depth int // depth from which on the case is explored
		// narrow is the depth from which on the case is also explored with low bounds.
		narrow int
		pods   []modelPod
	}{
		"three shapes":               {1, 2, []modelPod{own(2), own(3), own(4)}},
		"two of a shape":             {1, 2, []modelPod{own(2), own(2), own(3)}},
		"two of a shape, one ends":   {1, 1, []modelPod{ends(own(3)), own(3), own(4)}},
		"all of a shape, two end":    {1, 1, []modelPod{ends(own(4)), ends(own(4)), own(4)}},
		"one ends, another waits":    {0, 0, []modelPod{ends(own(6)), own(6), own(4)}},
		"three of three seconds":     {0, 1, []modelPod{created(1, own(2)), created(2, own(3)), created(3, own(4))}},
		"the last is the oldest":     {1, 2, []modelPod{created(2, own(2)), created(3, own(3)), created(1, own(4))}},
		"a second between a shape":   {1, 1, []modelPod{created(1, own(3)), created(3, own(4)), created(2, own(3))}},
		"older ones, one ends":       {1, 2, []modelPod{ends(created(1, own(5))), created(2, own(4)), created(3, own(5))}},
		"a foreign one is older":     {1, 2, []modelPod{created(2, own(2)), created(1, foreign(3)), created(3, own(4))}},
		"a foreign one of a shape":   {1, 1, []modelPod{created(1, own(3)), created(2, own(4)), created(1, foreign(4))}},
		"one is foreign":             {1, 2, []modelPod{own(2), foreign(3), own(4)}},
		"a foreign one ends":         {1, 1, []modelPod{own(3), ends(foreign(4)), own(5)}},
		"two are foreign":            {1, 2, []modelPod{foreign(2), foreign(3), own(4)}},
		"devices of three shapes":    {0, 2, []modelPod{nics(own(2), 1), nics(own(3), 1), nics(own(1), 2)}},
		"devices of one shape":       {2, 2, []modelPod{ends(nics(own(2), 1)), nics(own(2), 1), nics(own(3), 2)}},
		"one with devices ends":      {2, 2, []modelPod{ends(nics(own(2), 2)), nics(own(3), 2), nics(own(1), 1)}},
		"a foreign one has devices":  {1, 2, []modelPod{nics(own(2), 1), nics(foreign(3), 2), nics(own(1), 2)}},
		"one of two keeps its place": {0, 0, []modelPod{own(5), keeps(own(3))}},
		"beside a foreign one":       {0, 0, []modelPod{foreign(5), keeps(own(3))}},
		"one of a shape keeps":       {0, 0, []modelPod{keeps(own(4)), own(4)}},
		"one keeps its place":        {1, 2, []modelPod{own(5), keeps(own(3)), own(2)}},
		"a shape keeps places":       {1, 2, []modelPod{keeps(own(4)), keeps(own(4)), own(2)}},
		"one keeps, another ends":    {1, 2, []modelPod{ends(own(4)), keeps(own(3)), own(4)}},
		"two keep their places":      {2, 2, []modelPod{keeps(own(3)), own(4), keeps(own(2))}},
		"foreign ones take the room": {1, 2, []modelPod{foreign(5), foreign(6), own(4)}},
	} {
		reports := 1
		if *depth >= 2 {
			reports = 2
		}
		if c.depth > *depth {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(t, begin(t, c.pods, reports))
		})
		if c.narrow <= *depth {
			t.Run(name+" few followed", func(t *testing.T) {
				t.Parallel()
				m := begin(t, c.pods, reports)
				few := limits{states: 2, steps: 6, options: 2}
				m.book.limits, m.book.nodes["n"].limits = few, few
				explore(t, m)
			})
		}
	}
}

// If a node lists the pods of another one, that has no effect on the other node in any order of events: all checks
// hold as without the lie.
func TestEveryInterleavingBesideALie(t *testing.T) {
	m := begin(t, []modelPod{{pod: pod(6, 1), ends: true}, {pod: pod(6, 1)}}, 1)
	m.lies = 1
	explore(t, m)
}

// The report of the node is deleted at any moment, and the node writes another one. No prediction is wrong because of
// it, and what the book then has is what the node has.
func TestEveryInterleavingWithALostReport(t *testing.T) {
	for name, pods := range map[string][]modelPod{
		"one ends":         {{pod: pod(4, 1), ends: true}, {pod: pod(6, 1)}},
		"two of a shape":   {{pod: pod(4, 1), ends: true}, {pod: pod(4, 1)}, {pod: pod(3, 1)}},
		"a foreign one":    {{pod: pod(4, 1), ends: true, foreign: true}, {pod: pod(5, 1)}},
		"one with devices": {{pod: withNICs(pod(4, 1), 1), ends: true}, {pod: withNICs(pod(6, 1), 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := begin(t, pods, 4-len(pods))
			m.losses, m.restarts = 1, 0
			explore(t, m)
		})
	}
}

// withNICs returns the pod with devices.
func withNICs(p *place.Pod, n int64) *place.Pod {
	p.Containers[0].Devices = []place.Count{{Resource: "nic", N: n}}
	return p
}

// begin returns the first state of a model.
func begin(t *testing.T, pods []modelPod, reports int) *model {
	return beginOn(smallLayout(t), pods, reports)
}

// beginOn is begin on a node.
func beginOn(l state.Layout, pods []modelPod, reports int) *model {
	m := &model{book: New(), answered: map[string]bool{}, restarted: map[digest]bool{}, pods: pods, empty: l,
		lastReport: &l, reports: reports, restarts: 1, node: &node{usage: place.NewUsage(l.Machine, l.Rules)}}
	m.cpus, m.nics = m.node.usage.FreeCPUs().Len(), len(m.node.usage.FreeDevices("nic"))
	m.book.Report("n", l)
	return m
}

// digest stands for a state.
type digest = [sha256.Size]byte

// firstRestart reports whether the scheduler has not been restarted in this state yet. A restart loses the book's
// memory, so states that differ only in that become one.
func (m *model) firstRestart() bool {
	key := sha256.Sum256(m.protocol(nil))
	again := m.restarted[key]
	m.restarted[key] = true
	return !again
}

// explore follows every move from every state once.
func explore(t *testing.T, start *model) {
	var whole []byte
	seen, protocol := map[digest]bool{}, map[digest]bool{}
	note := func(m *model) (fresh bool) {
		whole = m.protocol(whole[:0])
		protocol[sha256.Sum256(whole)] = true
		key := sha256.Sum256(m.beliefs(whole))
		fresh, seen[key] = !seen[key], true
		return fresh
	}
	note(start)
	for todo := []*model{start}; len(todo) > 0; {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		m.check(t)
		for _, n := range m.moves(t) {
			if note(n) {
				todo = append(todo, n)
			}
		}
	}
	t.Logf("%d states, %d of them differ outside the book", len(seen), len(protocol))
}

// protocol appends a text that is equal for states that differ at most in the book.
func (m *model) protocol(b []byte) []byte {
	for _, p := range m.pods {
		b = append(b, byte(p.at), byte(p.said), bit(p.known)|bit(p.refused)<<1|bit(p.clear)<<2|bit(p.steady)<<3,
			byte(p.kept))
	}
	for _, e := range m.log[m.seen:] {
		b = append(b, byte(e.pod), byte(e.what))
	}
	b = append(b, ';')
	for _, pod := range m.bindings() {
		b = append(b, byte(pod))
	}
	b = append(b, ';', byte(m.reports), byte(m.restarts), byte(m.lies), byte(m.losses))
	b = encode(b, m.node.entries)
	for _, l := range m.taken {
		b = encode(b, l.Entries)
	}
	if m.lastReport != nil {
		b = append(encode(b, m.lastReport.Entries), '!')
	}
	return b
}

// beliefs appends the information in the book. States that are equal in this and in protocol have the same
// successors.
func (m *model) beliefs(b []byte) []byte { return beliefsOf(b, m.book.nodes["n"]) }

// beliefsOf appends the information in an account, which may be nil.
func beliefsOf(b []byte, a *account) []byte {
	if a == nil {
		return append(b, '-') // nothing is known of the node
	}
	b = append(b, bit(a.layout != nil))
	var moments []int
	for _, f := range a.assumed {
		moments = append(moments, f.turned, f.acked, f.after)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	rank := func(at int) byte { return byte(slices.Index(moments, at)) }
	for _, f := range a.assumed {
		b = append(b, f.id.UID...)
		b = append(b, rank(f.turned), rank(f.acked), rank(f.after),
			bit(f.turned != 0)|bit(f.acked != 0)<<1|bit(f.uncertain)<<2|bit(f.bound)<<3, byte(f.kept))
		for _, o := range f.options.known {
			b = hold(b, o)
		}
		b = append(b, bit(f.options.more), '/')
	}
	for _, set := range []map[string]bool{a.ended, a.doubts} {
		for _, uid := range slices.Sorted(maps.Keys(set)) {
			b = append(append(b, uid...), bit(set[uid]))
		}
		b = append(b, ';')
	}
	for _, uid := range a.endedEarly {
		b = append(b, uid...)
	}
	return append(b, byte(len(a.refused)))
}

func encode(b []byte, entries []state.Entry) []byte {
	for _, e := range entries {
		b = hold(append(append(b, '|'), e.Pod.UID...), e.Holdings)
	}
	return append(b, '/')
}

// hold appends holdings of one container. The text is equal if holdings differ at most in which devices of the same
// NUMA node are chosen: the first letter of a device names its NUMA node.
func hold(b []byte, hs []place.Holding) []byte {
	for _, h := range hs {
		var cpus uint64
		for c := range h.CPUs.All() {
			cpus |= 1 << uint(c)
		}
		b = binary.LittleEndian.AppendUint64(b, cpus)
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				if b = append(b, id[0]); !d.Free {
					b = append(b, id[1:]...)
				}
			}
		}
	}
	return append(b, ';')
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// smallLayout is the layout of a node of two NUMA nodes with six CPUs each for pods.
func smallLayout(t *testing.T) state.Layout {
	m, err := topo.ParseMachine("numa 0 cpus 0-6 memory 32Gi\nnuma 1 socket 1 cpus 7-13 memory 32Gi\n" +
		"device nic a0,a1,a2 numa 0\ndevice nic b0,b1,b2 numa 1")
	if err != nil {
		t.Fatal(err)
	}
	return state.Layout{Machine: m, Rules: place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 7)}}}
}
