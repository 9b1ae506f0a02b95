package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/face/draw"
)

const compareLong = `Replay pods that come and go on many machines under Tenon and under other schedulers.

Nothing runs, and no cluster is asked: the kubelets are computed, time is a number. All contenders get
the same machines, the same pods in the same order, and the same seeds. What they know, what the rows mean,
and how to write a trace:
` + document.Docs + "packing.md"

const compareExample = `  # Jobs of 1 to 8 GPUs on machines with two sockets
  kubectl tenon compare --trace gpu

  # Your own machines and pods, or a mix of them
  kubectl tenon compare --trace pods.txt --nodes 500 --runs 3

  # 72 pods for the machines of the lab, in a hundred orders of arrival
  kubectl tenon compare --trace demo --runs 100

  # All that are large, as a picture
  kubectl tenon compare --trace all -o svg > packing.svg`

// allTraces is the value of --trace for all built-in traces except the small one of the demonstration.
const allTraces = "all"

// compareFlags are the choices of the compare command.
type compareFlags struct {
	trace, page, summary string
	output               output
	settings             sim.Settings
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:     "compare",
		Short:   "Compare schedulers on simulated machines: who packs more, who is refused, who waits",
		Long:    compareLong,
		Example: compareExample,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			scripts, err := f.scripts()
			if err != nil {
				return err
			}
			if err := f.checkPages(scripts); err != nil {
				return err
			}
			found, err := f.compare(c.Context(), raw(c.ErrOrStderr()), scripts)
			if err != nil {
				return err
			}
			return f.write(c.OutOrStdout(), found)
		},
	}
	c.Flags().StringVar(&f.trace, "trace", "gpu", "Trace to replay: "+strings.Join(sim.Names(), ", ")+", a file, or "+
		allTraces+" for all of these but "+sim.Demo+".")
	c.Flags().IntVar(&f.settings.Machines, "nodes", 0,
		"Number of machines, in the proportions of the trace; 0 is the number that the trace has.")
	c.Flags().Uint64Var(&f.settings.Seed, "seed", 1, "First seed.")
	c.Flags().IntVar(&f.settings.Runs, "runs", 1, "Number of seeds; the numbers shown are means over them.")
	c.Flags().IntVar(&f.settings.Cases, "cases", 0, "Number of small cases to solve exactly, too.")
	c.Flags().IntVar(&f.settings.Moves, "moves", 0,
		"Also Tenon that moves pods for others that wait: at most so many every five minutes. "+
			"Other scores of Tenon are left out.")
	c.Flags().IntVar(&f.settings.Load, "load", 0,
		fmt.Sprintf("How much of the scarcest resource random pods keep busy, in percent; 0 is %d.", sim.UsualLoad))
	f.output.bind(c, "table", "json", "yaml", "svg")
	complete(c, "trace", cobra.FixedCompletions(append(sim.Names(), allTraces), cobra.ShellCompDirectiveDefault))
	c.Flags().StringVar(&f.page, "page", "",
		"Markdown file to write the tables into, between its markers. The picture is written beside it.")
	c.Flags().StringVar(&f.summary, "summary", "",
		"Markdown file to write short tables into, between its markers, with a sentence on each row.")
	return c
}

func (f compareFlags) check() error {
	switch {
	case f.page != "" && f.summary != "":
		return errors.New("--page and --summary cannot both be given: they compare different schedulers")
	case f.settings.Machines < 0 || f.settings.Machines > sim.MaxMachines:
		return fmt.Errorf("--nodes %d is outside 0..%d", f.settings.Machines, sim.MaxMachines)
	case f.settings.Runs < 1 || f.settings.Runs > sim.MaxRuns:
		return fmt.Errorf("--runs %d is outside 1..%d", f.settings.Runs, sim.MaxRuns)
	case f.settings.Moves < 0 || f.settings.Moves > sim.MaxMoves:
		return fmt.Errorf("--moves %d is outside 0..%d", f.settings.Moves, sim.MaxMoves)
	case f.settings.Load < 0 || f.settings.Load > sim.MaxLoad:
		return fmt.Errorf("--load %d is outside 0..%d", f.settings.Load, sim.MaxLoad)
	case f.settings.Cases < 0 || f.settings.Cases > sim.MaxCases:
		return fmt.Errorf("--cases %d is outside 0..%d", f.settings.Cases, sim.MaxCases)
	}
	return f.output.check()
}

