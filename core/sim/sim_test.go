package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// pair is a machine of two NUMA nodes with 8 CPUs and 2 GPUs for pods on each.
const pair = `
numa 0 socket 0 cpus 0-8 memory 33Gi
numa 1 socket 1 cpus 9-16 memory 32Gi
distances 10 20
distances 20 10
device acme.com/gpu g0,g1 numa 0
device acme.com/gpu g2,g3 numa 1
`

const strict = "rules topology=single-numa-node cpu=static reserved=0 memory=Static reserve=0:memory:1Gi\n"

const wide = "rules topology=restricted cpu=static reserved=0 memory=Static reserve=0:memory:1Gi\n"

const shapes = `
shape small : main cpu=2 memory=4Gi
shape card : main cpu=2 memory=4Gi acme.com/gpu=1
shape numa : main cpu=8 memory=32Gi acme.com/gpu=2
shape node : main cpu=16 memory=64Gi acme.com/gpu=4
shape plain burstable : main cpu=500m memory=1Gi
`

func trace(t testing.TB, text string) *Trace {
	t.Helper()
	s, err := Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Trace(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func contender(t testing.TB, name string) Contender {
	t.Helper()
	for _, c := range Contenders() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no contender %q", name)
	return Contender{}
}

func tally(t testing.TB, tr *Trace, name string, o Options) Tally {
	t.Helper()
	out, err := Run(tr, contender(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The results for a few pods can be computed by hand.
func TestAFewPods(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+strict+shapes+`
pod 0  100 numa 2     # one NUMA node each
pod 10 50  small      # waits until both are gone, at 100, then runs until 150
pod 20 50  card 2     # the same
pod 30 1   node       # never fits on one numa
pod 40 60  plain      # fits beside anything? no CPU is left: waits until 100
`)
	got := tally(t, tr, "Tenon", Options{Seed: 1})
	want := Tally{Pods: 7, First: 2, Placed: 6, AtOnce: 2, Wait: 90 + 80 + 80 + 60 + (160 - 30), Longest: 160 - 30,
		OnNUMAs: 5, NUMAs: 5, Distance: 5000}
	got.Capacity, got.Given, got.Stranded, got.Wanted, got.Seconds = 0, 0, 0, 0, 0
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// One pod does not fit on one NUMA node, although the whole node has room. A contender without NUMA information sends
// it there again and again.
func TestSchedulingWithoutNUMAInformationIsRefused(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+strict+
		"shape six : main cpu=6 memory=1Gi\nshape four : main cpu=4 memory=1Gi\n"+
		"pod 0 1000 six 2\npod 5 100 four\n")
	sees, blind := tally(t, tr, "Tenon", Options{}), tally(t, tr, KubeLeast, Options{})
	if sees.Refused != 0 || sees.Wait != 995 {
		t.Errorf("Tenon: %+v, want the third pod to wait 995 s", sees)
	}
	// The pod returns at 5, 6, 8, 12, 20, 36, 68, 132, 260, 516, 772 and then at 1028.
	if blind.Refused != 11 || blind.Wait != 1028-5 || blind.Placed != 3 {
		t.Errorf("blind: %+v, want 11 refusals and the node at second 1028", blind)
	}
}

// A run in which a pod is refused for ever ends, and says so.
func TestARunOfRefusalsIsStopped(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+strict+
		"shape six : main cpu=6 memory=1Gi\nshape four : main cpu=4 memory=1Gi\n"+
		"pod 0 900000000 six 2\npod 5 100 four\n")
	got := tally(t, tr, KubeMost, Options{})
	if !got.Stopped || got.Refused != MaxRefused || got.Placed != 2 {
		t.Errorf("%+v, want a run that was stopped after %d refusals", got, MaxRefused)
	}
	if sees := tally(t, tr, Tenon, Options{}); sees.Stopped || sees.Placed != 3 {
		t.Errorf("Tenon: %+v, want all pods placed", sees)
	}
}

// With the score MostAllocated kube-scheduler takes the fullest node with room, with LeastAllocated the emptiest.
func TestKubeSchedulerPacksOrSpreads(t *testing.T) {
	tr := trace(t, "machines pair 2\n"+pair+strict+"shape two : main cpu=2 memory=1Gi\npod 0 100 two\npod 5 100 two\n")
	for name, want := range map[string]int{KubeLeast: 2, KubeMost: 1} {
		r := newReplay(tr, contender(t, name), Options{Stay: true})
		if err := r.run(); err != nil {
			t.Fatal(err)
		}
		used := map[int]bool{}
		for _, p := range r.pods {
			used[p.node] = true
		}
		if len(used) != want || used[-1] {
			t.Errorf("%s: two pods are on nodes %v, want %d nodes", name, used, want)
		}
	}
}

// Two pods of one NUMA node each fill the node. The contender that charges each to both NUMA nodes sends the second
// only after the node has reported where the first is.
func TestChargingEveryNUMAStrandsTheOther(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+strict+shapes+"pod 0 1000 numa 2\n")
	if got := tally(t, tr, "Tenon", Options{}); got.AtOnce != 2 {
		t.Errorf("Tenon: %+v, want both placed at once", got)
	}
	got := tally(t, tr, Match, Options{})
	if got.AtOnce != 1 || got.Placed != 2 || got.Longest != ReportSeconds || got.Refused != 0 {
		t.Errorf("charge every NUMA node: %+v, want the second placed with the report at %d s", got, ReportSeconds)
	}
}

// A departure does not count before the next report either, although the amounts of the whole node are current.
func TestChargingEveryNUMAReleasesDeparturesLate(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+strict+shapes+"pod 0 10 numa\npod 20 10 numa\n")
	got := tally(t, tr, Match, Options{})
	if got.AtOnce != 1 || got.Longest != ReportSeconds-20 {
		t.Errorf("%+v, want the second pod to wait for the report at %d s", got, ReportSeconds)
	}
}

// Under other policies than single-numa-node, that filter passes every pod.
func TestChargingEveryNUMAIgnoresRestricted(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+wide+"shape six : main cpu=6 memory=1Gi\nshape four : main cpu=4 memory=1Gi\n"+
		"pod 0 100 six 2\npod 5 100 four\n")
	if got := tally(t, tr, Match, Options{}); got.Refused == 0 {
		t.Errorf("%+v, want refusals", got)
	}
}

