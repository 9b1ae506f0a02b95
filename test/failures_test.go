package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// The end of a run has the errors of every failed test, however much the test has logged before, and nothing of the
// tests that passed.
func TestTheEndOfARunHasTheErrorsOfFailedTests(t *testing.T) {
	var long strings.Builder
	for i := range 100 {
		fmt.Fprintf(&long, "    chaos_test.go:34: round %d\n", i)
	}
	logs := strings.Repeat("            E1129 11:50:44.087322    3021 log.go:245] \"Failed\" err=\"none\"\n", 50)
	for name, c := range map[string]struct {
		out  string
		want []string // the first line and the last line of each failed test
		not  []string
	}{
		"quiet": {
			out: "ok  \ta\t0.1s\n--- FAIL: TestChaos (129.87s)\n" + long.String() + "{\"level\":\"warn\"}\n" +
				"    chaos_test.go:40: seed 1: a pod waits\n--- FAIL: TestOther (0.1s)\n    --- FAIL: TestOther/part (0s)\n" +
				"        o_test.go:3: got 1\nFAIL\nFAIL\tb\t1s\n    not of a test\nok  \tc\t0.1s\n",
			want: []string{"--- FAIL: TestChaos (129.87s)", "    chaos_test.go:40: seed 1: a pod waits",
				"--- FAIL: TestOther (0.1s)", "    --- FAIL: TestOther/part (0s)", "        o_test.go:3: got 1"},
			not: []string{"    chaos_test.go:34: round 80", "    not of a test"},
		},
		"logs behind the error": {
			out:  "--- FAIL: TestDRA (9s)\n    d_test.go:7: 1 pods were declined\n" + logs + "FAIL\nFAIL\td\t1s\n",
			want: []string{"    d_test.go:7: 1 pods were declined"},
			not:  []string{strings.Split(logs, "\n")[0]},
		},
		"verbose": {
			out: "=== RUN   TestGood\n    g_test.go:1: fine\n--- PASS: TestGood (0s)\n=== RUN   TestBad\n" +
				"    b_test.go:2: broken\n--- FAIL: TestBad (0s)\nFAIL\n",
			want: []string{"--- FAIL: TestBad (0s)", "    b_test.go:2: broken"},
			not:  []string{"    g_test.go:1: fine"},
		},
	} {
		var f failures
		for i := 0; i < len(c.out); i += 7 { // a pipe cuts lines anywhere
			if _, err := io.WriteString(&f, c.out[i:min(i+7, len(c.out))]); err != nil {
				t.Fatal(err)
			}
		}
		got := slices.Concat(f.all...)
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: %q is missing in\n%s", name, w, strings.Join(got, "\n"))
			}
		}
		for _, n := range c.not {
			if slices.Contains(got, n) {
				t.Errorf("%s: %q is in\n%s", name, n, strings.Join(got, "\n"))
			}
		}
	}
}
