package cast

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// style is the look of a text: colours of the 256-colour palette; 0 leaves the terminal's own colour.
type style struct {
	fg, bg int
	bold   bool
}

// span is text of one style.
type span struct {
	text  string
	style style
}

// parse splits a line into spans, one for each change of colour. It fails at every control sequence that is not an
// SGR sequence which [style.with] understands.
func parse(line string) (out []span, err error) {
	var now style
	for line != "" {
		text, rest, colored := strings.Cut(line, "\x1b[")
		if at := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
			return nil, fmt.Errorf("control character %q", text[at:])
		}
		if text != "" {
			out = append(out, span{text, now})
		}
		if !colored {
			break
		}
		codes, after, ok := strings.Cut(rest, "m")
		if !ok {
			return nil, fmt.Errorf("control sequence %q is no colour", rest)
		}
		if now, err = now.with(codes); err != nil {
			return nil, err
		}
		line = after
	}
	return out, nil
}

// with returns the style after an SGR sequence with the given parameters, which are separated by semicolons.
func (s style) with(codes string) (style, error) {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case "", "0":
			s = style{}
		case "1":
			s.bold = true
		case "38", "48":
			if i+2 >= len(list) || list[i+1] != "5" {
				return s, fmt.Errorf("colour %q is none of the 256-colour palette", codes)
			}
			n, err := strconv.Atoi(list[i+2])
			if err != nil || n < 0 || n > 255 {
				return s, fmt.Errorf("colour %q is none of the 256-colour palette", codes)
			}
			if list[i] == "38" {
				s.fg = n
			} else {
				s.bg = n
			}
			i += 2
		default:
			return s, fmt.Errorf("colour %q is not understood", codes)
		}
	}
	return s, nil
}

// hex returns colour n of xterm's palette in the form #rrggbb. The first 16 colours belong to the terminal's theme;
// for them it returns the colour of plain text.
func hex(n int) string {
	level := func(i int) int {
		if i == 0 {
			return 0
		}
		return 55 + 40*i
	}
	switch {
	case n >= 232:
		gray := 8 + 10*(n-232)
		return fmt.Sprintf("#%02x%02x%02x", gray, gray, gray)
	case n >= 16:
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	return "#c9d1d9"
}