// drawTrace makes a trace of a few machines with pods that sometimes have to wait.
func drawTrace(t *rapid.T) *Trace {
	rules := rapid.SampledFrom([]string{strict, wide}).Draw(t, "rules")
	var b strings.Builder
	fmt.Fprintf(&b, "machines pair %d\n%s%s%s", rapid.IntRange(1, 3).Draw(t, "machines"), pair, rules, shapes)
	at := 0
	for range rapid.IntRange(1, 40).Draw(t, "pods") {
		at += rapid.IntRange(0, 20).Draw(t, "gap")
		fmt.Fprintf(&b, "pod %d %d %s\n", at, rapid.IntRange(1, 200).Draw(t, "for"),
			rapid.SampledFrom([]string{"small", "card", "numa", "node", "plain"}).Draw(t, "shape"))
	}
	s, err := Parse("drawn", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Trace(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// For every contender: nothing is held twice, no pod is lost, and everything is free when all pods have departed.
func TestNothingIsHeldTwiceAndNoPodIsLost(t *testing.T) {
	for _, c := range Contenders() {
		t.Run(c.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				tr := drawTrace(t)
				r := newReplay(tr, c, Options{Seed: rapid.Uint64().Draw(t, "seed")})
				r.hook = func(r *replay) {
					checkNodes(t, r.cluster)
					checkPods(t, r)
				}
				if err := r.run(); err != nil {
					t.Fatal(err)
				}
				for n := range r.cluster.nodes {
					if len(r.cluster.nodes[n].pods) > 0 {
						t.Fatalf("node %d still has pods", n)
					}
				}
				empty := newCluster(tr)
				if len(r.cluster.live) != 1 || r.cluster.live[0].key != empty.live[0].key {
					t.Fatalf("the machines are not empty at the end: %q", r.cluster.live[0].key)
				}
				got := r.finish()
				if got.Given != 0 || got.Placed > got.Pods || got.AtOnce > got.Placed || got.First > got.AtOnce {
					t.Fatalf("%+v", got)
				}
			})
		})
	}
}

