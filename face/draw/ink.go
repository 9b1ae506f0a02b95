package draw

import (
	"bufio"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is the look of a text on a colour terminal, in the 256-colour palette; 0 keeps the terminal's own colour.
type style struct {
	fg, bg uint8
	bold   bool
}

var (
	plain = style{}
	bold  = style{bold: true}
	faint = style{fg: 245}
	frame = style{fg: 242}
	alarm = style{fg: 203, bold: true}
)

// palette holds the colours of pods. They are light enough for black letters upon them, and
// neighbours differ for people with red-green colour blindness too.
var palette = [...]uint8{75, 214, 114, 176, 227, 80, 209, 141, 150, 218, 39, 180}

const black = 16

// podStyle returns the style of the pod at index i. It fills the cells of a reported holding, and only colours the
// letters of a predicted one.
func podStyle(i int, predicted bool) style {
	c := palette[i%len(palette)]
	if predicted {
		return style{fg: c, bold: true}
	}
	return style{fg: black, bg: c}
}

// span is a piece of a line in one style.
type span struct {
	text  string
	style style
}

// line is one line of output.
type line []span

func text(s style, format string, args ...any) line {
	return line{{fmt.Sprintf(format, args...), s}}
}

func (l line) width() int {
	n := 0
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

func (l line) add(s style, text string) line {
	if text == "" {
		return l
	}
	return append(l, span{text, s})
}

// pad fills the line with blanks up to a width.
func (l line) pad(width int) line {
	return l.add(plain, strings.Repeat(" ", max(0, width-l.width())))
}

// clip cuts the line to a width, and ends a cut line with an ellipsis.
func (l line) clip(width int) line {
	if l.width() <= width {
		return l
	}
	var out line
	for _, s := range l {
		n := utf8.RuneCountInString(s.text)
		if n >= width {
			return out.add(s.style, clipText(s.text+"…", width))
		}
		out, width = append(out, s), width-n
	}
	return out
}

// justify puts left and right at the two ends of a line of a width. It cuts left if both do not fit.
func justify(left, right line, width int) line {
	left = left.clip(max(0, width-right.width()-1))
	return append(left.pad(width-right.width()), right...)
}

// write writes the line without its end. Without colour it drops blanks at the end.
func (l line) write(b *bufio.Writer, color bool) {
	if !color {
		var s strings.Builder
		for _, p := range l {
			s.WriteString(p.text)
		}
		b.WriteString(strings.TrimRight(s.String(), " "))
		return
	}
	for _, p := range l {
		codes := p.style.codes()
		if codes == "" {
			b.WriteString(p.text)
			continue
		}
		b.WriteString("\x1b[" + codes + "m" + p.text + "\x1b[0m")
	}
}

// codes returns the parameters of the ANSI sequence of a style; "" for plain text.
func (s style) codes() string {
	var c []string
	if s.bold {
		c = append(c, "1")
	}
	if s.fg != 0 {
		c = append(c, fmt.Sprintf("38;5;%d", s.fg))
	}
	if s.bg != 0 {
		c = append(c, fmt.Sprintf("48;5;%d", s.bg))
	}
	return strings.Join(c, ";")
}

// clipText cuts a text to a number of runes. The last rune of a cut text is an ellipsis.
func clipText(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string(r[:width-1]) + "…"
}

// Printable replaces runes that are not printable by "?". Names come from outside, and such runes could move a
// terminal's cursor.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// joint stands between the items of a line.
const joint = " · "

// wrap sets items one after the other, separated by joint, in lines of a width. It breaks an item that is too long
// for a line, if possible after a comma or a blank.
func wrap(s style, items []string, width int) []line {
	var out []line
	at := ""
	flush := func() {
		if at != "" {
			out = append(out, text(s, "%s", at))
		}
		at = ""
	}
	for _, it := range items {
		if at != "" && utf8.RuneCountInString(at+joint+it) <= width {
			at += joint + it
			continue
		}
		flush()
		for utf8.RuneCountInString(it) > width {
			cut := breakAt([]rune(it), width)
			out = append(out, text(s, "%s", string([]rune(it)[:cut])))
			it = string([]rune(it)[cut:])
		}
		at = it
	}
	flush()
	return out
}

// breakAt returns the length of the first part of a text that is too long for a line.
func breakAt(r []rune, width int) int {
	for i := width; i > width/2; i-- {
		if r[i-1] == ',' || r[i-1] == ' ' {
			return i
		}
	}
	return width
}
