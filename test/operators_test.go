package main

import (
	"bytes"
	"strings"
	"testing"
)

// A run without the operators' modules reports that, and builds nothing.
func TestOperatorsThatAreNotBuiltAreLeftOut(t *testing.T) {
	t.Chdir("..")
	t.Setenv("GOMODCACHE", t.TempDir())
	var out bytes.Buffer
	r := &runner{out: &out}
	if err := r.builtOperators(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	const want = "NOT RUN: gangs of operators: the operators' programs are not built here"
	if len(r.untested) != 1 || !strings.Contains(out.String(), want) || len(r.done) > 0 {
		t.Errorf("want %q in:\n%s", want, out.String())
	}
}
