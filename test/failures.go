package main

import (
	"regexp"
	"strings"
)

// lastLines is how many lines of each failed test are kept: a test's errors are at the end of its output.
const lastLines = 12

// failures collects, from the output of go test, the last lines of each failed test, but for lines of logs. The run
// prints them at its end: a failure early in a run of an hour is far above what the terminal, or CI, still shows.
type failures struct {
	lines   lines
	verbose bool     // tests print their lines before their result
	open    bool     // the lines of the last failed test follow
	recent  []string // of a verbose run
	all     [][]string
}

func (f *failures) Write(p []byte) (int, error) {
	f.lines.each(p, func(line string) { f.line(shortened(line)) })
	return len(p), nil
}

// logged matches a line of the log of a Kubernetes component, such as "E1129 11:50:44.087322". A test that has failed
// prints such logs behind its errors.
var logged = regexp.MustCompile(`^\s+[EIWF]\d{4} \d{2}:\d{2}:\d{2}\.`)

func (f *failures) line(s string) {
	switch {
	case logged.MatchString(s):
	case strings.HasPrefix(s, "=== "):
		f.verbose, f.open = true, false
	case strings.HasPrefix(strings.TrimLeft(s, " "), "--- FAIL: "):
		f.all = append(f.all, append([]string{s}, f.recent...))
		f.recent, f.open = nil, !f.verbose
	case strings.HasPrefix(s, "    ") && f.open:
		last := &f.all[len(f.all)-1]
		if *last = append(*last, s); len(*last) > lastLines+1 {
			*last = append((*last)[:1], (*last)[2:]...)
		}
	case strings.HasPrefix(s, "    ") && f.verbose:
		if f.recent = append(f.recent, s); len(f.recent) > lastLines {
			f.recent = f.recent[1:]
		}
	case strings.HasPrefix(s, "--- ") || strings.HasPrefix(s, "FAIL") || strings.HasPrefix(s, "ok "):
		f.open, f.recent = false, nil
	}
}

// shortened returns the beginning of a line.
func shortened(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
