package main

import (
	"path/filepath"
	"testing"
)

// A fault whose text is gone, or stands twice, cannot be planted, so nobody would notice that its test has gone too.
func TestEveryFaultCanBePlanted(t *testing.T) {
	t.Chdir(filepath.Join("..", "..")) // files are named from the root
	for _, f := range append(faults(), subtle()...) {
		if _, err := f.apply(); err != nil {
			t.Error(err)
		}
	}
}
