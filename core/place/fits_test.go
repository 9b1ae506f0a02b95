package place_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// unequalMachine has sockets and cores of unequal sizes; the kubelet gives out more CPUs than are free there.
func unequalMachine(t *rapid.T) *topo.Machine {
	var b strings.Builder
	next := 0
	for i := range rapid.IntRange(1, 4).Draw(t, "numas") {
		cores := rapid.IntRange(1, 5).Draw(t, "cores")
		var lanes []string
		for range rapid.IntRange(1, 2).Draw(t, "threads") {
			lanes = append(lanes, fmt.Sprintf("%d-%d", next, next+cores-1))
			next += cores
		}
		fmt.Fprintf(&b, "numa %d socket %d cpus %s memory 12Gi hugepages-1Gi %d\n",
			i, rapid.IntRange(0, 1).Draw(t, "socket"), strings.Join(lanes, "/"), i%3)
	}
	b.WriteString("device acme.com/gpu d0,d1 numa 0\ndevice acme.com/nic d0 numa none\n")
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return m
}

// Fits agrees with Place on any machine in any state.
func TestFitsAgreesWithPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.OneOf(rapid.Custom(drawnMachine), rapid.Custom(unequalMachine)).Draw(t, "machine")
		u := place.NewUsage(m, drawnRules(t, m))
		for range rapid.IntRange(1, 12).Draw(t, "pods") {
			p := drawnPod(t)
			before := pictureOf(u)
			q := place.NewQuestion(p)
			fits, v := place.Fits(u, p), place.Place(u, p)
			if fits != v.Fits() || q.Fits(u.Empty()) != place.Place(u.Empty(), p).Fits() || q.Fits(u) != v.Fits() {
				t.Fatalf("Fits says %v, Place says %q %v %v\nof pod %+v", fits, v.Refusal, v.Reasons, v.Holdings, p)
			}
			if after := pictureOf(u); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Fatalf("Fits changed the usage from %+v to %+v", before, after)
			}
			u = u.Hold(v.Holdings...)
		}
	})
}

// A scheduler calls Fits for thousands of nodes, so it must not allocate.
func TestFitsAllocatesNothing(t *testing.T) {
	for _, c := range benchCases(t) {
		if n := testing.AllocsPerRun(10, func() { place.Fits(c.usage, c.pod) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", c.name, n)
		}
		if got, want := place.Fits(c.usage, c.pod), place.Place(c.usage, c.pod).Fits(); got != want {
			t.Errorf("%s: Fits says %v, Place %v", c.name, got, want)
		}
	}
}

// Verdicts, states after them, and repeated questions have a bound on allocations too.
func TestAnswersAllocateLittle(t *testing.T) {
	for _, c := range benchCases(t) {
		q := place.NewQuestion(c.pod)
		if got, want := q.Fits(c.usage), place.Place(c.usage, c.pod).Fits(); got != want {
			t.Errorf("%s: the question says %v, the verdict %v", c.name, got, want)
		}
		if n := testing.AllocsPerRun(10, func() { q.Fits(c.usage) }); n != 0 {
			t.Errorf("%s: %v allocations of a question asked again, want none", c.name, n)
		}
		v := place.Place(c.usage, c.pod)
		most := 30.0
		if strings.Contains(c.name, "refused") {
			most = 90 // several NUMA nodes, or reasons
		}
		if n := testing.AllocsPerRun(10, func() { place.Place(c.usage, c.pod) }); n > most {
			t.Errorf("%s: %v allocations of a verdict, want at most %v", c.name, n, most)
		}
		if n := testing.AllocsPerRun(10, func() { c.usage.Hold(v.Holdings...) }); n > 8 {
			t.Errorf("%s: Hold allocates %v times, want at most 8", c.name, n)
		}
	}
}
