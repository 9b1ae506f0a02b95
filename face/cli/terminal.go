package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/tenon-numa/tenon/face/draw"
)

// This file fits the text of commands to a terminal. Commands write for textWidth columns and without colour. A
// terminal with fewer columns gets paragraphs and tables in lines of its own width, without the loss of a word. Where
// the terminal shows colour, headings are bold, and a few words that begin a line have a colour.

// look is how a terminal shows text. The zero value is a file or a pipe: it gets the text as commands wrote it.
type look struct {
	width int // columns; 0 where nothing has to be fitted
	color bool
}

// lookOf returns the look of a writer. color is the value of --color.
func lookOf(w io.Writer, color string) (l look) {
	file, ok := w.(*os.File)
	l.color = color == "always" || ok && color != "never" && draw.ColorWanted(file)
	if !ok {
		return l
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && width < textWidth {
		l.width = max(width, leastWidth)
	}
	return l
}

// leastWidth is the least width that text is fitted to.
const leastWidth = 40

// The colours of a terminal, as the parameters of its sequences.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// inks are the colours of words that begin a line.
var inks = []struct{ word, ink string }{
	{"error:", red}, {"Error from server", red}, {"Warning:", yellow}, {"Remedy:", green},
	{"error   ", red}, {"warning ", yellow}, {"info    ", cyan},
	{"Never", red}, {"Not without a change", yellow}, {"Not now", yellow},
}

// phrases are the colours of words that say how an answer is, wherever they stand in a line.
var phrases = []struct{ text, ink string }{
	{"can run on none of", red}, {"cannot run on", red}, {"fits on none of", red}, {"has no place", red},
	{"have no place", red}, {"nothing is wrong", green},
	{"nothing is as bad as", green},
}

// badCells are the cells of tables that are red, by the heading of their column.
var badCells = map[string]string{"ALIGNED": "no", "NOW": "nowhere", "GOES TO": "nowhere"}

// heading is the first line of a table: words in capitals, with at least padding blanks between the columns.
var heading = regexp.MustCompile(`^[A-Z][A-Z0-9]*( [A-Z0-9]+)*( {3,}[A-Z][A-Z0-9]*( [A-Z0-9]+)*)+$`)

// columnStarts returns the positions, in runes, at which the columns of a table begin.
func columnStarts(head string) (out []int) {
	blanks := padding
	for i, r := range []rune(head) {
		if r != ' ' && blanks >= padding {
			out = append(out, i)
		}
		if blanks++; r != ' ' {
			blanks = 0
		}
	}
	return out
}

// isRow reports whether a line is a row of a table: it has blanks before each column.
func isRow(line string, starts []int) bool {
	r := []rune(line)
	for _, at := range starts {
		for i := max(0, at-2); i < min(at, len(r)); i++ {
			if r[i] != ' ' {
				return false
			}
		}
	}
	return line != ""
}

// cellsOf cuts a line of a table at the columns.
func cellsOf(line string, starts []int) []string {
	r, out := []rune(line), make([]string, len(starts))
	for i, from := range starts {
		to := len(r)
		if i+1 < len(starts) {
			to = min(to, starts[i+1])
		}
		if from < to {
			out[i] = strings.TrimRight(string(r[from:to]), " ")
		}
	}
	return out
}

// show returns lines as a terminal shows them. The lines are whole paragraphs and tables.
func (l look) show(lines []string) string {
	var out strings.Builder
	for len(lines) > 0 {
		n := 1
		if heading.MatchString(lines[0]) {
			for starts := columnStarts(lines[0]); n < len(lines) && isRow(lines[n], starts); {
				n++
			}
			l.table(&out, lines[:n])
		} else {
			for n < len(lines) && l.width > 0 && continues(lines[0], lines[n-1], lines[n]) {
				n++
			}
			l.paragraph(&out, lines[:n])
		}
		lines = lines[n:]
	}
	return out.String()
}

// continues reports whether a line goes on with the paragraph that first begins: writeWrapped has broken the line
// before it, because the next word had no room. A command behind the end of a sentence is a line of its own.
func continues(first, before, line string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	command := word == "kubectl" && strings.HasSuffix(before, ".")
	return word != "" && !command && indentOf(line) == indentOf(first)+2 &&
		utf8.RuneCountInString(before)+1+utf8.RuneCountInString(word) > textWidth
}

// indentOf returns the number of blanks before a line. The severity of a finding stands in their place.
func indentOf(line string) int {
	if isFinding(line) {
		return findingIndent
	}
	return len(line) - len(strings.TrimLeft(line, " "))
}

// isFinding reports whether a line begins with the severity of a finding.
func isFinding(line string) bool {
	return slices.ContainsFunc(severities, func(severity string) bool {
		return strings.HasPrefix(line, fmt.Sprintf("%-*s", findingIndent, severity))
	})
}

// prose reports whether a line may be broken. Commands may not, because people copy them, nor may lines that are
// aligned with other lines: drawings, and the table of compare.
func prose(line string) bool {
	if isFinding(line) {
		line = line[findingIndent:]
	}
	text := strings.TrimSpace(line)
	return !strings.HasPrefix(text, "kubectl ") && !strings.Contains(text, "   ") && !strings.ContainsAny(text, "─│")
}

// paragraph writes the lines of a paragraph anew, in lines of the terminal's width.
func (l look) paragraph(out *strings.Builder, lines []string) {
	text, indent := lines[0], indentOf(lines[0])
	for _, more := range lines[1:] {
		text += " " + strings.TrimLeft(more, " ")
	}
	if l.width == 0 || utf8.RuneCountInString(text) <= l.width || !prose(text) {
		out.WriteString(l.painted(text) + "\n")
		return
	}
	rest, first := text, true
	for rest != "" {
		at := lineEnd(rest, l.width)
		line := strings.TrimRight(rest[:at], " ")
		if rest = strings.TrimLeft(rest[at:], " "); rest != "" {
			rest = strings.Repeat(" ", min(indent+2, l.width/2)) + rest
		}
		if first {
			line = l.painted(line)
		}
		out.WriteString(line + "\n")
		first = false
	}
}

// lineEnd returns the number of bytes of a text that go into a line of a width: whole words, or the first word alone
// where it has no room.
func lineEnd(text string, width int) int {
	columns, end, word := 0, 0, false
	for at, r := range text {
		if r == ' ' && word && (columns <= width || end == 0) {
			end = at
		}
		word = word || r != ' '
		if columns++; columns > width && end > 0 {
			return end
		}
	}
	if columns <= width || end == 0 {
		return len(text)
	}
	return end
}

// painted colours the word that begins a line, if it is one of inks, and otherwise the phrases in it.
func (l look) painted(line string) string {
	if !l.color {
		return line
	}
	text := strings.TrimLeft(line, " ")
	for _, i := range inks {
		if rest, ok := strings.CutPrefix(text, i.word); ok {
			return line[:len(line)-len(text)] + l.ink(i.ink, i.word) + rest
		}
	}
	for _, a := range phrases {
		line = strings.Replace(line, a.text, l.ink(a.ink, a.text), 1)
	}
	return line
}

func (l look) ink(parameters, text string) string {
	if !l.color || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + parameters + "m" + text + "\x1b[0m"
}

// table writes a table anew. Where it is wider than the terminal, the widest columns become narrower, and their cells
// go on in further lines.
func (l look) table(out *strings.Builder, lines []string) {
	starts := columnStarts(lines[0])
	rows, widths := make([][]string, len(lines)), make([]int, len(starts))
	for i, line := range lines {
		rows[i] = cellsOf(line, starts)
		for k, c := range rows[i] {
			widths[k] = max(widths[k], utf8.RuneCountInString(c))
		}
	}
	gap := padding
	if l.width > 0 && slices.ContainsFunc(lines, func(s string) bool { return utf8.RuneCountInString(s) > l.width }) {
		gap = 2
		widths = narrowed(widths, wordsIn(rows), l.width-gap*(len(widths)-1))
	} else { // the columns stay where they are
		for k := range widths[:len(widths)-1] {
			widths[k] = starts[k+1] - starts[k] - gap
		}
	}
	for i, cells := range rows {
		l.row(out, cells, rows[0], widths, gap, i == 0)
	}
}

// wordsIn returns the longest part of each column that is not broken at a blank, comma, slash or hyphen, in runes.
func wordsIn(rows [][]string) []int {
	out := make([]int, len(rows[0]))
	for _, cells := range rows {
		for k, c := range cells {
			for _, word := range parts(c) {
				out[k] = max(out[k], utf8.RuneCountInString(strings.TrimRight(word, " ")))
			}
		}
	}
	return out
}

// parts cuts a cell behind each blank, comma, slash and hyphen.
func parts(cell string) (out []string) {
	from := 0
	for at, r := range cell {
		if strings.ContainsRune(" ,/-", r) {
			out, from = append(out, cell[from:at+1]), at+1
		}
	}
	return append(out, cell[from:])
}

// narrowed returns widths whose sum is at most room, if no column has to be narrower than leastCell for that. The
// widest columns become narrower first, and columns become narrower than their words only after all others.
func narrowed(widths, words []int, room int) []int {
	const leastCell = 4
	out := slices.Clone(widths)
	sum := 0
	for _, n := range out {
		sum += n
	}
	for _, least := range [][]int{words, slices.Repeat([]int{leastCell}, len(out))} {
		for sum > room {
			widest := -1
			for k, n := range out {
				if n > least[k] && (widest < 0 || n > out[widest]) {
					widest = k
				}
			}
			if widest < 0 {
				break
			}
			out[widest]--
			sum--
		}
	}
	return out
}

// cellLines breaks a cell into lines of a width, between its parts where they have room.
func cellLines(cell string, width int) (out []string) {
	line := ""
	for _, part := range parts(cell) {
		for fits := utf8.RuneCountInString(line + strings.TrimRight(part, " ")); fits > width; {
			if line == "" { // a long word
				r := []rune(part)
				out, part = append(out, string(r[:width])), string(r[width:])
			} else {
				out, line = append(out, line), ""
			}
			fits = utf8.RuneCountInString(line + strings.TrimRight(part, " "))
		}
		line += part
	}
	return append(out, line)
}

// row writes one row of a table.
func (l look) row(out *strings.Builder, cells, heads []string, widths []int, gap int, head bool) {
	broken, height := make([][]string, len(cells)), 1
	for k, c := range cells {
		broken[k] = cellLines(c, max(1, widths[k]))
		height = max(height, len(broken[k]))
	}
	for i := range height {
		line, blanks := "", 0
		for k := range cells {
			text := ""
			if i < len(broken[k]) {
				text = strings.TrimRight(broken[k][i], " ")
			}
			n := utf8.RuneCountInString(text)
			switch {
			case head:
				text = l.ink(bold, text)
			case badCells[heads[k]] == text:
				text = l.ink(red, text)
			}
			if n > 0 {
				line += strings.Repeat(" ", blanks) + text
				blanks = 0
			}
			blanks += max(0, widths[k]-n) + gap
		}
		out.WriteString(line + "\n")
	}
}
