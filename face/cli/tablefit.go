package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tenon-numa/tenon/face/draw"
)

// This file gives the columns of a table their widths. A column that becomes narrower has its lists in further lines,
// and its names are cut in the middle: names of nodes often end with the same domain, and begin with the same words.

// tableFit is how a table is fitted into lines.
type tableFit []columnFit

type columnFit struct {
	width int    // 0 means no bound
	ends  string // of all names that are cut; it is left out
	tail  int    // how many letters before ends are kept of a name that is cut
}

// fit returns how the table is written in lines of at most textWidth columns, if its columns can be that narrow. With
// "-o wide" nothing has a bound.
func (t table) fit(wide bool) tableFit {
	f := make(tableFit, len(t.heads))
	if wide {
		return f
	}
	last := len(t.heads) - 1
	widths := make([]int, last+1)
	for _, r := range append([][]string{t.heads}, t.rows...) {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	natural := slices.Clone(widths)
	t.narrow(widths[:last], leastName, textWidth-min(natural[last], leastLast))
	t.narrow(widths[:last], leastCut, textWidth-min(natural[last], leastRest))
	for i, n := range widths[:last] {
		if n < natural[i] {
			f[i] = fitNames(t.names(i, n), n)
		}
	}
	f[last].width = max(min(natural[last], leastRest), textWidth-t.sum(widths[:last]))
	return f
}

// narrow makes the widest of the first columns narrower until all fit into room, or none is wider than least and than
// its heading.
func (t table) narrow(widths []int, least, room int) {
	for over := t.sum(widths) - room; over > 0; over-- {
		widest := -1
		for i, n := range widths {
			if n > max(least, utf8.RuneCountInString(t.heads[i])) && !slices.Contains(t.wide, t.heads[i]) &&
				(widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// sum returns how much of a line the first columns take, with the blanks behind each.
func (t table) sum(widths []int) (out int) {
	for i, n := range widths {
		if !slices.Contains(t.wide, t.heads[i]) {
			out += max(leastCol, n+padding)
		}
	}
	return out
}

// names returns the words of a column that are wider than it, each once.
func (t table) names(column, width int) []string {
	var out []string
	for _, r := range t.rows {
		for _, word := range strings.Fields(r[column]) {
			if utf8.RuneCountInString(word) > width {
				out = append(out, word)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fitNames returns how names are cut to a width. It leaves out the domain that all have, and keeps about as much of
// the beginning as of the end, or what keeps the most names distinct.
func fitNames(names []string, width int) columnFit {
	out := columnFit{width: width, ends: domain(names)}
	best, most := 0, 0
	for i := range 2 * width { // the middle, and then each number beside it
		out.tail = (width-1)/2 + (i+1)/2
		if i%2 == 0 {
			out.tail = (width-1)/2 - i/2
		}
		if out.tail < 0 || out.tail > width-2 {
			continue
		}
		seen := map[string]bool{}
		for _, n := range names {
			seen[out.clip(n)] = true
		}
		if len(seen) > most {
			best, most = out.tail, len(seen)
		}
		if most == len(names) {
			break
		}
	}
	out.tail = best
	return out
}

// domain returns the longest text from a dot on with which all names end.
func domain(names []string) string {
	if len(names) == 0 {
		return ""
	}
	for at, r := range names[0] {
		end := names[0][at:]
		if r == '.' && at > 0 && !slices.ContainsFunc(names, func(n string) bool { return !strings.HasSuffix(n, end) }) {
			return end
		}
	}
	return ""
}

// clip cuts a name to the column's width. An ellipsis stands for what is left out.
func (c columnFit) clip(name string) string {
	if utf8.RuneCountInString(name) <= c.width {
		return name
	}
	rest, width := strings.TrimSuffix(name, c.ends), c.width
	if c.ends != "" {
		width--
	}
	if r := []rune(rest); len(r) > width {
		rest = string(r[:max(0, width-1-c.tail)]) + "…" + string(r[len(r)-min(c.tail, width-1):])
	}
	if c.ends != "" {
		rest += "…"
	}
	return rest
}

// lines returns a row, and further rows for the items of cells that do not fit into one line.
func (f tableFit) lines(row []string) [][]string {
	cells, height := make([][]string, len(row)), 1
	for i, c := range row {
		cells[i] = f[i].lines(c, i == len(row)-1)
		height = max(height, len(cells[i]))
	}
	out := make([][]string, height)
	for at := range out {
		out[at] = make([]string, len(row))
		for i, lines := range cells {
			if at < len(lines) {
				out[at][i] = strings.TrimRight(lines[at], " ")
			}
		}
	}
	return out
}

// lines breaks a cell into lines of its column's width: between items, and else at a comma or a blank. A word that is
// longer is cut, except in the last column.
func (c columnFit) lines(text string, last bool) []string {
	text = draw.Printable(text)
	if c.width > 0 && !last && utf8.RuneCountInString(text) > c.width {
		words := strings.Split(text, " ")
		for i, word := range words {
			if !strings.Contains(word, ",") {
				words[i] = c.clip(word)
			}
		}
		text = strings.Join(words, " ")
	}
	return draw.Wrap(text, c.width)
}
