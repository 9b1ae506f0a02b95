// Command bench measures schedulers in layers: the core beside a plain loop; scheduling cycles of kube-scheduler alone,
// with Tenon, and with NodeResourceTopologyMatch; how these grow with nodes and NUMA nodes; whole clusters with etcd
// and API server; the console's first page in a browser; and what nodes write to an API server. It prints the results,
// or writes them between the marks of docs/performance.md and docs/scale.md, with charts.
//
// Compared subjects take turns many times, and the least time of each counts, so that other work on the machine has
// little influence. The command asserts nothing about time. It refuses only options out of bounds and files that it
// cannot write.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	o := options{wanted: map[string]bool{}}
	flag.BoolVar(&o.docs, "docs", false, "write the pages and their charts, instead of printing tables")
	flag.StringVar(&o.dir, "dir", "docs", "folder of the pages")
	flag.IntVar(&o.rounds, "rounds", 300, "how often each measurement of the core is repeated")
	flag.IntVar(&o.nodes, "nodes", 20000, "the most nodes of a cluster")
	flag.IntVar(&o.full, "full", 50, "with -alone: how full the cluster is, in percent of CPUs")
	flag.BoolVar(&o.alone, "alone", false,
		"with -growth: measure only the cluster of -nodes, for kube-scheduler and Tenon")
	for _, l := range layers {
		flag.BoolFunc(l.name, "measure "+l.what+"; without any such flag everything is measured", func(string) error {
			o.wanted[l.name] = true
			return nil
		})
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	docs          bool
	dir           string
	rounds, nodes int
	alone         bool
	full          int
	wanted        map[string]bool // names of layers; empty means all
}

// layer is a part that is measured separately.
type layer struct {
	name, what string
	measure    func(context.Context, options) (found, error)
}

// found has the results of a layer: tables for the marks of a page, and charts by file name. It is empty for a layer
// that prints and writes by itself.
type found struct {
	page   string
	tables []table
	charts map[string]string
}

var layers = []layer{
	{"core", "answers of the core beside a plain loop, and memory", coreLayer},
	{"plugin", "scheduling cycles of kube-scheduler, with plugins and without", pluginLayer},
	{"growth", "how scheduling cycles grow with nodes and NUMA nodes", growthLayer},
	{"whole", "whole clusters, with etcd, API server and schedulers in processes of their own", wholeLayer},
	{"console", "the console's first page in a browser, with 5,000 nodes and 50,000 pods", consoleLayer},
	{"scale", "what nodes write to an API server", scaleLayer},
}

func run(ctx context.Context, o options) error {
	if o.rounds < 1 || o.rounds > 1e6 || o.nodes < 100 || o.nodes > 100_000 {
		return fmt.Errorf("%d rounds, %d nodes: 1 to 1000000 rounds and 100 to 100000 nodes are possible", o.rounds, o.nodes)
	}
	if o.alone && (o.full < 0 || o.full > 100) {
		return fmt.Errorf("-full %d: 0 to 100 percent are possible", o.full)
	}
	if _, err := os.Stat(o.dir); err != nil && o.docs {
		return fmt.Errorf("folder of the pages: %w", err)
	}
	var errs []error // one run reports all errors
	for _, l := range layers {
		if len(o.wanted) > 0 && !o.wanted[l.name] {
			continue
		}
		say("measure %s", l.what)
		f, err := l.measure(ctx, o)
		if err == nil {
			err = f.put(o)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("measure %s: %w", l.what, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// put prints the results, or writes them into the page.
func (f found) put(o options) error {
	if !o.docs {
		for _, t := range f.tables {
			fmt.Println(t.text)
		}
		return nil
	}
	if f.page == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.charts)) {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(f.charts[name]), 0o644); err != nil {
			return fmt.Errorf("write the chart: %w", err)
		}
	}
	return write(filepath.Join(o.dir, f.page), f.tables)
}

// say prints progress.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%s] %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}
