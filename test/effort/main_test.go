package main

import (
	"strings"
	"testing"
)

const agreed = `pkg: core/place
BenchmarkEffort/once 100 50 statements/op 16 B/op 1 allocs/op
BenchmarkEffort/once 100 50 statements/op 0 B/op 1 allocs/op
pkg: core/ledger
BenchmarkEffort/once 100 7 statements/op 0 B/op 0 allocs/op
`

func TestWhatIsDearerFails(t *testing.T) {
	for _, c := range []struct{ old, now, want string }{
		{"", "", ""},
		{"place\n", "place\nBenchmarkEffort/again 100 1 statements/op 0 B/op 0 allocs/op\n",
			"core/place again is not in the baseline"},
		{"7 statements", "14 statements", ""},
		{"7 statements", "15 statements", "core/ledger once: 15 statements, more than twice the 7"},
		{"0 B/op 0 allocs", "0 B/op 1 allocs", "core/ledger once: 1 allocations, 0 in the baseline"},
		{"1 allocs", "0 allocs", ""},
		{"BenchmarkEffort/once 100 7", "BenchmarkEffort/twice 100 7", "core/ledger once is in the baseline only"},
		// One sample may have been disturbed; the least of all was not.
		{"0 B/op 1 allocs", "0 B/op 3 allocs", ""},
	} {
		err := compare(agreed, strings.Replace(agreed, c.old, c.now, 1))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q instead of %q: %v", c.now, c.old, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q instead of %q: %v, want %q", c.now, c.old, err, c.want)
		}
	}
}
