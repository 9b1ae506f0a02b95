package cli

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// This file removes from all output what a terminal would interpret. Names, annotations, events, logs and errors come
// from nodes, users and programs.

// printed writes text to a terminal or file. Invariant: it passes on only printable runes, tabs and line breaks; it
// replaces other runes and bytes by "?".
type printed struct {
	out  io.Writer
	rest []byte // a rune whose last bytes come with the next write
}

// Write writes p. If p ends within a rune, it keeps the beginning of that rune for the next Write.
func (w *printed) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	var out bytes.Buffer
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			r = '?'
		}
		out.WriteRune(r)
		text = text[n:]
	}
	w.rest = bytes.Clone(text)
	if _, err := w.out.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// raw returns the writer to which a printed writes, or w itself if it is no printed. Archives need raw. Drawings need
// it, too: they make their texts printable themselves, and have colours and cursor movements.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(*printed); ok {
		return p.out
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
