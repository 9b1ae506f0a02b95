package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command must always work; its measurements here have no meaning.
func TestPagesAreWritten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"scale.md", performancePage} {
		data, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := options{docs: true, dir: dir, rounds: 1, nodes: 100, wanted: map[string]bool{"core": true, "scale": true}}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, performancePage))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"### One node", "| single-numa-node | CPUs, memory |", "| restricted | two NUMA nodes |",
		"| 100 |", "| a node |",
		"<!-- measured: plugin -->", "<!-- measured: growth -->", "<!-- measured: whole -->"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for line := range strings.Lines(string(page)) {
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "%!") {
			t.Errorf("no number: %s", line)
		}
	}
	if n := paths(t, filepath.Join(dir, "performance.svg")); n != 12 {
		t.Errorf("the chart has %d paths, want 6 curves and their keys", n)
	}
}

// paths counts the paths of a chart.
func paths(t *testing.T, file string) (n int) {
	t.Helper()
	chart, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer chart.Close()
	for d := xml.NewDecoder(chart); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("the chart is no XML: %v", err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "path" {
			n++
		}
	}
}

func TestOptionsAreBounded(t *testing.T) {
	for _, o := range []options{{rounds: 0, nodes: 100}, {rounds: 1, nodes: 99}, {rounds: 1, nodes: 1 << 30}} {
		if err := run(t.Context(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if err := run(t.Context(), options{docs: true, dir: "/nowhere", rounds: 1, nodes: 100}); err == nil ||
		!strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
