package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// A fault whose text is missing, or occurs twice, cannot be planted, and its test would be lost unnoticed.
func TestEveryFaultCanBePlanted(t *testing.T) {
	t.Chdir(filepath.Join("..", "..")) // files are named from the root
	for _, f := range allFaults() {
		if _, err := f.apply(); err != nil {
			t.Error(err)
		}
	}
}

// Each rule that holds for some releases only has three faults.
func TestEveryRuleOfAReleaseHasFaults(t *testing.T) {
	count := map[string]int{}
	for _, f := range releaseFaults() {
		rule, _, _ := strings.Cut(f.name, ":")
		count[rule]++
	}
	for _, c := range place.Changes() {
		if count[c.Name] < 3 {
			t.Errorf("%s has %d faults, want at least 3", c.Name, count[c.Name])
		}
	}
}
