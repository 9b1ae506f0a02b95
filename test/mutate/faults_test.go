package main

import (
	"path/filepath"
	"testing"
)

// A fault whose text is missing, or occurs twice, cannot be planted, and its test would be lost unnoticed.
func TestEveryFaultCanBePlanted(t *testing.T) {
	t.Chdir(filepath.Join("..", "..")) // files are named from the root
	for _, f := range append(faults(), subtle()...) {
		if _, err := f.apply(); err != nil {
			t.Error(err)
		}
	}
}
