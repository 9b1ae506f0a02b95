// Package rounds lets schedulers take turns in placing the same pods on the same cluster, and measures the cost of
// each.
//
// Every contender is a separate process with its own copy of the cluster; only one of them works at a time.
// Invariant: all place pods of the same shapes, though slow contenders place fewer of them in a round. The cheapest
// round of each counts, so that other work on the computer has little influence. The package measures and does not
// judge. It stops if a contender ends or answers with something other than an outcome.
package rounds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/test/bench/staticapi"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
	"github.com/tenon-numa/tenon/test/bench/wire"
)

// Options are the settings of a measurement.
type Options struct {
	Size synthetic.Size
	Seed uint64
	// Rounds is how many turns each contender has at most, in addition to a warm-up.
	Rounds int
	// Enough ends the turns of a contender whose rounds have taken longer than this together. It has at least two
	// turns.
	Enough time.Duration
	// Slow is a CPU time per pod. A contender that needs more in the warm-up has no turns, and is reported as slow; 0
	// means never.
	Slow time.Duration
	// Blocks is the number of blocks of pods in a round; see [synthetic.Block]. A contender that needs more than a
	// second of CPU time for the block of the warm-up, and several times as much as another one, gets only one block in
	// each round.
	Blocks int
}

// Result is the cost of one pod for a contender.
type Result struct {
	Contender string
	// CPU is the CPU time in nanoseconds; Bytes and Allocations count what was allocated.
	CPU, Bytes, Allocations float64
	// Evaluated is the number of filtered nodes.
	Evaluated float64
	// Placed and Refused are the numbers of pods that found a node and that did not, in all rounds.
	Placed, Refused int
	// Memory is the memory of the warm process after it has returned unneeded memory; Peak is the most that it ever
	// had. Both are bytes.
	Memory, Peak int64
	// Slow means that only the warm-up was measured.
	Slow bool
	// Places has the result of every pod, in the order in which the pods were placed.
	Places []wire.Place
}

// keptPods is how many pods stay placed between rounds.
const keptPods = 2 * synthetic.Block

// maxDuration bounds one measurement, so that a contender that hangs does not block the others.
const maxDuration = 20 * time.Minute

