package affinity

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
)

const mib = 1 << 20

// two is a machine of two NUMA nodes with four CPUs and 4 GiB each.
var two = []NUMA{{0, 4000, 4 << 30}, {1, 4000, 4 << 30}}

func pod(id string, at idset.NUMA, milli int64) Pod {
	return Pod{ID: id, Measured: true, MilliCPU: milli, Bytes: 64 * mib, NUMA: at}
}

// next is the input of the next period.
func next(in Input, r Result) Input {
	in.Pods = slices.Clone(in.Pods)
	for i := range in.Pods {
		for _, v := range r.Verdicts {
			if v.Pod == in.Pods[i].ID && !in.Pods[i].Exclusive {
				in.Pods[i].NUMA = v.NUMA
			}
		}
	}
	return in
}

func decide(t rapid.TB, in Input, rules Rules, w Wishes) Result {
	t.Helper()
	r, err := Decide(in, rules, w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// after returns the result of the last of some periods with the same traffic.
func after(t *testing.T, periods int, in Input) Result {
	t.Helper()
	var r Result
	for n := range periods {
		if n > 0 {
			in = next(in, r)
		}
		r = decide(t, in, Defaults(), r.Wishes)
	}
	return r
}

// text is one line for each pod.
func (r Result) text() string {
	var out strings.Builder
	for _, v := range r.Verdicts {
		fmt.Fprintf(&out, "%s %d->%d %s", v.Pod, v.From, v.NUMA, v.Outcome)
		if v.Wanted != Nowhere {
			fmt.Fprintf(&out, " wants %d", v.Wanted)
		}
		if v.Lacks != nil {
			fmt.Fprintf(&out, " (%s %d of %d)", v.Lacks.Resource, v.Lacks.Have, v.Lacks.Want)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func want(t *testing.T, r Result, lines ...string) {
	t.Helper()
	if got := strings.TrimSpace(r.text()); got != strings.Join(lines, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(lines, "\n"))
	}
}

func TestTalkersComeTogetherInTwoPeriods(t *testing.T) {
	in := Input{NUMAs: two, Pods: []Pod{pod("a", 0, 500), pod("b", 1, 500), pod("c", 1, 500)},
		Weights: []Weight{{"a", "b", 50e6}, {"b", "c", 1000}}}
	in.Pods[0].Bytes = 32 * mib // the smaller one moves
	want(t, after(t, 1, in), "a 0->0 waits wants 1", "b 1->1 together", "c 1->1 silent")
	r := after(t, 2, in)
	want(t, r, "a 0->1 moved", "b 1->1 together", "c 1->1 silent")
	if r.Before != 50e6 || r.After != 0 {
		t.Errorf("%d bytes between NUMA nodes before and %d after", r.Before, r.After)
	}
	want(t, after(t, 3, in), "a 1->1 together", "b 1->1 together", "c 1->1 silent")
}

func TestPodsOnAllNUMANodesGetOne(t *testing.T) {
	in := Input{NUMAs: two, Pods: []Pod{pod("a", Nowhere, 500), pod("b", Nowhere, 500), pod("quiet", 0, 1000)},
		Weights: []Weight{{"a", "b", 50e6}}}
	want(t, after(t, 2, in), "a -1->1 moved", "b -1->1 moved", "quiet 0->0 silent")
}

func TestLoadThatDoesNotFitStays(t *testing.T) {
	in := Input{NUMAs: two, Weights: []Weight{{"a", "b", 50e6}},
		Pods: []Pod{pod("a", 0, 500), pod("b", 1, 500), pod("x", 0, 3000), pod("y", 1, 3000)}}
	want(t, after(t, 5, in), "a 0->0 no-room wants 1 (cpu 100 of 500)", "b 1->1 no-room wants 0 (cpu 100 of 500)",
		"x 0->0 silent", "y 1->1 silent")
}

func TestABurstMovesNothing(t *testing.T) {
	in := Input{NUMAs: two, Pods: []Pod{pod("a", 0, 500), pod("b", 1, 500)}}
	var wishes Wishes
	for n := range 20 {
		in.Weights = nil
		if n%2 == 0 {
			in.Weights = []Weight{{"a", "b", 900e6}}
		}
		r := decide(t, in, Defaults(), wishes)
		if wishes = r.Wishes; r.Verdicts[0].NUMA != 0 || r.Verdicts[1].NUMA != 1 {
			t.Fatalf("period %d: %s", n, r.text())
		}
	}
}

func TestAMoveThatPaysLittleIsNotMade(t *testing.T) {
	left, right := Pod{ID: "left", Exclusive: true, NUMA: 0}, Pod{ID: "right", Exclusive: true, NUMA: 1}
	in := Input{NUMAs: two, Pods: []Pod{pod("a", 0, 500), left, right},
		Weights: []Weight{{"a", "left", 90e6}, {"a", "right", 100e6}}}
	want(t, after(t, 4, in), "a 0->0 too-little wants 1", "left 0->0 exclusive-cpus", "right 1->1 exclusive-cpus")
	in.Weights[1].Bytes = 200e6
	want(t, after(t, 2, in), "a 0->1 moved", "left 0->0 exclusive-cpus", "right 1->1 exclusive-cpus")
}

func TestPodsFollowExclusiveOnes(t *testing.T) {
	db := Pod{ID: "db", Exclusive: true, NUMA: 1}
	in := Input{NUMAs: two, Pods: []Pod{pod("app", 0, 500), db}, Weights: []Weight{{"app", "db", 20e6}}}
	want(t, after(t, 2, in), "app 0->1 moved", "db 1->1 exclusive-cpus")
}

func TestADemandNeedsNoTraffic(t *testing.T) {
	in := Input{NUMAs: two}
	for i, at := range []idset.NUMA{0, 1, 1} {
		in.Pods = append(in.Pods, Pod{ID: string(rune('a' + i)), Group: "ns/g", MilliCPU: 100, NUMA: at})
	}
	in.Pods = append(in.Pods, Pod{ID: "other", MilliCPU: 100, NUMA: Nowhere})
	want(t, after(t, 2, in), "a 0->1 moved", "b 1->1 together", "c 1->1 together", "other -1->-1 not-opted-in")
}

func TestAPodThatOptsOutIsReleased(t *testing.T) {
	in := Input{NUMAs: two, Pods: []Pod{{ID: "a", MilliCPU: 100, NUMA: 1}}}
	want(t, after(t, 1, in), "a 1->-1 released")
}

func TestExclusivePodsThatComeTakeRoom(t *testing.T) {
	in := Input{NUMAs: []NUMA{{0, 4000, 1 << 32}, {1, 1500, 1 << 32}}, Weights: []Weight{{"a", "b", 50e6}},
		Pods: []Pod{pod("a", 1, 700), pod("b", 1, 700), pod("quiet", 1, 700)}}
	want(t, after(t, 1, in), "a 1->1 together", "b 1->1 together", "quiet 1->-1 released")
}

func TestBadInputIsRefused(t *testing.T) {
	good := Input{NUMAs: two, Pods: []Pod{pod("a", 0, 1)}}
	for name, in := range map[string]Input{
		"no NUMA node":      {Pods: good.Pods},
		"listed twice":      {NUMAs: two, Pods: []Pod{pod("a", 0, 1), pod("a", 0, 1)}},
		"out of bounds":     {NUMAs: two, Pods: []Pod{pod("a", 7, 1)}},
		"NUMA node -1 with": {NUMAs: []NUMA{{-1, 0, 0}}},
		"weight -1":         {NUMAs: two, Weights: []Weight{{"a", "b", -1}}},
		"at most 1024":      {NUMAs: two, Pods: make([]Pod, MaxPods+1)},
	} {
		if _, err := Decide(in, Defaults(), nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decide(good, Rules{}, nil); err == nil {
		t.Error("rules without values are accepted")
	}
}

// draw makes a random machine with pods that fit.
func draw(t *rapid.T) Input {
	var in Input
	ids := []idset.NUMA{0, 1, 8, 250}
	for _, id := range ids[:rapid.IntRange(1, 4).Draw(t, "numas")] {
		in.NUMAs = append(in.NUMAs, NUMA{id, rapid.Int64Range(0, 16).Draw(t, "cpus") * 1000,
			rapid.Int64Range(0, 64).Draw(t, "memory") << 30})
	}
	for i := range rapid.IntRange(0, 24).Draw(t, "pods") {
		p := Pod{ID: fmt.Sprintf("p%02d", i), MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "milli"),
			Bytes: rapid.Int64Range(0, 8<<30).Draw(t, "bytes"), NUMA: Nowhere,
			Exclusive: rapid.IntRange(0, 5).Draw(t, "exclusive") == 0, Measured: rapid.IntRange(0, 4).Draw(t, "measured") > 0,
			Group: rapid.SampledFrom([]string{"", "", "", "", "g", "h"}).Draw(t, "group")}
		if k := rapid.IntRange(-1, len(in.NUMAs)-1).Draw(t, "at"); k >= 0 {
			p.NUMA = in.NUMAs[k].ID
		}
		in.Pods = append(in.Pods, p)
	}
	for range rapid.IntRange(0, 40).Draw(t, "weights") {
		if len(in.Pods) == 0 {
			break
		}
		a := rapid.IntRange(0, len(in.Pods)-1).Draw(t, "a")
		b := rapid.IntRange(0, len(in.Pods)-1).Draw(t, "b")
		in.Weights = append(in.Weights, Weight{in.Pods[a].ID, in.Pods[b].ID, rapid.Int64Range(0, 1e9).Draw(t, "rate")})
	}
	return in
}

// exceeded returns the first NUMA node on which pods request more than there is, or "".
func exceeded(in Input, r Result) string {
	for _, n := range in.NUMAs {
		var milli, bytes int64
		for i, p := range in.Pods {
			if v := r.Verdicts[i]; !p.Exclusive && v.NUMA == n.ID {
				milli, bytes = milli+p.MilliCPU, bytes+p.Bytes
			}
		}
		if milli > n.MilliCPU || bytes > n.Bytes {
			return fmt.Sprintf("NUMA node %d has %d milli-CPU and %d bytes, its pods request %d and %d", n.ID, n.MilliCPU,
				n.Bytes, milli, bytes)
		}
	}
	return ""
}

func TestDecisionsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		rules := Defaults()
		rules.Periods = rapid.IntRange(1, 3).Draw(t, "periods")
		var wishes Wishes
		for period := range 8 {
			r, err := Decide(in, rules, wishes)
			if err != nil {
				t.Fatal(err)
			}
			if why := exceeded(in, r); why != "" {
				t.Fatalf("period %d: %s", period, why)
			}
			for i, v := range r.Verdicts {
				p := &in.Pods[i]
				if v.NUMA == p.NUMA {
					continue
				}
				if p.Exclusive || !p.optedIn() && v.NUMA != Nowhere || v.Outcome != Moved && v.Outcome != Released ||
					v.Outcome == Moved && v.Bytes == 0 && p.Group == "" {
					t.Fatalf("period %d: %+v moves: %+v", period, *p, v)
				}
				if period > rules.Periods+1 {
					t.Fatalf("period %d: pod %s still moves: %s", period, p.ID, r.text())
				}
			}
			if moves := slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Outcome == Moved }); moves &&
				len(groupsOf(in)) == 0 && r.After >= r.Before && period > 0 {
				t.Fatalf("period %d: moves leave %d of %d bytes between NUMA nodes", period, r.After, r.Before)
			}
			in, wishes = next(in, r), r.Wishes
		}
	})
}

