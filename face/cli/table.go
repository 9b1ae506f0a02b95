package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/face/draw"
)

const (
	// padding is the number of blanks that kubectl's tables put behind a cell. leastCol is the least width of a cell
	// including these blanks.
	padding  = 3
	leastCol = 6
	// The least widths of the first and of the last column.
	leastFirst = 12
	leastLast  = 32
	// joint separates the items of a cell. The text of a last column that is too wide is broken at a joint.
	joint = " · "
)

// table has rows, and the headings of their columns. The columns whose headings are in wide appear only with "-o
// wide".
type table struct {
	heads []string
	rows  [][]string
	wide  []string
}

// write writes the table as kubectl does, in lines of at most textWidth columns: it breaks the last cell between
// items, and cuts the first one if the last has too little room. With "-o wide" a line may be longer. Without rows it
// writes nothing.
func (t table) write(w io.Writer, wide bool) error {
	// These are the widths of k8s.io/cli-runtime/pkg/printers. That package is not used, because since 0.37 it counts
	// bytes where it should count letters.
	var text bytes.Buffer // a table is written at once, so that a terminal's look finds all of it
	out := tabwriter.NewWriter(&text, leastCol, 0, padding, ' ', 0)
	lines := [][]string{t.heads}
	widths := t.widths(wide)
	for _, r := range t.rows {
		lines = append(lines, fitted(r, widths)...)
	}
	if len(t.rows) == 0 {
		return nil
	}
	for _, cells := range lines {
		var shown []string
		for i, c := range cells {
			if wide || !slices.Contains(t.wide, t.heads[i]) {
				shown = append(shown, c)
			}
		}
		fmt.Fprintln(out, strings.Join(shown, "\t"))
	}
	_ = out.Flush() // a bytes.Buffer does not fail
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// widths returns the largest widths of the first and of the last cell; 0 means no bound.
func (t table) widths(wide bool) (w struct{ first, last int }) {
	last := len(t.heads) - 1
	if wide || last < 1 {
		return w
	}
	longest := make([]int, last+1)
	for _, r := range append([][]string{t.heads}, t.rows...) {
		for i, c := range r {
			longest[i] = max(longest[i], utf8.RuneCountInString(c))
		}
	}
	before := 0
	for i, n := range longest[:last] {
		if !slices.Contains(t.wide, t.heads[i]) {
			before += max(leastCol, n+padding)
		}
	}
	w.first = longest[0]
	if over := before + min(longest[last], leastLast) - textWidth; over > 0 {
		cut := min(over, max(0, longest[0]-leastFirst))
		w.first, before = w.first-cut, before-cut
	}
	w.last = max(1, textWidth-before)
	return w
}

// fitted returns a row with the first cell cut, and further rows for the items of the last cell that do not fit into
// one line.
func fitted(r []string, w struct{ first, last int }) (out [][]string) {
	last := len(r) - 1
	lines := draw.Wrap(r[last], w.last)
	for i, l := range lines {
		cells := make([]string, len(r))
		for k := range cells {
			if i == 0 {
				cells[k] = draw.Printable(r[k])
			}
		}
		if i == 0 && w.first > 0 && last > 0 {
			cells[0] = draw.Clip(r[0], w.first)
		}
		cells[last] = strings.TrimRight(l, " ")
		out = append(out, cells)
	}
	return out
}

// problemTable returns a table with one line per problem. head is the heading of the reasons.
func problemTable(head string, problems []document.Problem) table {
	t := table{heads: []string{"NODE", head}}
	for _, p := range problems {
		t.rows = append(t.rows, []string{p.Node, p.Reason})
	}
	return t
}

// firstOf joins at most most names, and writes how many more there are, with a hint where to see them.
func firstOf(names []string, most int, hint string) string {
	list := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more%s", more, hint)
	}
	return list
}
