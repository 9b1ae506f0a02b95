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

// Draw writes the pages as one SVG. Commands are typed, and output appears line by line; each screen stays for the
// time that a person needs to read it, and the first one follows the last. Where animations are off, the whole first
// screen is shown.
func Draw(w io.Writer, title string, pages []Page) error {
	screens, columns, lines, err := layout(pages)
	if err != nil {
		return err
	}
	width, height := int(float64(columns)*letter)+2*edge, lines*pitch+2*edge
	b := bufio.NewWriter(w)
	const svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 %d %d\" role=\"img\">\n" +
		"<title>%s</title>\n"
	fmt.Fprintf(b, svg, width, height, escaped(title))
	f := filmOf(screens)
	fmt.Fprintf(b, "<style>%s%s</style>\n", sheet, f.rules())
	fmt.Fprintf(b, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", width, height)
	for i, s := range screens {
		fmt.Fprintf(b, "<g class=\"s%d\">\n", i)
		for k, l := range s {
			f.row(b, i, k, l)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// film says when the parts of the picture are visible, in seconds from the beginning.
type film struct {
	from    []float64   // when each screen begins
	begin   [][]float64 // when each line begins to appear, by screen
	all     float64     // length of the film
	longest float64     // length of the longest screen
}

func filmOf(screens []screen) (f film) {
	for i, s := range screens {
		begin, long := s.times(i == 0)
		for k := range begin {
			begin[k] += f.all
		}
		f.from, f.begin = append(f.from, f.all), append(f.begin, begin)
		f.all += long
		f.longest = max(f.longest, long)
	}
	return f
}

// rules returns the rules of the style sheet that move the film. A group is opaque while its screen is shown. What has
// class t becomes visible at the time that its own delay says, and stays so for as long as the longest screen; its
// group hides it earlier. Delays are negative, so that the animation is in effect from the beginning on.
func (f film) rules() string {
	var b strings.Builder
	for i, from := range f.from {
		first := 0
		if i == 0 {
			first = 1
		}
		const rule = ".s%d{opacity:%d;animation:s%d %.2fs step-end infinite}\n@keyframes s%d{0%%{opacity:%d}"
		fmt.Fprintf(&b, rule, i, first, i, f.all, i, first)
		if i > 0 {
			fmt.Fprintf(&b, "%.3f%%{opacity:1}", 100*from/f.all)
		}
		if i < len(f.from)-1 {
			fmt.Fprintf(&b, "%.3f%%{opacity:0}", 100*f.from[i+1]/f.all)
		}
		b.WriteString("}\n")
	}
	fmt.Fprintf(&b, ".t{animation:t %.2fs step-end infinite}\n@keyframes t{0%%{visibility:visible}", f.all)
	if f.longest < f.all {
		fmt.Fprintf(&b, "%.3f%%{visibility:hidden}", 100*f.longest/f.all)
	}
	b.WriteString("}\n@media (prefers-reduced-motion){[class]{animation:none}}\n")
	return b.String()
}

// shown returns the attributes of what becomes visible at a second of the film.
func (f film) shown(at float64, class string) string {
	if at > 0 {
		return fmt.Sprintf(" class=\"%s\" style=\"animation-delay:%.2fs\"", strings.TrimSpace("t "+class), at-f.all)
	}
	if class == "" {
		return ""
	}
	return fmt.Sprintf(" class=\"%s\"", class)
}

// row draws line k of screen i: first the backgrounds, then the spans. Each span is stretched to the width of its
// letters, so the columns are the same in every font.
func (f film) row(b *bufio.Writer, i, k int, l line) {
	if len(l.spans) == 0 {
		return
	}
	at, y := f.begin[i][k], edge+k*pitch
	if l.typed {
		f.typed(b, at, y+13, l, i == 0 && k == 0)
		return
	}
	x := float64(edge)
	var text strings.Builder
	fmt.Fprintf(b, "<g%s>", f.shown(at, ""))
	for _, s := range l.spans {
		n := utf8.RuneCountInString(s.text)
		wide := float64(n) * letter
		if s.style.bg != 0 {
			fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", x, y, wide, pitch,
				hex(s.style.bg))
		}
		if strings.TrimSpace(s.text) != "" {
			text.WriteString(drawn(s, x, wide))
		}
		x += wide
	}
	if text.Len() > 0 {
		fmt.Fprintf(b, "<text y=\"%d\">%s</text>", y+13, text.String())
	}
	b.WriteString("</g>\n")
}

// drawn returns a span that begins at x and is wide pixels wide.
func drawn(s span, x, wide float64) string {
	attributes := ""
	if s.style.bold {
		attributes += " class=\"b\""
	}
	if s.style.fg != 0 {
		attributes += fmt.Sprintf(" style=\"fill:%s\"", hex(s.style.fg))
	}
	const tspan = "<tspan x=\"%.1f\" textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\"%s>%s</tspan>"
	return fmt.Sprintf(tspan, x, wide, attributes, escaped(s.text))
}

// typed draws a line with a prompt and a command, whose letters appear one after the other from a second on, or all at
// that second if ready. y is its base line.
func (f film) typed(b *bufio.Writer, at float64, y int, l line, ready bool) {
	var text strings.Builder
	for _, s := range l.spans {
		text.WriteString(s.text)
	}
	command := []rune(strings.TrimPrefix(text.String(), prompt))
	fmt.Fprintf(b, "<text y=\"%d\"%s>%s</text>", y, f.shown(at, "p"),
		drawn(span{prompt, style{}}, edge, float64(len(prompt))*letter))
	x := edge + float64(len(prompt))*letter
	if ready {
		fmt.Fprintf(b, "<text y=\"%d\"%s>%s</text>\n", y, f.shown(at, "p"),
			drawn(span{string(command), style{bold: true}}, x, float64(len(command))*letter))
		return
	}
	for k, r := range command {
		if r == ' ' {
			continue
		}
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\"%s>%s</text>", x+float64(k)*letter, y,
			f.shown(at+float64(k+1)*perKey, "b p"), escaped(string(r)))
	}
	b.WriteByte('\n')
}

func escaped(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a strings.Builder does not fail
	}
	return b.String()
}
