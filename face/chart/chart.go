// Package chart draws bar charts as SVG.
//
// Invariant: the same panels give the same text. The text has only the colours of its own style sheet, which has a
// second set for dark pages, and writes beside each bar the number that the bar shows. The package refuses values
// that are negative or not numbers, and does not depend on what the bars mean.
package chart

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Bar is one bar of a panel.
type Bar struct {
	Label string
	Value float64 // 0 or more; the largest value of a panel fills its width
	Text  string  // written at the end of the bar
	// Strong selects the colour that catches the eye.
	Strong bool
}

// Panel is one chart.
type Panel struct {
	Title string
	Note  string // below the title, such as which end is the better one
	Bars  []Bar
}

// Row is a title and the panels below it, beside each other.
type Row struct {
	Title  string
	Panels []Panel
}

// Sizes, in pixels.
const (
	width    = 980
	margin   = 16
	gap      = 24
	rowHead  = 34
	head     = 42
	barPitch = 20
	barSize  = 14
	letter   = 6.6 // mean width of a character in 12 pixel text
)

const style = `
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f }
.row { font-size: 15px; font-weight: 600 }
.title { font-weight: 600 }
.note { fill: #6e7781 }
.bar { fill: #afb8c1 }
.strong { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #8d96a0 } .bar { fill: #57606a } .strong { fill: #3fb950 }
}
`

// Write draws rows below each other. It returns the writer's error, an error that names a bar whose value is negative
// or not finite, or an error for a row without panels.
func Write(w io.Writer, title string, rows []Row) error {
	height := margin
	for _, r := range rows {
		if err := r.check(); err != nil {
			return err
		}
		height += r.height()
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, height)
	fmt.Fprintf(out, "<title>%s</title>\n<style>%s</style>\n", escaped(title), style)
	y := margin
	for _, r := range rows {
		r.write(out, y)
		y += r.height()
	}
	fmt.Fprintln(out, "</svg>")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	return nil
}

// check returns an error if the row cannot be drawn.
func (r Row) check() error {
	if len(r.Panels) == 0 {
		return errors.New("draw chart: a row has no panels")
	}
	for _, p := range r.Panels {
		for _, b := range p.Bars {
			if !(b.Value >= 0) || math.IsInf(b.Value, 0) {
				return fmt.Errorf("draw chart: %s: bar %q has value %v", p.Title, b.Label, b.Value)
			}
		}
	}
	return nil
}

func (r Row) height() int {
	bars := 0
	for _, p := range r.Panels {
		bars = max(bars, len(p.Bars))
	}
	return rowHead + head + bars*barPitch + margin
}

func (r Row) write(w io.Writer, y int) {
	fmt.Fprintf(w, "<text class=\"row\" x=\"%d\" y=\"%d\">%s</text>\n", margin, y+16, escaped(r.Title))
	each := (width - 2*margin - (len(r.Panels)-1)*gap) / len(r.Panels)
	for i, p := range r.Panels {
		p.write(w, margin+i*(each+gap), y+rowHead, each)
	}
}

// write draws a panel in the given width: labels, bars, and the text of each bar. x and y are its upper left corner.
func (p Panel) write(w io.Writer, x, y, width int) {
	fmt.Fprintf(w, "<text class=\"title\" x=\"%d\" y=\"%d\">%s</text>\n", x, y+12, escaped(p.Title))
	fmt.Fprintf(w, "<text class=\"note\" x=\"%d\" y=\"%d\">%s</text>\n", x, y+28, escaped(p.Note))
	label, text, largest := 0, 0, 0.0
	for _, b := range p.Bars {
		label = max(label, utf8.RuneCountInString(b.Label))
		text = max(text, utf8.RuneCountInString(b.Text))
		largest = max(largest, b.Value)
	}
	from := x + int(float64(label)*letter) + 8
	room := max(8, width-(from-x)-int(float64(text)*letter)-8)
	for i, b := range p.Bars {
		top, class, long := y+head+i*barPitch, "bar", 0
		if b.Strong {
			class = "bar strong"
		}
		if largest > 0 {
			long = int(math.Round(b.Value / largest * float64(room)))
		}
		fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\">%s</text>", x, top+11, escaped(b.Label))
		fmt.Fprintf(w, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", class, from, top,
			max(1, long), barSize)
		fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\">%s</text>\n", from+max(1, long)+5, top+11, escaped(b.Text))
	}
}

func escaped(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder does not fail
	}
	return b.String()
}
