package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestOnlyTestProgramsThatLinkKubernetesAreHeavy(t *testing.T) {
	light, heavy := splitByKubernetes(`x/core fmt
x/core.test fmt os testing
x/core [x/core.test] fmt testing
x/lab fmt k8s.io/kubernetes/pkg/kubelet
x/lab.test fmt k8s.io/kubernetes/pkg/kubelet testing
x/lab_test [x/lab.test] x/lab
x/api.test k8s.io/kubernetes-not/pkg
x/untested k8s.io/kubernetes/pkg/kubelet
`)
	if want := []string{"x/core", "x/api"}; !slices.Equal(light, want) {
		t.Errorf("light packages: %q, want %q", light, want)
	}
	if want := []string{"x/lab"}; !slices.Equal(heavy, want) {
		t.Errorf("heavy packages: %q, want %q", heavy, want)
	}
}

func TestPackagesOfSeveralGoroutinesAreRaced(t *testing.T) {
	const m = "github.com/tenon-numa/tenon/"
	several, one := splitByGoroutines([]string{m + "core/answers", m + "core/place", m + "core/place/scenario",
		m + "core/ledger", m + "face/cli"})
	if want := []string{m + "core/answers", m + "core/ledger", m + "face/cli"}; !slices.Equal(several, want) {
		t.Errorf("packages of several goroutines: %q, want %q", several, want)
	}
	if want := []string{m + "core/place", m + "core/place/scenario"}; !slices.Equal(one, want) {
		t.Errorf("packages of one goroutine: %q, want %q", one, want)
	}
}

func TestRaceDetectorNeedsCgoAndACompiler(t *testing.T) {
	have := func(string) (string, error) { return "/usr/bin/cc", nil }
	missing := func(string) (string, error) { return "", errors.New("not found") }
	for _, c := range []struct {
		name string
		env  []string
		look func(string) (string, error)
		ok   bool
	}{
		{"all there", []string{"1", "gcc -m64", ""}, have, true},
		{"cgo off", []string{"0", "gcc", ""}, have, false},
		{"no compiler", []string{"1", "gcc", ""}, missing, false},
		{"no answer", []string{""}, have, false},
	} {
		if got := lacking(c.env, c.look); (got == "") != c.ok {
			t.Errorf("%s: lacking says %q", c.name, got)
		}
	}
}

// A test that was skipped must not pass for one that ran.
func TestSkippedTestsAreSeen(t *testing.T) {
	s := &testOutput{}
	for _, part := range []string{"=== RUN   TestA\n    a_test.go:7: buil",
		"ding\n--- PASS: TestA (1s)\n    b_test.go:9: no busybox\n--- SK", "IP: TestB (0.00s)\nPASS\n"} {
		if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"b_test.go:9: no busybox"}; !slices.Equal(s.why, want) {
		t.Errorf("skipped because %q, want %q", s.why, want)
	}
}

// The slowest packages begin first, and the others stay in their order.
func TestSlowPackagesBeginFirst(t *testing.T) {
	got := slowestFirst([]string{"x/a", "x/core/ledger", "x/lab/scheduler", "x/lab", "x/lab/queue"})
	if want := []string{"x/lab/queue", "x/lab/scheduler", "x/core/ledger", "x/a", "x/lab"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

// Output of steps that run at a time is not mixed within lines, and each failed test keeps its own last lines.
func TestStepsRunBesideEachOther(t *testing.T) {
	var out strings.Builder
	r := &runner{out: &out}
	shell := func(name, line string) func() error {
		return func() error { return r.program(t.Context(), io.Discard, name, "sh", "-c", line) }
	}
	err := beside(
		shell("one", `for i in 1 2 3 4 5 6 7 8; do printf 'fi'; printf 'rst\n'; done; printf 'end'`),
		shell("two", `for i in 1 2 3 4 5 6 7 8; do printf 'sec'; printf 'ond\n'; done
			printf -- '--- FAIL: TestTwo (0s)\n    two_test.go:1: wrong\n'; exit 1`))
	if err == nil || !strings.Contains(err.Error(), "two: exit status 1") || strings.Contains(err.Error(), "one") {
		t.Errorf("error %v, want that of step two", err)
	}
	count := map[string]int{}
	for line := range strings.Lines(out.String()) {
		count[strings.TrimSpace(line)]++
	}
	if count["first"] != 8 || count["second"] != 8 || count["end"] != 1 {
		t.Errorf("lines are mixed or missing:\n%s", out.String())
	}
	want := [][]string{{"--- FAIL: TestTwo (0s)", "    two_test.go:1: wrong"}}
	if !slices.EqualFunc(r.failed, want, slices.Equal[[]string]) || !slices.Equal(r.done, []string{"one"}) {
		t.Errorf("failed %q, done %q", r.failed, r.done)
	}
}
