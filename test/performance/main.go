// Command performance measures how fast the core answers, and writes docs/performance.md with a chart. It
// also measures what nodes write to an API server, and puts the tables of docs/scale.md between their marks.
//
// Everything is compared with a plain loop over free numbers in the same process: both take turns many
// times, and the least time of each counts, so that other work on the machine falls out. It asserts
// nothing about time, and refuses nothing but files that it cannot write.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "docs", "folder in which performance.md and performance.svg are written")
	flag.IntVar(&o.rounds, "rounds", 300, "how often each is measured")
	flag.IntVar(&o.nodes, "nodes", 20000, "the most nodes of a cluster")
	flag.BoolVar(&o.scale, "scale", false, "write the tables of scale.md only")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

type options struct {
	dir           string
	rounds, nodes int
	scale         bool
}

func run(o options) error {
	if o.rounds < 1 || o.rounds > 1e6 || o.nodes < 100 || o.nodes > 100_000 {
		return fmt.Errorf("%d rounds, %d nodes: 1 to 1000000 rounds and 100 to 100000 nodes are possible", o.rounds, o.nodes)
	}
	if _, err := os.Stat(o.dir); err != nil {
		return fmt.Errorf("folder of the page: %w", err)
	}
	if err := writeScale(filepath.Join(o.dir, "scale.md"), o.rounds); err != nil || o.scale {
		return err
	}
	p := page{Host: host(), Go: runtime.Version(), Date: time.Now().UTC().Format("2006-01-02")}
	var err error
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"one node", func() error { p.one, err = oneNode(o.rounds); return err }},
		{"growth with numas", func() error { p.growth, err = growth(o.rounds); return err }},
		{"clusters", func() error { p.passes, err = passes(o.nodes, o.rounds); return err }},
		{"memory", func() error { p.memory, err = memory(o.nodes); return err }},
	} {
		fmt.Fprintln(os.Stderr, "measure", step.what)
		if err := step.do(); err != nil {
			return fmt.Errorf("measure %s: %w", step.what, err)
		}
	}
	if err := os.WriteFile(filepath.Join(o.dir, "performance.svg"), []byte(drawGrowth(p.growth)), 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.dir, "performance.md"), []byte(p.text()), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// host names the processor.
func host() string {
	out := fmt.Sprintf("%d CPUs, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value) + ", " + out
		}
	}
	return out
}
