// Package cast records pages of terminal text: as an asciicast (version 2), which asciinema plays, and as an SVG, which
// a web page shows.
//
// Invariant: the same pages give the same bytes, so that a recording changes only with what it shows. The package
// understands the colours that package draw writes (SGR: reset, bold, 256-colour foreground and background) and
// refuses every other control character.
package cast

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Page is a command and its output. A page without a command continues the output of the page before it.
type Page struct{ Command, Text string }

// Times in the recording, in seconds.
const (
	perKey     = 0.04 // to type one letter of a command
	perLine    = 0.05 // to print one line of output
	pause      = 0.5  // before a command is typed, and before it answers
	perRead    = 0.22 // added to the time of a screen for each line of output
	minVisible = 4.0  // shortest time that a screen stays once all of it is there
)

// prompt begins a line that is typed: the command of a page, or a command in its output.
const prompt = "$ "

// maxLines bounds the lines of a screen. A longer page is shown on several.
const maxLines = 46

// line is a line of a screen: its spans, and the same as text with colour codes.
type line struct {
	spans []span
	raw   string
	typed bool // letter by letter, as a person types
}

// screen has the lines that are visible together.
type screen []line

// columns returns the columns that the line takes.
func (l line) columns() (n int) {
	for _, x := range l.spans {
		n += utf8.RuneCountInString(x.text)
	}
	return n
}

// times returns the second at which each line of the screen begins to appear, counted from the beginning of the
// screen, and the seconds that the screen takes with the time to read it. With ready, a command in the first line is
// there at once.
func (s screen) times(ready bool) (begin []float64, all float64) {
	at := 0.0
	for i, l := range s {
		typing := l.typed && !(ready && i == 0)
		if typing && i > 0 {
			at += pause
		}
		begin = append(begin, at)
		if typing {
			at += float64(l.columns()-len(prompt))*perKey + pause
		} else {
			at += perLine
		}
	}
	return begin, at + max(minVisible, float64(len(s))*perRead)
}

// layout parses pages into screens, and returns the columns and lines that the largest screen needs. It fails if there
// are no pages, or if a page has a control character that the package refuses.
func layout(pages []Page) (out []screen, columns, lines int, err error) {
	if len(pages) == 0 {
		return nil, 0, 0, fmt.Errorf("record: no pages")
	}
	for _, p := range pages {
		var s screen
		if p.Command != "" {
			s = append(s, line{[]span{{prompt, style{}}, {p.Command, style{bold: true}}}, prompt + p.Command, true})
		}
		for _, raw := range strings.Split(strings.Trim(p.Text, "\n"), "\n") {
			spans, err := parse(raw)
			if err != nil {
				return nil, 0, 0, fmt.Errorf("record the page of %q: %w", p.Command, err)
			}
			s = append(s, line{spans, raw, strings.HasPrefix(raw, prompt)})
		}
		out = append(out, s.split()...)
	}
	for _, s := range out {
		lines = max(lines, len(s))
		for _, l := range s {
			columns = max(columns, l.columns())
		}
	}
	return out, columns, lines, nil
}

// split returns the screen in parts of at most maxLines lines. It cuts at empty lines where it can, and drops these. It
// does not cut between a heading, which ends with a colon, and what follows it.
func (s screen) split() (out []screen) {
	for len(s) > maxLines {
		at, skip := maxLines, 0
		for i := maxLines; i > 0; i-- {
			if len(s[i].spans) == 0 && !strings.HasSuffix(s[i-1].raw, ":") {
				at, skip = i, 1
				break
			}
		}
		out = append(out, s[:at])
		s = s[at+skip:]
	}
	return append(out, s)
}

// header is the first line of an asciicast.
type header struct {
	Version int               `json:"version"`
	Width   int               `json:"width"`
	Height  int               `json:"height"`
	Title   string            `json:"title"`
	Env     map[string]string `json:"env"`
}

// Write writes the pages as an asciicast: commands are typed, output appears line by line and stays for a while.
func Write(w io.Writer, title string, pages []Page) error {
	screens, columns, lines, err := layout(pages)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	if err := e.Encode(header{2, columns, lines + 1, title, map[string]string{"TERM": "xterm-256color"}}); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	out := func(at float64, text string) {
		if err == nil {
			err = e.Encode([]any{json.Number(fmt.Sprintf("%.2f", at)), "o", text})
		}
	}
	from := 0.0
	for i, s := range screens {
		if i > 0 {
			out(from, "\x1b[2J\x1b[H")
		}
		begin, all := s.times(i == 0)
		for k, l := range s {
			at, rest := from+begin[k], l.raw
			if l.typed && (i > 0 || k > 0) {
				out(at, prompt)
				for _, key := range strings.TrimPrefix(l.raw, prompt) {
					at += perKey
					out(at, string(key))
				}
				rest = ""
			}
			out(at, rest+"\r\n")
		}
		from += all
	}
	out(from, "")
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}
