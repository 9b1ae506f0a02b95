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

// Page is one screen: a command and its output.
type Page struct{ Command, Text string }

// Times in the recording, in seconds.
const (
	perKey     = 0.04 // to type one letter of a command
	perLine    = 0.03 // to print one line of output
	perRead    = 0.25 // added to a page's time for each line of output
	minVisible = 4.0  // shortest time that a page stays
)

const prompt = "$ "

// screen is a page whose text is split into lines: lines has the spans of each line, and raw the same lines as text
// with colour codes.
type screen struct {
	command string
	lines   [][]span
	raw     []string
}

// visibleSeconds returns the seconds that the screen stays visible, long enough to read it.
func (s screen) visibleSeconds() float64 { return max(minVisible, float64(len(s.lines))*perRead) }

// layout parses pages into screens, and returns the columns and lines that the largest screen needs, its prompt
// included. It fails if there are no pages, or if a page has a control character that the package refuses.
func layout(pages []Page) (out []screen, columns, lines int, err error) {
	if len(pages) == 0 {
		return nil, 0, 0, fmt.Errorf("record: no pages")
	}
	for _, p := range pages {
		s := screen{command: p.Command, raw: strings.Split(strings.Trim(p.Text, "\n"), "\n")}
		columns = max(columns, utf8.RuneCountInString(prompt+p.Command)+1)
		for _, raw := range s.raw {
			spans, err := parse(raw)
			if err != nil {
				return nil, 0, 0, fmt.Errorf("record the page of %q: %w", p.Command, err)
			}
			n := 0
			for _, x := range spans {
				n += utf8.RuneCountInString(x.text)
			}
			columns = max(columns, n)
			s.lines = append(s.lines, spans)
		}
		lines = max(lines, len(s.lines)+2)
		out = append(out, s)
	}
	return out, columns, lines, nil
}

// header is the first line of an asciicast.
type header struct {
	Version int               `json:"version"`
	Width   int               `json:"width"`
	Height  int               `json:"height"`
	Title   string            `json:"title"`
	Env     map[string]string `json:"env"`
}

// Write writes the pages as an asciicast: each command is typed, its output appears line by line and stays for a while.
func Write(w io.Writer, title string, pages []Page) error {
	screens, columns, lines, err := layout(pages)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	if err := e.Encode(header{2, columns, lines, title, map[string]string{"TERM": "xterm-256color"}}); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	at := 0.0
	out := func(after float64, text string) {
		at += after
		if err == nil {
			err = e.Encode([]any{json.Number(fmt.Sprintf("%.2f", at)), "o", text})
		}
	}
	for i, s := range screens {
		clear := ""
		if i > 0 {
			clear = "\x1b[2J\x1b[H"
		}
		out(0.5, clear+prompt)
		for _, key := range s.command {
			out(perKey, string(key))
		}
		out(0.5, "\r\n")
		for _, line := range s.raw {
			out(perLine, line+"\r\n")
		}
		out(s.visibleSeconds(), "")
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}
