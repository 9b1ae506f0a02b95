package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options are the settings of a measurement.
type Options struct {
	Workloads []Workload
	Subjects  []Subject // the first is what the others are compared with
	Rounds    int
	// Keep is a folder for the files of all runs, with logs and CPU profiles of the measured parts; a temporary one if
	// empty. A run whose result is in the folder is not repeated.
	Keep     string
	Progress func(string)
}

// Run is what one run measured.
type Run struct {
	Rate float64 // pods per second
	// Decision is the mean time of a scheduling cycle until the pod has a node; 0 if all pods were scheduled in groups.
	Decision time.Duration
	CPU      time.Duration // of API server, scheduler, etcd, and upstream's code, in the whole run
	// Own is the share of the CPU profile with Tenon's code on the stack, from 0 to 1. Gauges is the share, within Own,
	// of the code that computes metrics when they are read.
	Own, Gauges float64
	Counts
}

// Result has the runs of a workload by subject. Runs at the same position belong to the same round.
type Result struct {
	Workload  Workload
	Threshold Threshold
	Runs      map[Subject][]Run
	Err       error // why the workload could not be run
}

// maxRun bounds a run. Upstream's own bound is 30 minutes.
const maxRun = 20 * time.Minute

// Measure runs all workloads. Subjects take turns, in the opposite order in every second round. A workload that cannot
// be run does not keep others from running: its result has the error.
func (k *Kit) Measure(ctx context.Context, o Options) (out []Result, err error) {
	dir := o.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tenon-upstream-"); err != nil {
			return nil, fmt.Errorf("make a folder for runs: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	for _, w := range o.Workloads {
		r := Result{Workload: w, Runs: map[Subject][]Run{}}
		for round := range o.Rounds {
			if r.Err = k.round(ctx, o, filepath.Join(dir, w.folder()), round, &r); r.Err != nil {
				o.Progress(fmt.Sprintf("%s: %v", w, r.Err))
				break
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out = append(out, r)
	}
	return out, nil
}

// round runs a workload once with every subject.
func (k *Kit) round(ctx context.Context, o Options, dir string, round int, r *Result) error {
	subjects := slices.Clone(o.Subjects)
	if round%2 == 1 {
		slices.Reverse(subjects)
	}
	for _, s := range subjects {
		began := time.Now()
		run, err := k.runOnce(ctx, r, s, filepath.Join(dir, fmt.Sprintf("%d-%s", round, s)))
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		r.Runs[s] = append(r.Runs[s], run)
		o.Progress(fmt.Sprintf("%s: %s: %.1f pods/s, %v a decision, %.1f CPU s, in %.0f s", r.Workload, s, run.Rate,
			run.Decision.Round(time.Microsecond), run.CPU.Seconds(), time.Since(began).Seconds()))
	}
	return nil
}

// runOnce runs a workload with a subject. If the folder dir has the result of an earlier run, it returns that
// instead.
func (k *Kit) runOnce(ctx context.Context, r *Result, s Subject, dir string) (run Run, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Run{}, fmt.Errorf("make a folder for a run: %w", err)
	}
	j, limit, err := k.prepare(r.Workload, s, dir)
	if err != nil {
		return Run{}, err
	}
	r.Threshold = limit
	result := filepath.Join(dir, "result.json")
	if get(result, &run) == nil {
		return run, nil
	}
	if run.CPU, err = k.start(ctx, k.topic(r.Workload.Topic), dir); err != nil {
		return run, err
	}
	found, err := averages(dir)
	if err != nil {
		return run, err
	}
	run.Rate, run.Decision = found[rateMetric], time.Duration(found[decisionMetric]*float64(time.Millisecond))
	if j.NUMA {
		if err := get(j.Counts, &run.Counts); err != nil {
			return run, err
		}
	}
	if s != Plain {
		if run.Own, err = k.share(ctx, dir, ownCode); err != nil {
			return run, err
		}
		if run.Gauges, err = k.share(ctx, dir, gaugeCode); err != nil {
			return run, err
		}
	}
	return run, put(result, run)
}

// start runs the harness in the folder of a topic, because the test cases name their template files relative to it.
// It returns the CPU time of the harness and of the processes that it has waited for.
func (k *Kit) start(ctx context.Context, topic, dir string) (used time.Duration, err error) {
	temp, err := os.MkdirTemp(memory(), "tenon-upstream-")
	if err != nil {
		return 0, fmt.Errorf("make a folder for temporary files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, maxRun, fmt.Errorf("the run took more than %s", maxRun))
	defer cancel()
	args := []string{"-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$", "-test.benchtime=1ns", "-test.timeout=0",
		"-perf-scheduling-label-filter=", "-perf-cpuprofile", "-data-items-dir=" + dir}
	cmd := exec.CommandContext(ctx, k.harness, args...)
	cmd.Dir, cmd.Env = topic, k.environment(dir, temp)
	// A signal to the group ends etcd and the imitated nodes too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return 0, fmt.Errorf("make the log of a run: %w", err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w%s", errors.Join(context.Cause(ctx), err), faults(log.Name()))
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// faults returns up to ten lines of a log in which upstream's code reports why a run failed, or "" if it finds none.
func faults(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	var out strings.Builder
	n := 0
	for line := range bytes.Lines(text) {
		if n < 10 && (bytes.Contains(line, []byte("Error running workload")) || bytes.Contains(line, []byte("FATAL")) ||
			bytes.Contains(line, []byte("_test.go:")) || bytes.HasPrefix(line, []byte("panic:"))) {
			out.WriteString("\n")
			out.Write(bytes.TrimRight(line[:min(len(line), 1000)], "\n"))
			n++
		}
	}
	return out.String()
}
