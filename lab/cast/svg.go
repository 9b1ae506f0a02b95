package cast

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Sizes of the picture, in pixels.
const (
	letter = 8.4 // width of a letter of 14 pixel monospaced text
	pitch  = 17  // height of a line
	edge   = 16  // free space on every side
)

const sheet = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}
.b{font-weight:700}.p{fill:#7ee787}
`

// Draw writes the pages as one SVG. It shows each page for the time that a person needs to read it, and starts over
// after the last one. Where animations are off, it shows the first page.
func Draw(w io.Writer, title string, pages []Page) error {
	screens, columns, lines, err := layout(pages)
	if err != nil {
		return err
	}
	width, height := int(float64(columns)*letter)+2*edge, lines*pitch+2*edge
	b := bufio.NewWriter(w)
	const svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 %d %d\" role=\"img\">\n" +
		"<title>%s</title>\n"
	fmt.Fprintf(b, svg, width,
		height, escaped(title))
	fmt.Fprintf(b, "<style>%s%s</style>\n", sheet, animation(screens))
	fmt.Fprintf(b, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", width, height)
	for i, s := range screens {
		fmt.Fprintf(b, "<g class=\"s%d\">\n", i)
		row(b, 0, []span{{prompt, style{}}, {s.command, style{bold: true}}}, " class=\"p\"")
		for at, line := range s.lines {
			row(b, at+1, line, "")
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// animation returns the rules of the style sheet that show the screens one after the other, or "" for a single
// screen.
func animation(screens []screen) string {
	if len(screens) == 1 {
		return ""
	}
	total := 0.0
	for _, s := range screens {
		total += s.visibleSeconds()
	}
	var b strings.Builder
	from := 0.0
	for i, s := range screens {
		to := from + s.visibleSeconds()
		first := "hidden"
		if i == 0 {
			first = "visible"
		}
		const step = ".s%d{visibility:%s;animation:k%d %.1fs step-end infinite}\n@keyframes k%d{0%%{visibility:%s}"
		fmt.Fprintf(&b, step, i, first,
			i, total, i, first)
		if i > 0 {
			fmt.Fprintf(&b, "%.2f%%{visibility:visible}", 100*from/total)
		}
		if i < len(screens)-1 {
			fmt.Fprintf(&b, "%.2f%%{visibility:hidden}", 100*to/total)
		}
		b.WriteString("}\n")
		from = to
	}
	b.WriteString("@media (prefers-reduced-motion){[class^=s]{animation:none}}\n")
	return b.String()
}

// row draws one line of a screen; at is its number, from 0 on. It draws first the backgrounds, then the spans. Each
// span is stretched to the width of its letters, so the columns are the same in every font. class is an attribute of
// the text element, or "".
func row(b *bufio.Writer, at int, line []span, class string) {
	y, x := edge+at*pitch, float64(edge)
	var text strings.Builder
	for _, s := range line {
		n := utf8.RuneCountInString(s.text)
		wide := float64(n) * letter
		if s.style.bg != 0 {
			fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", x, y, wide, pitch,
				hex(s.style.bg))
		}
		if strings.TrimSpace(s.text) != "" {
			attributes := ""
			if s.style.bold {
				attributes += " class=\"b\""
			}
			if s.style.fg != 0 {
				attributes += fmt.Sprintf(" style=\"fill:%s\"", hex(s.style.fg))
			}
			const tspan = "<tspan x=\"%.1f\" textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\"%s>%s</tspan>"
			fmt.Fprintf(&text, tspan, x, wide, attributes,
				escaped(s.text))
		}
		x += wide
	}
	if text.Len() > 0 {
		fmt.Fprintf(b, "<text y=\"%d\"%s>%s</text>", y+13, class, text.String())
	}
	if len(line) > 0 {
		b.WriteByte('\n')
	}
}

func escaped(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder does not fail
	}
	return b.String()
}
