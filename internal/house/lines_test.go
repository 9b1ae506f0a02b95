package house_test

import (
	"bytes"
	"go/format"
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how long a line of Go may be; a tab is one column, and raw string literals do not count: their lines
// cannot be broken.
const maxColumns = 120

func TestFilesAreFormatted(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.files {
			if formatted, err := format.Source(f.text); err != nil || !bytes.Equal(formatted, f.text) {
				t.Errorf("%s is not formatted (%v): run gofmt", f.name, err)
			}
			if f.generated() {
				continue
			}
			for _, line := range longLines(f.text) {
				t.Errorf("%s:%d has more than %d columns", f.name, line, maxColumns)
			}
		}
	}
}

// longLines returns the numbers of the lines that are too long.
func longLines(src []byte) (long []int) {
	raw := rawStrings(src)
	at := 0
	for i, line := range strings.Split(string(src), "\n") {
		columns := utf8.RuneCountInString(line)
		for _, r := range raw {
			if from, to := max(r[0], at), min(r[1], at+len(line)); from < to {
				columns -= utf8.RuneCountInString(line[from-at : to-at])
			}
		}
		if columns > maxColumns {
			long = append(long, i+1)
		}
		at += len(line) + 1
	}
	return long
}

// rawStrings returns where the raw string literals of a file begin and end.
func rawStrings(src []byte) (out [][2]int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out
		}
		if from := file.Offset(pos); tok == token.STRING && strings.HasPrefix(lit, "`") {
			out = append(out, [2]int{from, from + len(lit)})
		}
	}
}

func TestLongLinesAreFound(t *testing.T) {
	full := strings.Repeat("x", maxColumns-3)
	for name, c := range map[string]struct {
		src  string
		long int
	}{
		"full":                   {"// " + full, 0},
		"too long":               {"package x\n\n// x" + full, 3},
		"other than ASCII":       {"// " + strings.Repeat("é", maxColumns-3), 0},
		"in a raw string":        {"package x\n\nvar x = `" + full + full + "`", 0},
		"beside a raw string":    {"package x\n\nvar x = `a` // " + full, 3},
		"in a raw string's line": {"package x\n\nvar x = `a\n" + full + full + "\n`", 0},
	} {
		got := longLines([]byte(c.src))
		if c.long == 0 && len(got) > 0 || c.long > 0 && (len(got) != 1 || got[0] != c.long) {
			t.Errorf("%s: lines %v are long, want line %d", name, got, c.long)
		}
	}
}
