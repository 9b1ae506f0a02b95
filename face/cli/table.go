package cli

import (
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
	// The columns that kubectl's tables put between cells, and the least width of a cell with them.
	padding  = 3
	leastCol = 6
	// The least columns that a table leaves to its first and to its last column.
	leastFirst = 12
	leastLast  = 32
	// joint stands between the items of a cell. A last column that is too wide is broken at a joint.
	joint = " · "
)

// table is rows and the headings of their columns. Columns in wide appear with "-o wide" only.
type table struct {
	heads []string
	rows  [][]string
	wide  []string
}

// write prints the table as kubectl does, in textWidth columns. It breaks the last column between items. Where the
// other columns leave it too little room, write cuts the first column. With "-o wide" a line may be longer.
func (t table) write(w io.Writer, wide bool) error {
	// The widths of k8s.io/cli-runtime/pkg/printers, which since 0.37 counts bytes where it should count letters.
	out := tabwriter.NewWriter(w, leastCol, 0, padding, ' ', 0)
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
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// widths returns the columns that the first and the last cell may take; 0 is no bound.
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

// fitted returns a row of cells, and further rows for items of the last cell that do not fit in one line.
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

// problemTable has one line per problem.
func problemTable(head string, problems []document.Problem) table {
	t := table{heads: []string{"NODE", head}}
	for _, p := range problems {
		t.rows = append(t.rows, []string{p.Node, p.Reason})
	}
	return t
}
