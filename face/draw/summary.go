package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Summary writes a table of one line per node, in order of names: what decides there, and how much is
// free. No line is wider than DefaultWidth. The error is the writer's.
func Summary(w io.Writer, nodes []*ledger.Node) error {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b *ledger.Node) int { return cmp.Compare(a.Name, b.Name) })
	rows := [][]string{{"NODE", "POLICY", "SCOPE", "NUMAS", "CPUS FREE", "PODS", "DEVICES FREE"}}
	for _, n := range nodes {
		rows = append(rows, summaryRow(n))
	}
	return Table(w, rows, DefaultWidth)
}

func summaryRow(n *ledger.Node) []string {
	row := []string{printable(n.Name), n.Rules.Topology.Policy.String(), n.Rules.Topology.Scope.String()}
	if n.Machine == nil || n.Usage == nil {
		return append(row, "?", "?", "?", "?")
	}
	cpus := fmt.Sprintf("%d/%d", n.Usage.FreeCPUs().Len(), n.Machine.CPUs().Len())
	if !n.Rules.CPU.Static {
		cpus = fmt.Sprintf("%d shared", n.Machine.CPUs().Len())
	}
	var devs []string
	for _, r := range n.Machine.Resources() {
		devs = append(devs, fmt.Sprintf("%s %d/%d", shortName(r.Name), len(n.Usage.FreeDevices(r.Name)), len(r.Devices)))
	}
	if len(devs) == 0 {
		devs = []string{"-"}
	}
	return append(row, fmt.Sprint(len(n.Machine.NUMAs())), cpus, fmt.Sprint(len(n.Entries)), strings.Join(devs, ", "))
}

// Table writes rows in columns of their longest cell, two blanks apart. Where that is wider than
// width, the first column is cut to at least 12 runes, and then the ends of lines are cut.
func Table(w io.Writer, rows [][]string, width int) error {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], line{{c, plain}}.width())
		}
	}
	total := 0
	for _, x := range widths {
		total += x + 2
	}
	if over := total - 2 - width; over > 0 && len(widths) > 0 {
		widths[0] = max(min(widths[0], 12), widths[0]-over)
	}
	b := bufio.NewWriter(w)
	for _, r := range rows {
		var l line
		for i, c := range r {
			if i == 0 {
				c = clipText(c, widths[0])
			}
			l = append(l, line{{c, plain}}.pad(widths[i]+2)...)
		}
		cut := strings.TrimRight(textOf(l), " ")
		b.WriteString(clipText(cut, width))
		b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func textOf(l line) string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}
