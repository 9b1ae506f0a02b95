package cli

import (
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
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/face/draw"
)

const (
	fewMaps         = 8        // nodes that are drawn without --all
	maxMachineBytes = 32 << 20 // bytes of a machine file
)

const mapExample = `  # All nodes
  kubectl tenon map

  # One node, or those with a label
  kubectl tenon map node-a
  kubectl tenon map -l pool=gpu

  # A machine of the catalogue or of a file, without a cluster
  kubectl tenon map --machine gpu-8
  kubectl tenon map --machine epyc.txt`

const colorHelp = `When to use colour. One of: (auto, always, never). "auto" is on a terminal, unless NO_COLOR is set.`

var colors = []string{"auto", "always", "never"}

// checkColor returns an error for a value that --color does not have.
func checkColor(value string) error {
	if !slices.Contains(colors, value) {
		return fmt.Errorf("--color %q is not known: want auto, always or never", value)
	}
	return nil
}

// mapFlags are the choices of the map command.
type mapFlags struct {
	all, watch     bool
	output         output
	machine, color string
	selector       string
}

func (a *app) mapCommand() *cobra.Command {
	var f mapFlags
	c := &cobra.Command{
		Use:   "map [NODE...]",
		Short: "Draw machines: which CPUs, memory and devices are free, reserved, or held by which pod",
		Long: `Draw machines: which CPUs, memory and devices are free, reserved, or held by which pod.

Without NODE and selector the command prints a table of all nodes, and then their maps if there are few. It knows
a node by its layout. A node that has none is known by its NodeResourceTopology and marked coarse: that
object has amounts, and not which CPUs and devices they are.

With -o wide the command prints the table alone, with all columns.`,
		Example: mapExample,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			f.color = a.color
			return a.repeat(c, f.watch, func(ctx context.Context, w io.Writer) error { return a.drawMap(ctx, c, w, f, args) })
		},
	}
	c.Flags().BoolVar(&f.all, "all", false, "Draw every node, however many there are.")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "Draw only the nodes that this label selector selects.")
	c.Flags().StringVar(&f.machine, "machine", "",
		"Draw a machine, as a file in text form or a name of the catalogue, without a cluster.")
	bindWatch(c, &f.watch)
	f.output.bind(c, "json", "yaml", "name", "wide")
	complete(c, "machine", a.machineNames)
	c.ValidArgsFunction = others(a.nodeNames)
	return c
}

// drawMap writes the map once, or the table or the document that the flags select.
func (a *app) drawMap(ctx context.Context, c *cobra.Command, w io.Writer, f mapFlags, args []string) error {
	s, err := a.scene(ctx, c, f, nodeNamesIn(args))
	if err != nil {
		return err
	}
	if done, err := f.output.write(w, s.document(f.machine != ""), nodeRefs(s.nodes)); done {
		return err
	}
	if f.output.format == "wide" {
		return s.writeSummary(w, true)
	}
	o := f.options(raw(c.OutOrStdout()))
	o.Misaligned = s.misaligned
	if err := f.write(w, s, o, len(args) == 0 && f.machine == ""); err != nil {
		return err
	}
	if f.machine != "" {
		return writeNotes(w, s.notes)
	}
	return writeNotes(w, sortedProblems(slices.Concat(s.notes, warnings(s.nodes))))
}

func (f mapFlags) check(args []string) error {
	if f.machine != "" && f.watch {
		return errors.New("--machine and --watch cannot both be given: a file does not change")
	}
	if f.machine != "" && (len(args) > 0 || f.selector != "") {
		return errors.New("a NODE or --selector and --machine cannot both be given")
	}
	if len(args) > 0 && f.selector != "" {
		return errors.New("a NODE and --selector cannot both be given")
	}
	return f.output.check()
}

// nodeRefs returns the names of nodes as kubectl writes them.
func nodeRefs(nodes []*state.Node) (out []string) {
	for _, n := range nodes {
		out = append(out, "node/"+n.Name)
	}
	return out
}

// scene is what a map shows: nodes to draw, problems with the reasons why other nodes cannot be drawn, notes with
// warnings about the drawn nodes, and the UIDs of misaligned pods on them.
type scene struct {
	nodes           []*state.Node
	problems, notes []document.Problem
	misaligned      map[string]bool
	claims          *document.Claims // nil for a machine file
}

// scene reads the machine of --machine if there is one, and otherwise the cluster, with all nodes if there are neither
// names nor a selector.
func (a *app) scene(ctx context.Context, c *cobra.Command, f mapFlags, names []string) (s scene, err error) {
	if f.machine != "" {
		n, err := a.readRuled(f.machine, c.ErrOrStderr())
		return scene{nodes: []*state.Node{n}}, err
	}
	cluster, _, err := a.connect()
	if err != nil {
		return s, err
	}
	if s.nodes, s.problems, err = cluster.Nodes(ctx); err != nil {
		return s, fmt.Errorf("read the nodes: %w", err)
	}
	pods, err := cluster.Pods(ctx, "")
	if err != nil {
		return s, fmt.Errorf("read the pods: %w", err)
	}
	s.nodes, s.problems = sortedNodes(s.nodes), sortedProblems(s.problems)
	if n, ok := cluster.(noter); ok {
		s.notes = sortedProblems(n.Notes())
	}
	switch {
	case f.selector != "":
		if names, err = selectedNodes(ctx, cluster, f.selector); err != nil {
			return s, err
		}
		s.keep(names)
	case len(names) > 0:
		if err := s.only(names); err != nil {
			return s, err
		}
	}
	s.misaligned = alignmentsOf(s.nodes, pods).marks()
	s.claims, err = claimsIn(ctx, cluster)
	return s, err
}

