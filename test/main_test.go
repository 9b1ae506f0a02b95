package main

import (
	"errors"
	"slices"
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