func groupsOf(in Input) (out []string) {
	for _, p := range in.Pods {
		if p.Group != "" {
			out = append(out, p.Group)
		}
	}
	return out
}

func TestTheOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		first := decide(t, in, Defaults(), nil)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(in.Pods), func(i, j int) { in.Pods[i], in.Pods[j] = in.Pods[j], in.Pods[i] })
		r.Shuffle(len(in.Weights), func(i, j int) { in.Weights[i], in.Weights[j] = in.Weights[j], in.Weights[i] })
		r.Shuffle(len(in.NUMAs), func(i, j int) { in.NUMAs[i], in.NUMAs[j] = in.NUMAs[j], in.NUMAs[i] })
		if second := decide(t, in, Defaults(), nil); !reflect.DeepEqual(first, second) {
			t.Fatalf("in another order:\n%s\nfirst:\n%s", second.text(), first.text())
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	in := Input{NUMAs: []NUMA{{0, 64000, 1 << 38}, {1, 64000, 1 << 38}, {2, 64000, 1 << 38}, {3, 64000, 1 << 38}}}
	for i := range 200 {
		in.Pods = append(in.Pods, pod(fmt.Sprintf("p%03d", i), idset.NUMA(r.IntN(4)), 500))
	}
	for range 2000 {
		in.Weights = append(in.Weights, Weight{in.Pods[r.IntN(200)].ID, in.Pods[r.IntN(200)].ID, r.Int64N(1e9)})
	}
	for b.Loop() {
		decide(b, in, Defaults(), nil)
	}
}
