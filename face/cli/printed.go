package cli

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// This file keeps what a terminal interprets out of all outputs. Texts come from nodes, users and programs: names,
// annotations, events, logs, errors.

// printed writes text to a terminal or file. Invariant: nothing but printable runes, tabs and line breaks reaches out;
// other runes and bytes become "?".
type printed struct {
	out  io.Writer
	rest []byte // the beginning of a rune that the next write ends
}

// Write writes all of p, or what precedes a rune that is not whole yet.
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

// raw returns the writer below a printed one: for archives, and for drawings, which make every text in them printable
// themselves and have colours and cursor movements of their own.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(*printed); ok {
		return p.out
	}
	return w
}

// escapeJSON writes runes of JSON that are not printable as escapes, which stand for the same text. JSON has such runes
// in strings only.
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
