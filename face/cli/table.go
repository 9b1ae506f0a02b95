package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/face/draw"
)

const (
	// The columns that kubectl's tables put between cells, and the least that a cell takes with them.
	padding  = 3
	leastCol = 6
	// The least columns that a table leaves to its first and last column.
	leastFirst = 12
	leastLast  = 32
	// joint stands between the items of a cell. A last column that is too wide is broken there.
	joint = " · "
)

// table is the rows of a table below the headings of its columns. Columns named in wide appear with "-o wide" only.
type table struct {
	heads []string
	rows  [][]string
	wide  []string
}

// write prints the table as kubectl does, in textWidth columns: the last column is broken between items, and where
// the others leave it too little room the first column is cut. With "-o wide" a line may be longer.
func (t table) write(w io.Writer, wide bool) error {
	out := &metav1.Table{}
	for _, h := range t.heads {
		c := metav1.TableColumnDefinition{Name: h, Type: "string"}
		if slices.Contains(t.wide, h) {
			c.Priority = 1
		}
		out.ColumnDefinitions = append(out.ColumnDefinitions, c)
	}
	widths := t.widths(wide)
	for _, r := range t.rows {
		out.Rows = append(out.Rows, fitted(r, widths)...)
	}
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(out, w); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// widths are the columns that the first and the last cell may take; 0 is no bound.
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

// fitted returns a row of cells, and further rows for the items of the last cell that have no room in one line.
func fitted(r []string, w struct{ first, last int }) (out []metav1.TableRow) {
	last := len(r) - 1
	lines := draw.Wrap(r[last], w.last)
	for i, l := range lines {
		cells := make([]any, len(r))
		for k := range cells {
			cells[k] = ""
			if i == 0 {
				cells[k] = draw.Printable(r[k])
			}
		}
		if i == 0 && w.first > 0 && last > 0 {
			cells[0] = draw.Clip(r[0], w.first)
		}
		cells[last] = strings.TrimRight(l, " ")
		out = append(out, metav1.TableRow{Cells: cells})
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
