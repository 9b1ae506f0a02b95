package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// The lines of a page between which scores stand.
const (
	pageBegin = "<!-- scores: written by tenon-conformance --page -->"
	pageEnd   = "<!-- end of scores -->"
)

const pageHead = `| scheduler | Kubernetes | date | level | safe | live | aligned | exact | claims | gangs |` +
	` refused | evicted | half | waits | misaligned |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|`

// WritePage returns the page with the scores of this report. It replaces those of the same scheduler and release, and
// keeps the others. The page must have the two lines that enclose scores.
func (r *Report) WritePage(page string) (string, error) {
	if r.Part {
		return "", errors.New("write scores: only a part of the cases was played")
	}
	before, rest, ok := strings.Cut(page, pageBegin+"\n")
	if !ok {
		return "", fmt.Errorf("write scores: the page lacks the line %q", pageBegin)
	}
	block, after, ok := strings.Cut(rest, pageEnd)
	if !ok {
		return "", errors.New("write scores: the page lacks the end of its scores")
	}
	rows := replaced(block, fmt.Sprintf("| %s | %s |", r.Scheduler, r.Kubernetes), r.row())
	lost := replaced(block, fmt.Sprintf("- %s, %s: ", r.Scheduler, r.Kubernetes), r.lost())
	text := pageHead + "\n" + strings.Join(rows, "\n") + "\n\nCases that failed:\n\n" + strings.Join(lost, "\n") + "\n"
	return before + pageBegin + "\n" + text + pageEnd + after, nil
}

// replaced returns the lines of a block that begin like prefix: rows of the table, or items of the list. The line of
// the scheduler is replaced or added.
func replaced(block, prefix, line string) (out []string) {
	for old := range strings.Lines(block) {
		old = strings.TrimSuffix(old, "\n")
		if strings.HasPrefix(old, prefix[:2]) && !strings.HasPrefix(old, prefix) && !strings.HasPrefix(old, "| scheduler |") {
			out = append(out, old)
		}
	}
	out = append(out, line)
	slices.Sort(out)
	return out
}

// row returns the scores as a row of the table.
func (r *Report) row() string {
	level := string(r.Reached)
	if level == "" {
		level = "none"
	}
	cells := []string{r.Scheduler, r.Kubernetes, r.Date, level}
	for _, s := range r.Levels {
		cells = append(cells, fmt.Sprintf("%d/%d", s.Passed, s.Cases))
	}
	for _, name := range conformance.Areas() {
		var s Score
		if i := slices.IndexFunc(r.Areas, func(s Score) bool { return s.Area == name }); i >= 0 {
			s = r.Areas[i]
		}
		cell := "–" // gangs before Kubernetes 1.37
		if s.Cases > 0 {
			cell = fmt.Sprintf("%d/%d", s.Passed, s.Cases)
		}
		cells = append(cells, cell)
	}
	for _, k := range []judge.Kind{judge.AvoidableRefusal, judge.PointlessEviction, judge.HalfGang, judge.AvoidableWait,
		judge.AvoidableMisalignment} {
		cells = append(cells, fmt.Sprint(r.Findings[k]))
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// lost returns the names of the cases that failed as an item of the list, by level.
func (r *Report) lost() string {
	var parts []string
	add := func(what string, is func(c Case) bool) {
		var names []string
		for _, c := range r.Cases {
			if is(c) && !c.Passed {
				names = append(names, c.Name)
			}
		}
		if len(names) > 0 {
			parts = append(parts, what+" ("+strings.Join(names, ", ")+")")
		}
	}
	for _, l := range conformance.Levels() {
		add(string(l), func(c Case) bool { return c.Area == "" && c.Level == l })
	}
	for _, area := range conformance.Areas() {
		add(area, func(c Case) bool { return c.Area == area })
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	return fmt.Sprintf("- %s, %s: %s", r.Scheduler, r.Kubernetes, strings.Join(parts, "; "))
}