// scripts returns the traces that --trace names: built-in ones, or a file.
func (f compareFlags) scripts() (out []*sim.Script, err error) {
	names := []string{f.trace}
	if f.trace == allTraces {
		names = slices.DeleteFunc(sim.Names(), func(name string) bool { return name == sim.Demo })
	}
	for _, name := range names {
		text, ok := sim.Text(name)
		if !ok {
			if text, err = readTrace(name); err != nil {
				return nil, err
			}
		}
		s, err := sim.Parse(name, strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("read trace: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

// readTrace returns the text of a file. It returns an error if the file has more bytes than a machine file may have.
func readTrace(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("trace %q is none of %s, and no file: %w", path, strings.Join(sim.Names(), ", "), err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxMachineBytes+1))
	if err != nil {
		return "", fmt.Errorf("read trace file %s: %w", path, err)
	}
	if len(data) > maxMachineBytes {
		return "", fmt.Errorf("trace file %s is larger than %d bytes", path, maxMachineBytes)
	}
	return string(data), nil
}

// compare runs the comparison on each trace, and writes the progress to stderr. It returns an error when ctx ends.
func (f compareFlags) compare(ctx context.Context, stderr io.Writer, scripts []*sim.Script) (out []*sim.Comparison,
	err error) {
	for _, s := range scripts {
		progress := compareProgress{w: stderr, trace: s.Name, terminal: isTerminal(stderr)}
		settings := f.settings
		if f.summary != "" {
			settings.Only = summarized()
		}
		settings.Progress = func(p sim.Progress) error {
			progress.report(p)
			return ctx.Err()
		}
		c, err := sim.Compare(s, settings)
		progress.end()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// compareProgress reports the progress of a comparison. On a terminal it rewrites one line; elsewhere it writes one
// line for every run.
type compareProgress struct {
	w        io.Writer
	trace    string
	terminal bool
	last     string
}

func (p *compareProgress) report(at sim.Progress) {
	line := fmt.Sprintf("%s: run %d of %d", p.trace, at.Run, at.Runs)
	if at.Contender == "" {
		line = p.trace + ": small cases"
	}
	line = draw.Printable(line)
	if p.terminal {
		line += fmt.Sprintf(", %s: %d of %d", draw.Printable(at.Contender), at.Done, at.Of)
		fmt.Fprint(p.w, "\r\x1b[K"+line)
	} else if line != p.last {
		fmt.Fprintln(p.w, line)
	}
	p.last = line
}

func (p *compareProgress) end() {
	if p.terminal && p.last != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (f compareFlags) write(w io.Writer, found []*sim.Comparison) error {
	if f.page != "" || f.summary != "" {
		return f.writeFiles(found)
	}
	if done, err := f.output.write(w, comparisonsOf(found), nil); done {
		return err
	}
	if f.output.format == "svg" {
		return drawComparisons(unfitted(w), found)
	}
	for i, c := range found {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := writeComparison(w, c); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the files that --page and --summary name.
func (f compareFlags) writeFiles(found []*sim.Comparison) error {
	if f.summary != "" {
		return writeTables(f.summary, found, summarize, summaryMark)
	}
	text := func(w io.Writer, c *sim.Comparison) error {
		var table bytes.Buffer
		err := writeComparison(&table, c)
		fmt.Fprintf(w, "```text\n%s```\n", &table)
		return err
	}
	if err := writeTables(f.page, found, text, ""); err != nil {
		return err
	}
	var picture bytes.Buffer
	if err := drawComparisons(&picture, found); err != nil {
		return err
	}
	image := strings.TrimSuffix(f.page, filepath.Ext(f.page)) + ".svg"
	return os.WriteFile(image, picture.Bytes(), 0o644)
}

// summaryMark ends the names of the markers of --summary.
const summaryMark = " summary"

// checkPages returns an error if a page lacks the markers of a trace: the simulation takes a while.
func (f compareFlags) checkPages(scripts []*sim.Script) error {
	path, suffix := f.page, ""
	if f.summary != "" {
		path, suffix = f.summary, summaryMark
	}
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	for _, s := range scripts {
		if _, err := replaceBetween(string(data), s.Name+suffix, ""); err != nil {
			return fmt.Errorf("page %s: %w", path, err)
		}
	}
	return nil
}

// writeTables writes tables into a Markdown file, each between the markers of its trace. The markers have
// the names of the traces, and a suffix.
func writeTables(path string, found []*sim.Comparison, table func(io.Writer, *sim.Comparison) error,
	suffix string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	page := string(data)
	for _, c := range found {
		var text bytes.Buffer
		if err := table(&text, c); err != nil {
			return err
		}
		if page, err = replaceBetween(page, c.Trace+suffix, "\n"+text.String()); err != nil {
			return fmt.Errorf("page %s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// replaceBetween returns a page with new text between the two markers of a name; an error if a marker is missing.
func replaceBetween(page, name, text string) (string, error) {
	begin, end := "<!-- begin "+name+" -->", "<!-- end "+name+" -->"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no lines %q and %q", begin, end)
	}
	return head + begin + text + end + tail, nil
}
