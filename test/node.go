package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// trials are the packages whose tests boot real nodes or a browser, or run foreign operators, by name. Each is a
// separate step: it builds programs, takes minutes and all CPUs of a small computer, and prints its progress.
var trials = map[string]string{
	realNodes:    "github.com/tenon-numa/tenon/test/vm/realnode/trial",
	pinning:      "github.com/tenon-numa/tenon/test/vm/realnode/trial",
	claimedCPUs:  "github.com/tenon-numa/tenon/test/vm/realnode/trial",
	installation: "github.com/tenon-numa/tenon/test/vm/realnode/install",
	console:      "github.com/tenon-numa/tenon/test/console",
	operators:    "github.com/tenon-numa/tenon/lab/operators",
}

const (
	realNodes    = "real nodes"
	pinning      = "pinning on a real node"
	claimedCPUs  = "claimed CPUs on a real node"
	installation = "installation on a real node"
	console      = "console in a browser"
	operators    = "gangs of operators"
)

// hungTries is how many times a trial is run, at most, if a guest hangs each time. If each CPU of a guest is a thread
// of its own, every other guest hangs on a computer of two cores, always within its first minute, and never twice in
// a row.
const hungTries = 6

// trial runs a trial. Its result is never taken from the cache: the go command cannot detect that a trial builds
// programs itself.
func (r *runner) trial(ctx context.Context, name string, args []string) error {
	// The package comes before the arguments, because the go command takes what follows a test's own flag for the test.
	line := slices.Concat([]string{"go", "test", "-v", "-count=1", "-timeout", "75m", trials[name]}, args)
	out := &testOutput{}
	err := r.watchTrial(ctx, out, name, line)
	for range hungTries - 1 {
		if err == nil || !out.hung {
			break
		}
		r.say("%s: a guest stood still, which is QEMU's fault and not the nodes': once more", name)
		out = &testOutput{}
		err = r.watchTrial(ctx, out, name, line)
	}
	if err != nil || len(out.why) == 0 {
		return err
	}
	r.withdraw(name)
	return r.reportNotRun("%s: %s", name, strings.Join(out.why, "; "))
}

// silentFor is how long a trial may print nothing. A trial that passes waits silently for two minutes at most, and
// for some five while it builds a kubelet for the first time.
const silentFor = 10 * time.Minute

// watchTrial runs a trial, and ends it when it has printed nothing for silentFor. In this case a guest hangs without
// a message of its kernel; the trial prints what its goroutines wait for, out.hung is set, and the error is
// errSilent.
func (r *runner) watchTrial(ctx context.Context, out *testOutput, name string, line []string) error {
	watchedCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out.silent = time.AfterFunc(silentFor, func() { stop(errSilent) })
	defer out.silent.Stop()
	err := r.program(watchedCtx, out, name, line...)
	if errors.Is(context.Cause(watchedCtx), errSilent) {
		out.hung = true
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// errSilent is the end of a trial that printed nothing.
var errSilent = fmt.Errorf("nothing was printed for %s", silentFor)

// testOutput finds skipped tests in the output of go test -v, each with the last line of its output.
type testOutput struct {
	lines lines
	last  string
	why   []string
	hung  bool // a guest hung (guest.ErrHung), or nothing was printed (errSilent)

	silent *time.Timer // of watchTrial: starts anew when something is printed
}

func (s *testOutput) Write(p []byte) (int, error) {
	if s.silent != nil {
		s.silent.Reset(silentFor)
	}
	s.lines.each(p, func(line string) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "--- SKIP: ") {
			s.why = append(s.why, s.last)
		}
		s.hung = s.hung || strings.Contains(text, "the guest's CPUs are stuck")
		s.last = text
	})
	return len(p), nil
}

// lines cuts output into lines.
type lines struct{ rest []byte }

// each calls do with every line that the next piece of output completes.
func (l *lines) each(p []byte, do func(line string)) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return
		}
		l.rest = rest
		do(string(line))
	}
}
