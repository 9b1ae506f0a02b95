package cli

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tenon-numa/tenon/api/document"
)

const (
	// padding is the number of blanks that kubectl's tables put behind a cell. leastCol is the least width of a cell
	// including these blanks.
	padding  = 3
	leastCol = 6
	// leastLast is the least width of the last column, while the others have at least leastName. Then these become
	// narrower, down to leastCut, as long as the last one has less than leastRest.
	leastLast = 32
	leastName = 24
	leastRest = 20
	leastCut  = 12
	// joint separates the items of a cell. The text of a last column that is too wide is broken at a joint.
	joint = " · "
)

// blanksAtEnd are what tabwriter puts behind the last cell of a line that has text.
var blanksAtEnd = regexp.MustCompile(`(?m) +$`)

// table has rows, and the headings of their columns. The columns whose headings are in wide appear only with "-o
// wide".
type table struct {
	heads []string
	rows  [][]string
	wide  []string
}

// write writes the table as kubectl does, in lines of at most textWidth columns: it breaks the last cell between
// items, and makes the widest of the others narrower if the last has too little room. With "-o wide" a line may be
// longer. Without rows it writes nothing.
func (t table) write(w io.Writer, wide bool) error {
	// These are the widths of k8s.io/cli-runtime/pkg/printers. That package is not used, because since 0.37 it counts
	// bytes where it should count letters.
	var text bytes.Buffer // a table is written at once, so that a terminal's look finds all of it
	out := tabwriter.NewWriter(&text, leastCol, 0, padding, ' ', 0)
	lines := [][]string{t.heads}
	fit := t.fit(wide)
	for _, r := range t.rows {
		lines = append(lines, fit.lines(r)...)
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
	if _, err := w.Write(blanksAtEnd.ReplaceAll(text.Bytes(), nil)); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
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
