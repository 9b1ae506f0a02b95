// Package printable renders strings that nodes and users chose.
//
// A name may contain what a terminal or a log viewer interprets: escape sequences, line breaks, controls that reverse
// the direction of text. Invariant: the result of [Text] is one line of valid UTF-8 in which every rune is printable,
// and the results for two different strings differ. [Clip] bounds the length of a string before it is shown, and
// [Nearest] and [Instead] find the name that a misspelt one may mean.
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

// clean reports whether Text returns s unchanged.
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

// Clip returns s if it has at most limit bytes. Otherwise it returns the first bytes, at most limit and without part
// of a rune, followed by "...". It does not quote control characters: pass the result to [Text] or %q.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := max(0, limit)
	for end > 0 && end > limit-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
