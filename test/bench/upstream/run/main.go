// Command run runs kube-scheduler's own benchmark with kube-scheduler as it is and with Tenon's plugin, in turns, and
// prints a table of ratios.
//
// It builds what it runs, and prints progress. With -page it writes the table between its marks in that page, which
// is docs/performance.md. It asserts nothing about time, and fails if a workload cannot be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-numa/tenon/test/bench/section"
	"github.com/tenon-numa/tenon/test/bench/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	var only, subjects, page string
	o := upstream.Options{Progress: func(line string) {
		fmt.Fprintf(os.Stderr, "[%s] %s\n", time.Now().UTC().Format("15:04:05"), line)
	}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&only, "only", "short", "workloads, with commas: short, all, topics, test cases, or TOPIC:CASE:WORKLOAD")
	fs.StringVar(&subjects, "subjects", "plain,tenon", "schedulers: plain, tenon, and alone (the plugin without what "+
		"tenon-scheduler adds); the others are compared with the first")
	fs.IntVar(&o.Rounds, "rounds", 2, "rounds of every workload")
	fs.StringVar(&o.Keep, "keep", "", "folder for logs, CPU profiles and results of every run; none when empty; "+
		"runs whose results it has are not repeated")
	fs.StringVar(&page, "page", "", "page whose section is written; none when empty")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.Workloads, err = upstream.Choose(strings.Split(only, ",")); err != nil {
		return err
	}
	for s := range strings.SplitSeq(subjects, ",") {
		o.Subjects = append(o.Subjects, upstream.Subject(s))
		if !slices.Contains([]upstream.Subject{upstream.Plain, upstream.Tenon, upstream.Alone}, upstream.Subject(s)) {
			return fmt.Errorf("-subjects: no scheduler %q", s)
		}
	}
	if fs.NArg() > 0 || o.Rounds < 1 {
		return errors.New("want no arguments, and at least one round")
	}
	if o.Keep != "" {
		if o.Keep, err = filepath.Abs(o.Keep); err != nil {
			return err
		}
	}
	return measure(ctx, o, page)
}

// measure builds the programs, measures, and writes the table.
func measure(ctx context.Context, o upstream.Options, page string) (err error) {
	dir, err := os.MkdirTemp("", "tenon-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for programs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Progress("building, which takes minutes the first time")
	k, err := upstream.Build(ctx, dir)
	if err != nil {
		return err
	}
	results, err := k.Measure(ctx, o)
	if err != nil {
		return err
	}
	text := section.Where() + "\n\n" + upstream.Report(results, o.Subjects)
	fmt.Println(text)
	var errs []error
	for _, r := range results {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Workload, r.Err))
		}
	}
	if page != "" && len(errs) == 0 {
		return section.Write(page, "upstream", text)
	}
	return errors.Join(errs...)
}