// only removes from the scene all nodes except the named ones. It returns an error if one of them cannot be drawn, or
// is not known.
func (s *scene) only(names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(s.nodes, func(n *state.Node) bool { return n.Name == name }) {
			continue
		}
		if p := s.problem(name); p != nil {
			return fmt.Errorf("node %q cannot be drawn: %s", p.Node, p.Reason)
		}
		return unknownNode(name, nodesKnown(s.nodes, s.problems))
	}
	s.keep(names)
	return nil
}

// keep removes from the scene all nodes except the named ones.
func (s *scene) keep(names []string) {
	ofOther := func(p document.Problem) bool { return !slices.Contains(names, p.Node) }
	s.nodes = slices.DeleteFunc(s.nodes, func(n *state.Node) bool { return !slices.Contains(names, n.Name) })
	s.problems, s.notes = slices.DeleteFunc(s.problems, ofOther), slices.DeleteFunc(s.notes, ofOther)
}

// problem returns the reason why a node cannot be drawn; nil if there is none.
func (s *scene) problem(name string) *document.Problem {
	if i := slices.IndexFunc(s.problems, func(p document.Problem) bool { return p.Node == name }); i >= 0 {
		return &s.problems[i]
	}
	return nil
}

// noter is a [Cluster] that also has warnings about the reports of nodes. Notes returns the warnings about the nodes
// that the last call of Nodes returned.
type noter interface{ Notes() []document.Problem }

func writeNotes(w io.Writer, notes []document.Problem) error {
	if len(notes) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return problemTable("WARNINGS", notes).write(w, false)
}

// readMachine returns a node with the machine in a file, without any holdings. It writes warnings about the machine
// to stderr, as kubectl does.
func (a *app) readMachine(path string, stderr io.Writer) (*state.Node, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open machine file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMachineBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read machine file: %w", err)
	}
	if len(data) > maxMachineBytes {
		return nil, fmt.Errorf("machine file %s is larger than %d bytes", path, maxMachineBytes)
	}
	return a.parsed(path, data, stderr)
}

// parsed returns a node with the machine in data, the content of the file at path.
func (a *app) parsed(path string, data []byte, stderr io.Writer) (*state.Node, error) {
	parse := a.setup.Machine
	if parse == nil {
		parse = parseMachine
	}
	m, warnings, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("machine file %s: %w", path, err)
	}
	for _, w := range warnings {
		fmt.Fprintln(stderr, "Warning: "+w)
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return &state.Node{Name: name, Machine: m, Usage: place.NewUsage(m, place.Rules{})}, nil
}

// parseMachine reads the text form of a machine.
func parseMachine(data []byte) (*topo.Machine, []string, error) {
	m, err := topo.ParseMachine(string(data))
	return m, nil, err
}

// write draws the nodes. If summary is set, a table of all nodes precedes them, and more than fewMaps nodes are drawn
// only with --all.
func (f mapFlags) write(w io.Writer, s scene, o draw.Options, summary bool) error {
	if summary {
		if err := s.writeSummary(w, false); err != nil {
			return err
		}
		if len(s.nodes) > fewMaps && !f.all {
			_, err := fmt.Fprintln(w, "\nName a node, or say --all, to see maps.")
			return err
		}
	}
	for i, n := range s.nodes {
		if i > 0 || summary {
			fmt.Fprintln(w)
		}
		if err := draw.Map(raw(w), n, o); err != nil {
			return err
		}
		if err := writeNodeClaims(w, n.Name, s.claims); err != nil {
			return err
		}
	}
	return nil
}

// writeSummary writes a table of all nodes, and why some cannot be drawn.
func (s scene) writeSummary(w io.Writer, wide bool) error {
	switch {
	case len(s.nodes) > 0:
		if err := writeNodes(w, s.nodes, s.claims, wide); err != nil {
			return err
		}
	default:
		if _, err := fmt.Fprintln(w, "No node has a layout or a NodeResourceTopology."); err != nil {
			return err
		}
	}
	if len(s.problems) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return problemTable("NOT DRAWN BECAUSE", s.problems).write(w, false)
}

// options returns the width and colour of the drawing. If w is a terminal, the drawing may be wider than the default
// and show colour.
func (f mapFlags) options(w io.Writer) draw.Options {
	o := draw.Options{Color: f.color == "always"}
	file, ok := w.(*os.File)
	if !ok {
		return o
	}
	if f.color == "auto" {
		o.Color = draw.ColorWanted(file)
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		o.Width = width
	}
	return o
}
