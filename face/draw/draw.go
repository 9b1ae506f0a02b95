// Package draw renders machines as text: which CPUs, memory and devices of every NUMA node are reserved, free, or
// held by which pod.
//
// Invariant: the same node gives the same text, no line is wider than Options.Width runes, and the text without
// colour has all information. Upper-case letters are holdings that the node reported, and lower-case letters are
// predictions. Drawing does not depend on the terminal or the environment: callers pass what [ColorWanted]
// returns.
package draw

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"

	"github.com/tenon-numa/tenon/core/state"
)

// Bounds of Options.Width, in columns. With fewer columns than the lower bound, a box has no room for its texts.
const (
	DefaultWidth = 100
	minWidth     = 40
	maxWidth     = 400
)

// Options select how [Map] draws.
type Options struct {
	// Color adds ANSI 256-colour sequences; they do not count towards Width.
	Color bool
	// Width is the largest width of a line, in columns; 0 means DefaultWidth. Other values are clamped to 40..400.
	Width int
	// Misaligned are the UIDs of pods that get a mark in the legend.
	Misaligned map[string]bool
}

// ColorWanted reports whether f shows colour: it is a terminal that is not "dumb", and NO_COLOR is not set
// (https://no-color.org).
func ColorWanted(f *os.File) bool {
	return f != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Map draws one node: a box per NUMA node, devices that belong to no single NUMA node, distances, and a legend with
// the holdings of every pod. It returns the writer's error, or an error that names a node without a machine.
func Map(w io.Writer, n *state.Node, o Options) error {
	if n == nil {
		return errors.New("draw map: no node")
	}
	if n.Machine == nil {
		return fmt.Errorf("draw map of node %q: its machine is not known", n.Name)
	}
	width := o.width()
	p := newPicture(n)
	p.misaligned = o.Misaligned
	var out []line
	for i, part := range [][]line{
		slices.Concat(p.heading(width), p.boxes(width), p.sharedDevices(width)), p.distances(width), p.legend(width),
	} {
		if i > 0 && len(part) > 0 {
			out = append(out, nil)
		}
		out = append(out, part...)
	}
	if err := write(w, out, width, o.Color); err != nil {
		return fmt.Errorf("draw map of node %q: %w", n.Name, err)
	}
	return nil
}

func (o Options) width() int {
	if o.Width == 0 {
		return DefaultWidth
	}
	return min(max(o.Width, minWidth), maxWidth)
}

func write(w io.Writer, lines []line, width int, color bool) error {
	b := bufio.NewWriter(w)
	for _, l := range lines {
		l.clip(width).write(b, color)
		b.WriteByte('\n')
	}
	return b.Flush()
}
