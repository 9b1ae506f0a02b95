package place_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// Time depends on the machine, and instruction counters are not available everywhere. The cost of an answer is
// therefore counted in executed statements, in all of core, and in allocations. go run ./test/effort compares it with
// core/testdata/baseline.txt.

// effort is one answer.
type effort struct {
	name   string
	answer func() func()
}

func efforts(tb testing.TB) []effort {
	cases := map[string]benchCase{}
	for _, c := range benchCases(tb) {
		cases[c.name] = c
	}
	again := func(name string) func() func() {
		return func() func() {
			c := cases[name]
			q := place.NewQuestion(c.pod)
			q.Fits(c.usage)
			return func() { q.Fits(c.usage) }
		}
	}
	once := func(name string) func() func() {
		return func() func() { c := cases[name]; return func() { place.Fits(c.usage, c.pod) } }
	}
	verdict := func(name string) func() func() {
		return func() func() { c := cases[name]; return func() { place.Place(c.usage, c.pod) } }
	}
	hold := func() func() {
		c := cases["numas=8/single-numa-node/cpu+memory+gpu"]
		v := place.Place(c.usage, c.pod)
		return func() { c.usage.Hold(v.Holdings...) }
	}
	large := func(r place.Rules, p *place.Pod) func() func() {
		return func() func() { u := place.NewUsage(benchMachine(tb, 16), r); return func() { place.Place(u, p) } }
	}
	spread := place.Rules{CPU: place.CPURules{Static: true, DistributeAcrossNUMA: true}}
	inits := benchPod(1, 1, 1)
	for range 100 {
		c := inits.Containers[0]
		c.Kind = place.Init
		inits.Containers = append([]place.Container{c}, inits.Containers...)
	}
	return []effort{
		{"again:single-numa-node", again("numas=8/single-numa-node/cpu+memory+gpu")},
		{"again:single-numa-node,refused", again("numas=8/single-numa-node/refused")},
		{"again:restricted", again("numas=8/restricted/cpu+memory+gpu")},
		{"again:restricted,refused", again("numas=8/restricted/refused")},
		{"again:best-effort", again("numas=8/best-effort/cpu+memory+gpu")},
		{"again:best-effort,not-aligned", again("numas=8/best-effort/refused")},
		{"once:single-numa-node", once("numas=8/single-numa-node/cpu+memory+gpu")},
		{"once:restricted", once("numas=8/restricted/cpu+memory+gpu")},
		{"once:best-effort", once("numas=8/best-effort/cpu+memory+gpu")},
		{"verdict:single-numa-node", verdict("numas=8/single-numa-node/cpu+memory+gpu")},
		{"verdict:single-numa-node,refused", verdict("numas=8/single-numa-node/refused")},
		{"verdict:restricted,refused", verdict("numas=8/restricted/refused")},
		{"verdict:best-effort,not-aligned", verdict("numas=8/best-effort/refused")},
		{"verdict:spread-over-16-numas", large(spread, benchPod(70, 1, 0))},
		{"verdict:100-init-containers", large(benchRules(place.None), inits)},
		{"hold", hold},
	}
}

// BenchmarkEffort has the answers whose cost is compared.
func BenchmarkEffort(b *testing.B) {
	for _, e := range efforts(b) {
		b.Run(e.name, func(b *testing.B) {
			answer := e.answer()
			answer() // what is kept for the next one is there
			b.ReportAllocs()
			for b.Loop() {
				answer()
			}
		})
	}
}
