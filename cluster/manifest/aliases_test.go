package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// Aliases are read as kubectl reads them, and those that repeat too much are refused before they are decoded.
func TestAliasesAreBounded(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: &l {app: x}, annotations: *l}\n" +
		"spec: {containers: [{name: c, image: i}]}\n"
	if f, err := Read([]byte(pod)); err != nil || len(f.Templates) != 1 {
		t.Errorf("a pod with an alias: %v", err)
	}
	nested := "x0: &x0 [a, a]\n"
	for i := range 40 {
		nested += fmt.Sprintf("x%d: &x%d [*x%d, *x%d]\n", i+1, i+1, i, i)
	}
	for name, text := range map[string]string{
		"nested": nested + pod,
		"bytes":  "a: &a \"" + strings.Repeat("x", 100_000) + "\"\nb: [" + strings.Repeat("*a,", 100_000) + "]\n" + pod,
		"values": "a: &a [" + strings.Repeat("{},", 6_000) + "]\nb: [*a, *a]\n" + pod,
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), "aliases repeat") {
			t.Errorf("%s: error %.200v", name, err)
		}
	}
}
