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

// The command itself has to work whenever somebody wants numbers; what it measures here means nothing.
func TestPageIsWritten(t *testing.T) {
	dir := t.TempDir()
	scale, err := os.ReadFile(scalePage)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "scale.md"), scale, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(options{dir: dir, rounds: 1, nodes: 100}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## One node", "| single-numa-node | CPUs, memory |", "| restricted | two numas |", "| 100 |", "| a node |"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for line := range strings.Lines(string(page)) {
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "%!") {
			t.Errorf("no number: %s", line)
		}
	}
	chart, err := os.Open(filepath.Join(dir, "performance.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer chart.Close()
	paths := 0
	for d := xml.NewDecoder(chart); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the chart is no XML: %v", err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	if paths != 12 {
		t.Errorf("the chart has %d paths, want 6 curves and their keys", paths)
	}
}

func TestOptionsAreBounded(t *testing.T) {
	for _, o := range []options{{rounds: 0, nodes: 100}, {rounds: 1, nodes: 99}, {rounds: 1, nodes: 1 << 30}} {
		if err := run(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if err := run(options{dir: "/nowhere", rounds: 1, nodes: 100}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
