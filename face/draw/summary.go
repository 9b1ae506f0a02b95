package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// The least columns that a table leaves to its first and last column.
const (
	leastFirst = 12
	leastLast  = 32
)

// Summary writes a table of one line per node, in order of names: what decides there, how much is free, and,
// where some nodes are coarse, how each is known. A "+" behind the pods says that somebody unknown holds
// something, too. No line is wider than DefaultWidth. The error is the writer's.
func Summary(w io.Writer, nodes []*ledger.Node) error {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b *ledger.Node) int { return cmp.Compare(a.Name, b.Name) })
	rows := [][]string{{"NODE", "POLICY", "SCOPE", "NUMAS", "CPUS FREE", "PODS", "DEVICES FREE"}}
	for _, n := range nodes {
		rows = append(rows, summaryRow(n))
	}
	if slices.ContainsFunc(nodes, func(n *ledger.Node) bool { return n.Quality == ledger.Coarse }) {
		rows[0] = slices.Insert(rows[0], 1, "KNOWN")
		for i, n := range nodes {
			rows[i+1] = slices.Insert(rows[i+1], 1, n.Quality.String())
		}
	}
	return Table(w, rows, DefaultWidth)
}

func summaryRow(n *ledger.Node) []string {
	name := Printable(n.Name)
	if len(n.Inexact) > 0 {
		name += " (inexact)"
	}
	row := []string{name, n.Rules.Topology.Policy.String(), n.Rules.Topology.Scope.String()}
	if n.Machine == nil || n.Usage == nil {
		return append(row, "?", "?", "?", "?")
	}
	cpus := fmt.Sprintf("%d/%d", n.Usage.FreeCPUs().Len(), n.Machine.CPUs().Len())
	switch {
	case n.Rules.CPU.Static:
	case n.Quality == ledger.Coarse:
		cpus = "not told"
	default:
		cpus = fmt.Sprintf("%d shared", n.Machine.CPUs().Len())
	}
	return append(row, fmt.Sprint(len(n.Machine.NUMAs())), cpus, podCount(n), deviceSummary(n))
}

func podCount(n *ledger.Node) string {
	for i, e := range n.Entries {
		if e.Source == ledger.Counted && e.Pod.UID == "" {
			return fmt.Sprintf("%d+", len(slices.Delete(slices.Clone(n.Entries), i, i+1)))
		}
	}
	return fmt.Sprint(len(n.Entries))
}

// deviceSummary counts the free devices of as many resources as a line has room for.
func deviceSummary(n *ledger.Node) string {
	const room = leastLast - len(", +64 more")
	out := ""
	all := n.Machine.Resources()
	for i, r := range all {
		item := fmt.Sprintf("%s %d/%d", shortName(r.Name), len(n.Usage.FreeDevices(r.Name)), len(r.Devices))
		switch {
		case out == "":
			out = clipText(item, room)
		case len(out)+len(item)+2 > room && !(i == len(all)-1 && len(out)+len(item)+2 <= leastLast):
			return fmt.Sprintf("%s, +%d more", out, len(all)-i)
		default:
			out += ", " + item
		}
	}
	if out == "" {
		return "-"
	}
	return out
}

// Table writes rows in columns of their longest cell, two blanks apart. Where that is wider than
// width, the last column is wrapped between the items of its cells (see [Items]), and where the others
// leave it too little room, the first column is cut. The error is the writer's.
func Table(w io.Writer, rows [][]string, width int) error {
	widths := columnWidths(rows, width)
	last := len(widths) - 1
	b := bufio.NewWriter(w)
	for _, r := range rows {
		var head line
		for i, c := range r[:min(len(r), max(0, last))] {
			head = append(head, text(plain, "%s", clipText(Printable(c), widths[i])).pad(widths[i]+2)...)
		}
		body := []line{nil}
		if len(r) > last && last >= 0 && r[last] != "" {
			body = wrap(plain, strings.Split(Printable(r[last]), joint), widths[last])
		}
		for _, l := range hang(head, body) {
			l.clip(width).write(b, false)
			b.WriteByte('\n')
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// columnWidths gives the first columns what they need and the last one the rest.
func columnWidths(rows [][]string, width int) []int {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	if len(widths) < 2 {
		return widths
	}
	last, before := len(widths)-1, 0
	for _, x := range widths[:last] {
		before += x + 2
	}
	if over := before + min(widths[last], leastLast) - width; over > 0 {
		cut := min(over, max(0, widths[0]-leastFirst))
		widths[0], before = widths[0]-cut, before-cut
	}
	widths[last] = max(1, min(widths[last], width-before))
	return widths
}

// ItemsOn says what holdings take of a node, for example "cpus 1-4,33-36 · 24Gi memory numa 0". A "~" stands
// before device ids of which the kubelet may as well take others. Of a coarse node, whose ids are made up, it says
// how many on which numa: "12 cpus numa 0 · 24Gi memory numa 0".
func ItemsOn(n *ledger.Node, hs ...place.Holding) string {
	p := picture{node: n, machine: n.Machine}
	return strings.Join(p.holdItems(hs), joint)
}
