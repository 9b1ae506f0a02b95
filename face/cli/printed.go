package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file removes from all output what a terminal would interpret. Names, annotations, events, logs and errors come
// from nodes, users and programs.

// printed writes text to a terminal or file, and fits it to the look of a terminal. Invariant: of what commands write,
// it passes on only printable runes, tabs and line breaks; it replaces other runes and bytes by "?".
type printed struct {
	out  io.Writer
	look look
	rest []byte // a rune whose last bytes come with the next write
	// held is printable text that is not written yet: it may be a part of a paragraph or table. Only terminals with a
	// look have such text.
	held string
}

// Write writes p. If p ends within a rune, it keeps the beginning of that rune for the next Write. For a terminal that
// is narrow or shows colour, it also keeps text that does not end with a line break, back to the last empty line.
func (w *printed) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	var out strings.Builder
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			r = '?'
		}
		out.WriteRune(r)
		text = text[n:]
	}
	w.rest = bytes.Clone(text)
	if w.look == (look{}) {
		_, err := io.WriteString(w.out, out.String())
		return len(p), err
	}
	w.held += out.String()
	whole := w.held
	if !strings.HasSuffix(whole, "\n") {
		whole = whole[:strings.LastIndex(whole, "\n\n")+1]
	}
	return len(p), w.show(whole)
}

// show writes the beginning of the held text, which consists of whole lines.
func (w *printed) show(whole string) error {
	if whole == "" {
		return nil
	}
	w.held = w.held[len(whole):]
	_, err := io.WriteString(w.out, w.look.show(strings.Split(strings.TrimSuffix(whole, "\n"), "\n")))
	return err
}

// flush writes the held text, as it is in the last line.
func (w *printed) flush() error {
	at := strings.LastIndexByte(w.held, '\n') + 1
	err := w.show(w.held[:at])
	_, last := io.WriteString(w.out, w.held)
	w.held = ""
	return errors.Join(err, last)
}

// flush writes what a printed holds, before the command waits for the user or writes past it.
func flush(w io.Writer) {
	if p, ok := w.(*printed); ok {
		_ = p.flush() // a writer that failed fails again at the next write
	}
}

// raw returns the writer to which a printed writes, or w itself if it is no printed. Archives need raw. Drawings need
// it, too: they make their texts printable themselves, and have colours and cursor movements.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(*printed); ok {
		flush(p)
		return p.out
	}
	return w
}

// unfitted returns a writer that makes text printable as w does, and does not fit it to a terminal. Programs read such
// text.
func unfitted(w io.Writer) io.Writer {
	if p, ok := w.(*printed); ok {
		flush(p)
		return &printed{out: p.out}
	}
	return w
}

// escapeJSON replaces the runes in JSON that are not printable by escapes with the same meaning. Such runes occur
// only in strings.
func escapeJSON(data []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(data) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}