func checkNodes(t *rapid.T, c *cluster) {
	inStates := 0
	for _, s := range c.live {
		inStates += len(s.nodes)
	}
	if inStates != len(c.nodes) {
		t.Fatalf("%d nodes in states, there are %d", inStates, len(c.nodes))
	}
	for n := range c.nodes {
		nd := &c.nodes[n]
		m := nd.state.usage.Machine
		var cpus idset.Set[idset.CPU]
		devices, memory, asked := map[string]bool{}, int64(0), make(amounts, len(c.names))
		for _, p := range nd.pods {
			for r, x := range c.requests[p.shape] {
				asked[r] += x
			}
			for _, h := range p.holdings {
				if cpus.AndLen(h.CPUs) > 0 || nd.state.usage.FreeCPUs().AndLen(h.CPUs) > 0 {
					t.Fatalf("node %d: CPUs %s are held twice, or free", n, h.CPUs)
				}
				cpus = cpus.Union(h.CPUs)
				memory += bytes(h)
				for _, d := range h.Devices {
					for _, id := range d.IDs {
						if devices[id] {
							t.Fatalf("node %d: device %s is held twice", n, id)
						}
						devices[id] = true
					}
				}
			}
		}
		if memory > 64<<30 || cpus.Len() > m.CPUs().Len()-1 ||
			!hasRoom(c.fleets[nd.fleet], make(amounts, len(c.names)), asked) {
			t.Fatalf("node %d: %d bytes and CPUs %s are held, %v are asked for of %v", n, memory, cpus, asked,
				c.fleets[nd.fleet])
		}
	}
}

func bytes(h place.Holding) (sum int64) {
	for _, b := range h.Memory {
		sum += b.Bytes
	}
	return sum
}

// checkPods counts every pod that arrived at its present place.
func checkPods(t *rapid.T, r *replay) {
	where := make([]int, len(r.pods))
	for n := range r.cluster.nodes {
		for _, p := range r.cluster.nodes[n].pods {
			where[p.pod]++
		}
	}
	for _, q := range r.queues {
		for _, w := range q {
			where[w.pod]++
		}
	}
	for i := range r.tally.Pods {
		if r.pods[i].away {
			where[i]++
		}
		if r.pods[i].ended {
			where[i]++
		}
		if where[i] != 1 {
			t.Fatalf("pod %d of %d is at %d places", i, r.tally.Pods, where[i])
		}
	}
}

// The same trace, contender and seed give the same numbers.
func TestRunsRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrace(t)
		c := rapid.SampledFrom(Contenders()).Draw(t, "contender")
		o := Options{Seed: rapid.Uint64().Draw(t, "seed"), Stay: rapid.Bool().Draw(t, "stay")}
		a, err := Run(tr, c, o)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := Run(tr, c, o); a != b {
			t.Fatalf("%+v, and then %+v", a, b)
		}
	})
}

// The answer of a state is that of place on the node, for any history.
func TestStatesAgreeWithNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrace(t)
		r := newReplay(tr, rapid.SampledFrom(Contenders()).Draw(t, "contender"), Options{Seed: 1})
		r.hook = func(r *replay) {
			for n := range r.cluster.nodes {
				nd := &r.cluster.nodes[n]
				var all []place.Holding
				for _, p := range nd.pods {
					all = append(all, p.holdings...)
				}
				u := place.NewUsage(tr.Fleets[0].Machine, tr.Fleets[0].Rules).Hold(all...)
				for s := range tr.Shapes {
					v := place.Place(u, &tr.Shapes[s].Pod)
					a := r.cluster.answer(nd.state, s)
					room := hasRoom(r.cluster.fleets[0], nd.state.asked, r.cluster.requests[s])
					if want := v.Fits() && room; a.fits != want {
						t.Fatalf("node %d answers %v to shape %d, place %v", n, a.fits, s, want)
					}
				}
			}
		}
		if err := r.run(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestProgressCanEndARun(t *testing.T) {
	stop := errors.New("enough")
	tr := trace(t, "machines pair 1\n"+pair+strict+shapes+"pod 0 10 small 2000\n")
	_, err := Run(tr, contender(t, "Tenon"), Options{Progress: func(done, of int) error {
		if of != 2000 {
			t.Errorf("%d pods, want 2000", of)
		}
		if done > 500 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) {
		t.Errorf("error %v, want %v", err, stop)
	}
}

// Where nearly all is in use, moves shorten the waits, and no kubelet refuses a pod that was moved.
func TestMovesShortenWaits(t *testing.T) {
	s := script(t, "gpu")
	out, err := Compare(s, Settings{Machines: 100, Seed: 1, Runs: 8, Moves: 10, Load: 95,
		Only: []string{Tenon, TenonMoves}})
	if err != nil {
		t.Fatal(err)
	}
	without, with := out.Columns[0].Churn, out.Columns[1].Churn
	if with.Moved == 0 || with.Wait >= without.Wait || without.Moved != 0 || with.Refused != 0 ||
		with.Placed != without.Placed {
		t.Errorf("without moves %+v\nwith %+v", without, with)
	}
	for _, wrong := range []Settings{{Runs: 1, Load: -1}, {Runs: 1, Load: MaxLoad + 1}, {Runs: 1, Moves: MaxMoves + 1,
		Only: []string{TenonMoves}}} {
		if _, err := Compare(s, wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}
