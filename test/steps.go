package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs the steps, and collects their results. Several steps may run at a time.
type runner struct {
	began     time.Time
	installed bool // packages were installed by this run

	mu       sync.Mutex // guards the fields below
	out      io.Writer
	done     []string   // the steps that passed, for the last line
	failed   [][]string // what tests that failed printed last
	untested []string   // the steps that were not run, one line each
}

// say prints a line with the time since the start.
func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := time.Since(r.began)
	fmt.Fprintf(r.out, "[%2d:%02d] %s\n", int(t.Minutes()), int(t.Seconds())%60, fmt.Sprintf(format, args...))
}

// passed records that a step passed.
func (r *runner) passed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, name)
}

// withdraw records that a step did not pass after all.
func (r *runner) withdraw(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = slices.DeleteFunc(r.done, func(s string) bool { return s == name })
}

// leftOut records a line about a step that was not run.
func (r *runner) leftOut(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.untested = append(r.untested, line)
}

// beside runs rows of steps at the same time, and returns the errors of all.
func beside(rows ...func() error) error {
	errs := make([]error, len(rows))
	var wg sync.WaitGroup
	for i, row := range rows {
		wg.Go(func() { errs[i] = row() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// heartbeat is how long a step may be silent before a line reports that it still runs.
const heartbeat = 30 * time.Second

// step runs one go command.
func (r *runner) step(ctx context.Context, name string, args ...string) error {
	return r.program(ctx, io.Discard, name, append([]string{"go"}, args...)...)
}

// program runs one command line as a step, and copies its output to a writer.
func (r *runner) program(ctx context.Context, copies io.Writer, name string, line ...string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: not run: %w", name, context.Cause(ctx))
	}
	r.say("%s: %s", name, shorten(line))
	began := time.Now()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Cancel = func() error {
		signal := syscall.SIGINT
		if errors.Is(context.Cause(ctx), errSilent) {
			signal = syscall.SIGQUIT // tests print where they stand
		}
		return syscall.Kill(-cmd.Process.Pid, signal)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a test's own processes end with it
	cmd.WaitDelay = time.Minute
	alive, stop := context.WithCancel(ctx)
	defer stop()
	w := &progressWriter{r: r, wrote: make(chan struct{}, 1)}
	go w.beat(alive, name, began)
	failed := &failures{}
	out := io.MultiWriter(w, failed, copies)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	w.end(failed.all)
	if err != nil {
		r.say("%s: failed after %s", name, time.Since(began).Round(time.Second))
		return fmt.Errorf("%s: %w", name, err)
	}
	r.passed(name)
	r.say("%s: passed in %s", name, time.Since(began).Round(time.Second))
	return nil
}

// progressWriter passes a step's output on, in whole lines, because another step may write at the same time. Its method
// beat prints a line whenever there was no output for the time heartbeat, until the context ends.
type progressWriter struct {
	r     *runner
	lines lines
	wrote chan struct{}
}

func (w *progressWriter) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	select {
	case w.wrote <- struct{}{}:
	default:
	}
	var err error
	w.lines.each(p, func(line string) {
		if err == nil {
			_, err = io.WriteString(w.r.out, line+"\n")
		}
	})
	return len(p), err
}

// end passes on what follows the last whole line, and records the last lines of the tests that failed.
func (w *progressWriter) end(failed [][]string) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if len(w.lines.rest) > 0 {
		fmt.Fprintf(w.r.out, "%s\n", w.lines.rest)
	}
	w.r.failed = append(w.r.failed, failed...)
}

func (w *progressWriter) beat(ctx context.Context, name string, began time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wrote:
		case <-time.After(heartbeat):
			w.r.say("%s: still running after %s", name, time.Since(began).Round(time.Second))
		}
	}
}

// shorten returns a command line as text: at most its first seven words, and how many more there are.
func shorten(args []string) string {
	const most = 7
	if len(args) <= most {
		return strings.Join(args, " ")
	}
	return fmt.Sprintf("%s ... (%d more)", strings.Join(args[:most], " "), len(args)-most)
}
