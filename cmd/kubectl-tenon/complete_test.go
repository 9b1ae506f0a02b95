package main

import (
	"slices"
	"testing"
)

func TestTheLinkCompletes(t *testing.T) {
	for program, want := range map[string][]string{
		"/usr/bin/kubectl-tenon":                {"map", "no"},
		"/usr/local/bin/kubectl_complete-tenon": {"__complete", "map", "no"},
		"kubectl_complete-tenon.exe":            {"__complete", "map", "no"},
	} {
		if got := arguments(program, []string{"map", "no"}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", program, got, want)
		}
	}
}
