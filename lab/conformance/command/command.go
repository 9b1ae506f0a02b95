// Package command is the command line of tenon-conformance, which grades schedulers about NUMA nodes.
//
// Invariant: an error leaves no cluster behind, and the exit code tells a scheduler that misses a level from a run that
// failed. The package starts no scheduler itself: package live does.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/internal/version"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/live"
	"github.com/tenon-numa/tenon/lab/conformance/report"
	"github.com/tenon-numa/tenon/lab/releases"
)

// Exit codes of the program.
const (
	ExitReached = 0 // the wanted level is reached
	ExitMissed  = 1 // it is not
	ExitError   = 2 // the run failed, or a case could not be judged
)

// ErrMissed is the error if the scheduler does not reach the wanted level.
var ErrMissed = errors.New("the wanted level is not reached")

// ExitCode returns the exit code for the error of the command.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitReached
	case errors.Is(err, ErrMissed):
		return ExitMissed
	}
	return ExitError
}

type flags struct {
	scheduler, schedulerName, schedulerCommand string
	level, only, cases, output, junit, dir     string
	page, volcano                              string
	settle, pause                              time.Duration
	nodes, parallel                            int
	list, short, compare                       bool

	remote remoteFlags
}

// New returns the command of tenon-conformance.
func New() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "tenon-conformance",
		Short: "Grade a scheduler about NUMA nodes, by the kubelets' own managers",
		Example: `  tenon-conformance --scheduler kube-scheduler
  tenon-conformance --scheduler tenon --level exact
  tenon-conformance --scheduler-name mine --scheduler-command '/bin/mine --kubeconfig {kubeconfig}'
  tenon-conformance --scheduler-name mine          print a kubeconfig, and wait for the scheduler
  tenon-conformance --scheduler-name mine --kubeconfig FILE --numa 2x32   on a running cluster
  tenon-conformance --list                         list the cases`,
		Args:          cobra.NoArgs,
		Version:       version.Text(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.remote.kubeconfig != "" {
				return f.runRemote(cmd)
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.SetVersionTemplate("tenon-conformance {{.Version}}\n")
	// Kubernetes' packages register a flag of this name for all commands, which prints another version.
	cmd.Flags().Bool("version", false, "Print the version and quit.")
	s := cmd.Flags()
	s.StringVar(&f.scheduler, "scheduler", "", "scheduler that this program starts: "+
		strings.Join(live.BuiltInNames(), ", "))
	s.StringVar(&f.schedulerName, "scheduler-name", "", "schedulerName of the pods, for a scheduler of your own")
	s.StringVar(&f.schedulerCommand, "scheduler-command", "",
		"shell command that starts it; {kubeconfig} stands for a file (default: you start it)")
	s.StringVar(&f.level, "level", string(conformance.Safe),
		"level that decides about the exit code: safe, live, aligned or exact")
	s.StringVar(&f.only, "only", "", "names of cases, a comma list; * matches any text")
	s.BoolVar(&f.short, "short", false, "play only a few cases of each level")
	s.StringVar(&f.cases, "cases", "", "folder with cases of your own, NAME.yaml each, in place of the built-in ones")
	s.BoolVar(&f.list, "list", false, "list the cases, and run nothing")
	s.StringVarP(&f.output, "output", "o", "table", "output: table, json or badge")
	s.StringVar(&f.junit, "junit", "", "file for the results as JUnit XML")
	s.StringVar(&f.page, "page", "", "Markdown page whose table of scores gets the results")
	s.DurationVar(&f.settle, "settle", live.DefaultSettle,
		"how long nothing must change until a pod counts as waiting; an avoidable wait counts after four times that")
	s.DurationVar(&f.pause, "pause", live.DefaultPause,
		"how long nothing must change between two actions if no pod waits")
	s.IntVar(&f.nodes, "nodes", live.DefaultNodes, "how many nodes run at once")
	s.IntVar(&f.parallel, "parallel", live.DefaultParallel, "how many cases run at once")
	s.BoolVar(&f.compare, "compare", false, "measure the time to bind beside plain kube-scheduler")
	s.StringVar(&f.volcano, "volcano-programs", "",
		"folder with Volcano's programs; in a checkout of the repository they are built (default: a folder of the cache)")
	s.StringVar(&f.dir, "dir", "", "where the clusters' directories are made; keep it short (default: memory)")
	f.remote.add(s)
	return cmd
}

func (f *flags) run(ctx context.Context, out, progress io.Writer) error {
	cases, err := f.selected()
	if err != nil {
		return err
	}
	if f.list {
		return list(out, cases)
	}
	if err := f.checkOutput(); err != nil {
		return err
	}
	if f.page != "" && (f.short || f.only != "" || f.cases != "") {
		return errors.New("--page excludes --short, --only and --cases: scores are about all cases")
	}
	if !slices.Contains(conformance.Levels(), conformance.Level(f.level)) {
		return fmt.Errorf("--level %q is none of %v", f.level, conformance.Levels())
	}
	if err := lab.EnableGangs(); lab.HasGangs && err != nil {
		return err
	}
	began := time.Now()
	say := func(line string) { fmt.Fprintf(progress, "%6.1fs  %s\n", time.Since(began).Seconds(), line) }
	scheduler, err := f.graded(ctx, say)
	if err != nil {
		return err
	}
	f.settle, f.pause = max(f.settle, scheduler.Settle), max(f.pause, scheduler.Pause)
	found, err := live.Run(ctx, cases, live.Options{Scheduler: scheduler, Dir: f.dir, Settle: f.settle, Pause: f.pause,
		Nodes: f.nodes, Parallel: f.parallel, Compare: f.compare, Progress: say,
		Done: func(r *conformance.Result) { say(line(r)) }})
	if err != nil {
		return err
	}
	r := report.New(found.Results)
	r.Scheduler, r.Kubernetes, r.Date = scheduler.Name, releases.Own(), began.Format(time.DateOnly)
	r.Settle, r.Pause, r.Part = f.settle.Seconds(), f.pause.Seconds(), f.short || f.only != "" || f.cases != ""
	r.Bind.Alone, r.Bind.Plain = report.Median(found.Alone), report.Median(found.Plain)
	return f.end(r, out)
}

// end writes the report, and returns an error if the wanted level is not reached.
func (f *flags) end(r *report.Report, out io.Writer) error {
	if err := f.write(r, out); err != nil {
		return err
	}
	switch n := r.Errors(); {
	case n > 0:
		return fmt.Errorf("%d cases could not be judged", n)
	case !r.Reaches(conformance.Level(f.level)):
		return fmt.Errorf("%w: wanted %s", ErrMissed, f.level)
	}
	return nil
}

// line is the progress of one case.
func line(r *conformance.Result) string {
	switch {
	case r.Err != nil:
		return fmt.Sprintf("%s: not judged: %v", r.Case.Name, r.Err)
	case r.Passed():
		return r.Case.Name + ": pass"
	}
	return fmt.Sprintf("%s: FAIL (%d findings)", r.Case.Name, len(r.Counts()))
}

// graded returns the scheduler of the flags.
func (f *flags) graded(ctx context.Context, say func(string)) (live.Scheduler, error) {
	switch {
	case f.scheduler != "" && (f.schedulerName != "" || f.schedulerCommand != ""):
		return live.Scheduler{}, errors.New("--scheduler excludes --scheduler-name and --scheduler-command")
	case f.scheduler != "":
		return live.BuiltIn(ctx, f.scheduler, live.Sources{Volcano: f.volcano, Progress: say})
	case f.schedulerName == "":
		return live.Scheduler{}, errors.New("--scheduler or --scheduler-name is missing")
	}
	return live.Foreign(f.schedulerName, f.schedulerCommand), nil
}

// selected returns the cases of the flags.
func (f *flags) selected() ([]*conformance.Case, error) {
	all, err := conformance.Cases()
	if f.cases != "" {
		all, err = conformance.Read(os.DirFS(f.cases), ".")
	}
	if err != nil {
		return nil, err
	}
	all = live.Playable(all)
	if f.short {
		all = conformance.Short(all)
	}
	if f.only == "" {
		return all, nil
	}
	return only(f.only, all, func(c *conformance.Case) string { return c.Name })
}

// only returns the cases whose names match one of the patterns.
func only[T comparable](patterns string, all []T, name func(T) string) (out []T, err error) {
	for pattern := range strings.SplitSeq(patterns, ",") {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("--only %q: %w", pattern, err)
		}
		matched := false
		for _, c := range all {
			if ok, _ := path.Match(pattern, name(c)); ok {
				matched = true
				if !slices.Contains(out, c) {
					out = append(out, c)
				}
			}
		}
		if !matched {
			return nil, fmt.Errorf("--only %s: %w", pattern, fs.ErrNotExist)
		}
	}
	return out, nil
}

func list(out io.Writer, cases []*conformance.Case) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tLEVEL\tNODES\tSOURCE")
	for _, c := range cases {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Name, c.Level, len(c.Nodes), c.Source)
	}
	return w.Flush()
}

// write writes the report.
func (f *flags) write(r *report.Report, out io.Writer) (err error) {
	if f.page != "" {
		page, err := os.ReadFile(f.page)
		if err != nil {
			return fmt.Errorf("write scores: %w", err)
		}
		text, err := r.WritePage(string(page))
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.page, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write scores: %w", err)
		}
	}
	if f.junit != "" {
		file, err := os.Create(f.junit)
		if err != nil {
			return fmt.Errorf("write JUnit report: %w", err)
		}
		if err := errors.Join(r.JUnit(file), file.Close()); err != nil {
			return err
		}
	}
	switch f.output {
	case "json":
		return r.JSON(out)
	case "badge":
		_, err := fmt.Fprintln(out, r.Badge())
		return err
	}
	return r.Table(out)
}