// Measure has the contenders place pods, and writes its progress to a writer. The results are in the order of the
// contenders. Measure fails if one contender fails.
func Measure(ctx context.Context, all []Contender, o Options, progress io.Writer) (out []Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDuration,
		fmt.Errorf("contenders are not done after %s", maxDuration))
	defer cancel()
	dir, err := os.MkdirTemp("", "tenon-rounds-")
	if err != nil {
		return nil, fmt.Errorf("measure contenders: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(progress, "cluster of %d nodes, %d %% full\n", o.Size.Nodes, o.Size.Full)
	c, err := synthetic.Make(o.Size, o.Seed)
	if err != nil {
		return nil, err
	}
	pods, err := c.Arrivals((1 + o.Rounds*o.Blocks) * synthetic.Block)
	if err != nil {
		return nil, err
	}
	server, err := staticapi.Serve(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	turns, err := begin(ctx, all, dir, server.URL(), pods, o, progress)
	defer func() {
		for _, t := range turns {
			err = errors.Join(err, t.stop())
		}
	}()
	if err != nil {
		return nil, err
	}
	for r := range o.Rounds {
		for _, t := range turns {
			if err := t.take(o, r); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range turns {
		fmt.Fprintf(progress, "  %s: %.0f us per pod, %d nodes\n", t.Contender, t.CPU/1e3, int(t.Evaluated))
		out = append(out, t.Result)
	}
	return out, nil
}

// begin starts the contenders and warms them up. Their first lists take most of the time and memory, so only as many
// start at once as there are CPUs. It returns the contenders that have started even if it returns an error; the
// caller ends them.
func begin(ctx context.Context, all []Contender, dir, url string, pods []*v1.Pod, o Options,
	progress io.Writer) (turns []*turn, err error) {
	type begun struct {
		turn *turn
		err  error
	}
	done, free := make([]chan begun, len(all)), make(chan struct{}, runtime.NumCPU())
	for i, c := range all {
		done[i] = make(chan begun, 1)
		go func() {
			free <- struct{}{}
			defer func() { <-free }()
			t, err := start(ctx, c, filepath.Join(dir, fmt.Sprint(i)), url, pods)
			if err == nil {
				err = t.warmUp(o)
			}
			done[i] <- begun{t, err}
		}()
	}
	for i := range all {
		b := <-done[i]
		err = errors.Join(err, b.err)
		if b.turn == nil {
			continue
		}
		turns = append(turns, b.turn)
		if b.err == nil {
			fmt.Fprintf(progress, "  %s: ready after %.1f s, %d MiB\n", b.turn.Contender, b.turn.ready.Seconds(),
				b.turn.Memory>>20)
		}
	}
	for _, t := range turns {
		t.blocks = o.Blocks
		lags := func(other *turn) bool { return t.warming > muchSlower*other.warming }
		if t.warming > time.Second && slices.ContainsFunc(turns, lags) {
			t.blocks = 1
		}
	}
	return turns, err
}

// muchSlower is how many times as long as another one a contender may take for its warm-up and still place as many pods
// in a round. The warm-ups of equally fast contenders differ by less, even on a busy machine.
const muchSlower = 8

// turn is a running contender, with its result so far.
type turn struct {
	Result
	cmd    *exec.Cmd
	in     io.WriteCloser
	ask    *json.Encoder
	answer *json.Decoder
	pods   []*v1.Pod // still to be placed
	blocks int
	// ready is the time from the contender's start to its first places, warming the CPU time of its warm-up, and spent
	// the time of its rounds.
	ready, warming, spent time.Duration
}

// start starts a contender's program with the pods that it will place. The end of its standard error becomes part of
// the error that stop returns.
func start(ctx context.Context, c Contender, home, url string, pods []*v1.Pod) (*turn, error) {
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	config, err := c.configure(home, url)
	if err != nil {
		return nil, err
	}
	t := &turn{Result: Result{Contender: c.Name}, pods: pods}
	t.cmd = exec.CommandContext(ctx, c.Command[0], append(c.Command[1:len(c.Command):len(c.Command)],
		"-config", config)...)
	t.cmd.Stderr = &tail{}
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	t.ask, t.answer = json.NewEncoder(t.in), json.NewDecoder(out)
	return t, nil
}

// stop closes the program's standard input, which ends it, and waits for that.
func (t *turn) stop() error {
	if err := errors.Join(t.in.Close(), t.cmd.Wait()); err != nil {
		return fmt.Errorf("end %s: %w\n%s", t.Contender, err, t.cmd.Stderr)
	}
	return nil
}

// warmUp has a contender place one block of pods, so that it has seen all shapes. The CPU time decides whether it is
// slow.
func (t *turn) warmUp(o Options) error {
	began := time.Now()
	out, err := t.round(synthetic.Block, true)
	if err != nil {
		return err
	}
	t.ready, t.warming, t.Memory = time.Since(began), time.Duration(out.CPU), out.Memory
	t.Slow = o.Slow > 0 && t.warming > o.Slow*synthetic.Block
	t.count(out)
	if !t.Slow {
		t.CPU = 0 // it was not warm
	}
	return nil
}

// take runs round r of a contender, counted from 0, unless the contender has no more turns.
func (t *turn) take(o Options, r int) error {
	if t.Slow || r >= 2 && t.spent > o.Enough {
		return nil
	}
	out, err := t.round(t.blocks*synthetic.Block, false)
	if err != nil {
		return err
	}
	t.spent += time.Duration(out.Wall)
	t.count(out)
	return nil
}

// round sends the next n pods, and returns the contender's answer about them. settle makes the contender return
// unneeded memory afterwards.
func (t *turn) round(n int, settle bool) (out wire.Outcome, err error) {
	if n > len(t.pods) {
		return out, fmt.Errorf("%s: %d pods are left, %d are wanted", t.Contender, len(t.pods), n)
	}
	if err := t.ask.Encode(wire.Round{Pods: t.pods[:n], Keep: keptPods, Settle: settle}); err != nil {
		return out, fmt.Errorf("ask %s: %w", t.Contender, err)
	}
	if err := t.answer.Decode(&out); err != nil {
		return out, fmt.Errorf("answer of %s: %w", t.Contender, err)
	}
	t.pods = t.pods[n:]
	if len(out.Places) != n {
		return out, fmt.Errorf("answer of %s is about %d pods, want %d", t.Contender, len(out.Places), n)
	}
	return out, nil
}

// count adds the places of an outcome to the result. It takes the costs of the outcome if its CPU time per pod is the
// least so far.
func (t *turn) count(out wire.Outcome) {
	n := float64(len(out.Places))
	if cpu := float64(out.CPU) / n; t.CPU == 0 || cpu < t.CPU {
		t.CPU, t.Bytes, t.Allocations = cpu, float64(out.Bytes)/n, float64(out.Allocations)/n
		t.Evaluated = float64(out.Evaluated) / n
	}
	for _, p := range out.Places {
		if p.Node != "" {
			t.Placed++
		} else {
			t.Refused++
		}
	}
	t.Places = append(t.Places, out.Places...)
	t.Peak = max(t.Peak, out.Peak)
}

// tail keeps the end of a program's output.
type tail struct{ text []byte }

const tailSize = 4096

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String returns the end of the text.
func (t *tail) String() string { return string(t.text) }
