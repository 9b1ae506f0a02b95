// Package printable renders strings that nodes and users chose.
//
// A name may contain what a terminal or a log viewer interprets: escape sequences, line breaks, controls that reverse
// the direction of text. Invariant: the result of [Text] is one line of valid UTF-8 in which every rune is printable,
// and two different strings never look the same. [Clip] bounds the length of a string before it is shown, and [Nearest]
// finds the name that a misspelt one may mean.
package printable

import (
	"strconv"
	"unicode/utf8"
)

// Text returns s if all of it is printable, and otherwise s as a quoted Go string. It also quotes a string that begins
// with a quotation mark, so that the result is not ambiguous.
func Text(s string) string {
	if clean(s) {
		return s
	}
	return strconv.Quote(s)
}

func clean(s string) bool {
	if s != "" && s[0] == '"' || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// Clip returns s if it has at most the given number of bytes, and otherwise its first bytes, up to the end of a rune,
// and "...". It changes nothing else: what s has of controls stays for [Text] or %q.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := max(0, most)
	for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
