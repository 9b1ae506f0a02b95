// Package printable shows strings that nodes and users chose.
//
// A name may contain what a terminal or a reader of logs takes for something else: escape sequences, line
// breaks, controls that reverse the direction of text. Invariant: what [Text] returns is one line of valid
// UTF-8 in which every rune is printable, and two different strings never look the same. The package refuses
// to shorten: bounds on lengths belong to who reads the string.
package printable

import (
	"strconv"
	"unicode/utf8"
)

// Text returns s where all of it is printable, and s as a quoted Go string otherwise. A string that begins
// with a quotation mark is quoted, too, so that it is not taken for a quoted one.
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
