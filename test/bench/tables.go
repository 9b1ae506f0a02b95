package main

import (
	"fmt"
	"runtime"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// result has the nanoseconds of one answer: of the plain loop, of a query with a prepared question (again), of a query
// without one (once), and of a verdict.
type result struct {
	policy, request    string
	numas              int
	plain, again, once float64
	verdict            float64
	fits               int // in how many of all states the pod fits
}

var policies = [...]place.Policy{place.None, place.SingleNUMA, place.Restricted, place.BestEffort}

// oneNode measures answers about one node of 8 NUMA nodes and 256 CPUs.
func oneNode(rounds int) (out []result, err error) {
	s, err := spec(8, 32)
	if err != nil {
		return nil, err
	}
	m, err := topo.New(s)
	if err != nil {
		return nil, err
	}
	for _, policy := range policies {
		us := fill(m, rules(policy))
		for _, x := range []struct {
			request string
			pod     *place.Pod
		}{
			{"CPUs, memory", pod(8, 8, 0, 0)},
			{"CPUs, memory, hugepages, GPU", pod(8, 8, 1, 1)},
			{"the same in two containers", withSecondContainer(pod(8, 8, 1, 1))},
			{"more CPUs than a NUMA node has", pod(40, 8, 0, 0)},
			{"more GPUs than a NUMA node has", pod(8, 8, 0, 3)},
		} {
			out = append(out, measureAll(rounds, us, policy.String(), x.request, x.pod))
		}
	}
	return out, nil
}

func measureAll(rounds int, us []*place.Usage, policy, request string, p *place.Pod) result {
	ns := compare(rounds, subjectsOf(us, p))
	r := result{policy: policy, request: request, numas: len(us[0].Machine.NUMAs()), plain: ns[0], again: ns[1],
		once: ns[2], verdict: ns[3]}
	for _, u := range us {
		if place.Fits(u, p) {
			r.fits++
		}
	}
	return r
}

// measureGrowth measures only the plain loop and the prepared question, because the table of growth shows nothing
// else.
func measureGrowth(rounds int, us []*place.Usage, policy, request string, p *place.Pod) result {
	ns := compare(rounds, subjectsOf(us, p)[:2])
	return result{policy: policy, request: request, numas: len(us[0].Machine.NUMAs()), plain: ns[0], again: ns[1]}
}

// growth measures answers on machines with 2, 4, 8 and 16 equal NUMA nodes, for each policy and request. The four
// results of a policy and request follow each other. After them, one result is for a machine of 36 NUMA nodes.
func growth(rounds int) (out []result, err error) {
	for _, policy := range policies[1:] {
		var all [][]*place.Usage
		for _, n := range []int{2, 4, 8, 16} {
			s, err := spec(n, 16)
			if err != nil {
				return nil, err
			}
			m, err := topo.New(s)
			if err != nil {
				return nil, err
			}
			all = append(all, fill(m, rules(policy)))
		}
		for _, us := range all {
			out = append(out, measureGrowth(rounds, us, policy.String(), "one NUMA node", pod(8, 8, 1, 1)))
		}
		for _, us := range all {
			if policy != place.SingleNUMA {
				out = append(out, measureGrowth(rounds, us, policy.String(), "two NUMA nodes", pod(24, 80, 9, 3)))
			}
		}
		m, err := superchip()
		if err != nil {
			return nil, err
		}
		r := rules(policy)
		r.Memory.Static = false
		out = append(out, measureAll(rounds, fill(m, r), policy.String(), "36 NUMA nodes, two with CPUs",
			pod(8, 8, 0, 1)))
	}
	return out, nil
}

// pass has the microseconds of one pass over all nodes of a cluster.
type pass struct {
	nodes                  int
	plain, nodewise, first float64
	// The passes of one index again, after no node, one node, and one node in a hundred has changed.
	unchanged, oneChanged, someChanged float64
}

// cluster returns a ledger of equal machines from empty to full, and the input of the plain loop for each node.
func cluster(nodes int) (*ledger.Book, []free, error) {
	s, err := spec(8, 32)
	if err != nil {
		return nil, nil, err
	}
	var pool topo.Pool
	m, err := pool.New(s)
	if err != nil {
		return nil, nil, err
	}
	layouts, err := layouts(m)
	if err != nil {
		return nil, nil, err
	}
	b := ledger.New()
	have := make([]free, nodes)
	for i := range nodes {
		b.Report(nodeName(i), copyFor(layouts[i%len(layouts)], i))
	}
	for i := range nodes {
		have[i] = freeOf(b.Snapshot().Node(nodeName(i)).Usage)
	}
	return b, have, nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// layouts returns layouts of a machine with more and more pods, up to full.
func layouts(m *topo.Machine) (out []state.Layout, err error) {
	l := state.Layout{Machine: m, Rules: rules(place.SingleNUMA)}
	u := place.NewUsage(m, l.Rules)
	for k := 0; ; k++ {
		out = append(out, l)
		v := place.Place(u, pod(12, 20, 0, 0))
		if !v.Fits() {
			return out, nil
		}
		u = u.Hold(v.Holdings...)
		l.Entries = append(l.Entries[:k:k], state.Entry{Pod: state.PodID{UID: fmt.Sprint(k)}, Holdings: v.Holdings})
	}
}

// copyFor returns a copy of a layout for one node, whose pods have names of their own. Copies share only the machine,
// as if the report of each node were read separately.
func copyFor(l state.Layout, node int) state.Layout {
	out := l
	out.Entries = nil
	for k, e := range l.Entries {
		id := state.PodID{UID: fmt.Sprintf("a6a6a6a6-0000-4000-%06d-%06d", node, k), Namespace: "default",
			Name: fmt.Sprintf("pod-%d-%d", node, k)}
		hs := append([]place.Holding(nil), e.Holdings...)
		for i := range hs {
			hs[i].CPUs = idset.Of(hs[i].CPUs.List()...)
			hs[i].Memory = append([]place.Block(nil), hs[i].Memory...)
		}
		out.Entries = append(out.Entries, state.Entry{Pod: id, Holdings: hs})
	}
	return out
}

// passes measures the search for the nodes where a pod fits, in clusters of 100 to at most maxNodes nodes.
func passes(maxNodes, rounds int) (out []pass, err error) {
	for _, nodes := range []int{100, 1000, 5000, 20000} {
		if nodes > maxNodes {
			break
		}
		b, have, err := cluster(nodes)
		if err != nil {
			return nil, err
		}
		out = append(out, onePass(b, have, max(1, rounds/3)))
	}
	return out, nil
}

// onePass measures the search for the nodes where one pod fits, in six ways: the plain loop, Node.Fits for every
// node, a new ledger.Index, and an index that has answered before, after no, one or some nodes have changed.
func onePass(b *ledger.Book, have []free, rounds int) pass {
	p := pod(16, 16, 0, 1)
	want, nodes, now := wantOf(p), len(have), b.Snapshot()
	index := ledger.NewIndex(p, place.Demand{})
	gone := state.PodID{UID: "on its way"}
	ask := func(x *ledger.Index, s *ledger.Snapshot) int { return x.Fitting(s).Len() }
	change := func(count int) {
		for i := range count {
			name := nodeName(i * nodes / count)
			b.Reserve(name, gone, p, place.Demand{})
			b.Unreserve(gone.UID)
		}
	}
	loop := func(name string, before func(), one func() int) subject {
		return subject{name: name, batch: 1, before: before, run: func(times int) (sum int) {
			for range times {
				sum += one()
			}
			return sum
		}}
	}
	plainly := func() (n int) {
		for i := range have {
			n += min(1, plain(have[i], &want))
		}
		return n
	}
	nodewise := func() (n int) {
		for x := range now.All() {
			if x.Fits(p) {
				n++
			}
		}
		return n
	}
	again := func() int { return ask(index, b.Snapshot()) }
	ns := compare(rounds, []subject{
		loop("plain loop", nil, plainly),
		loop("every node", nil, nodewise),
		loop("first", nil, func() int { return ask(ledger.NewIndex(p, place.Demand{}), now) }),
		loop("nothing changed", nil, again),
		loop("one changed", func() { change(1) }, again),
		loop("some changed", func() { change(max(1, nodes/100)) }, again),
	})
	for i := range ns {
		ns[i] /= 1e3
	}
	return pass{nodes: nodes, plain: ns[0], nodewise: ns[1], first: ns[2], unchanged: ns[3],
		oneChanged: ns[4], someChanged: ns[5]}
}

// footprint has sizes of a ledger with some nodes, in bytes: of a node without pods, of each pod on it, of the whole
// ledger with ten pods on each node, and of a machine, which equal nodes share.
type footprint struct {
	nodes                       int
	empty, perPod, all, machine int64
}

// memory measures the memory of a ledger. Its nodes have 8 NUMA nodes and 256 CPUs, are of ten kinds of machines, and
// are empty or half full.
func memory(nodes int) (f footprint, err error) {
	f.nodes = nodes
	s, err := spec(8, 32)
	if err != nil {
		return f, err
	}
	before := heap()
	var own []*topo.Machine
	for range 20 {
		m, err := topo.New(s)
		if err != nil {
			return f, err
		}
		own = append(own, m)
	}
	f.machine = (heap() - before) / int64(len(own))
	runtime.KeepAlive(own)
	size := func(pods, nodes int) (int64, error) {
		before := heap()
		b, err := tenKinds(pods, nodes)
		if err != nil {
			return 0, err
		}
		after := heap()
		if n := b.Snapshot().Len(); n != nodes {
			return 0, fmt.Errorf("%d nodes of %d", n, nodes)
		}
		return after - before, nil
	}
	few := min(nodes, 2000)
	empty, err := size(0, few)
	if err != nil {
		return f, err
	}
	f.empty = empty / int64(few)
	if f.all, err = size(10, nodes); err != nil {
		return f, err
	}
	f.perPod = (f.all/int64(nodes) - f.empty) / 10
	return f, nil
}

// tenKinds returns a ledger of ten kinds of machines, each with its own amount of memory, and this many pods on each
// node.
func tenKinds(pods, nodes int) (*ledger.Book, error) {
	var pool topo.Pool
	b := ledger.New()
	kinds := make([]state.Layout, 10)
	for k := range kinds {
		s, err := spec(8, 32)
		if err != nil {
			return nil, err
		}
		s.NUMAs[0].Bytes += int64(k) << 30
		m, err := pool.New(s)
		if err != nil {
			return nil, err
		}
		all, err := layouts(m)
		if err != nil {
			return nil, err
		}
		kinds[k] = all[pods]
	}
	for i := range nodes {
		b.Report(nodeName(i), copyFor(kinds[i%len(kinds)], i))
	}
	return b, nil
}
